"""One small bug at a time in the core: which of them does a test notice, and how?"""
