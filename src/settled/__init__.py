"""Every tool call of an LLM agent ends settled: done once, proved not done, undone, or in a person's queue."""
