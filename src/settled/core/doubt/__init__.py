"""What is in doubt, and how it comes to a final state."""
