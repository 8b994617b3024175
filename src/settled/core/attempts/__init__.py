"""The attempts of one call: made, their ends read, repeated within budgets, and kept off by breakers."""
