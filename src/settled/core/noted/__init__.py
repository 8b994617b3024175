"""What is noted in the journal beside its calls."""
