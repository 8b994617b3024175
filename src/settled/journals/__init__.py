"""Journals: one atomic operation per transition, the rules from the core."""
