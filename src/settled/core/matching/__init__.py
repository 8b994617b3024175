"""Which record answers an ask."""
