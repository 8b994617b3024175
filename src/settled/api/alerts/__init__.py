"""Alerts: what is told of, to whom, until it was taken."""
