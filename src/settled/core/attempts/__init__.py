"""The attempts of one call: made, read, repeated, and stopped."""
