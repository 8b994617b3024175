"""Runs of an agent, and what becomes of them."""
