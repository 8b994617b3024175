"""Tools and models: what they declare, and how they take arguments."""
