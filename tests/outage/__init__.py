"""Loads of several processes on one journal, and what goes wrong meanwhile."""
