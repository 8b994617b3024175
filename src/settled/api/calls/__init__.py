"""One call, from its arguments to what the asker is given."""
