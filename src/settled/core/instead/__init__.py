"""What is done in the place of a call that did nothing."""
