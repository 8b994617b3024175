"""What retries do to a service, in virtual time: settled's own pools, backoff and breaker beside the naive ways.

``python -m bench.simulation`` plays all models (fixed seeds, no clock, no threads) and prints figures and claims.
"""
