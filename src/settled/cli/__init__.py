"""The command line: thin commands over ``settled.api``, for people and for scripts."""

from settled.cli.app import main

__all__ = ["main"]
