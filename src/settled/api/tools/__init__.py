"""What a tool or a model declares."""
