"""Two-phase approval: leave from a person, and effects that are prepared first."""
