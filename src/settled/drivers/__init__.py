"""Drivers: perform what the machine commands, report what happened. Cleverness belongs in the core."""
