"""What people and workers are shown of what was left open, and what they do with it."""
