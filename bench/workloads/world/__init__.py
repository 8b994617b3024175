"""The tools' world: a process of its own, which stands while agents are killed. Standard library only.

It runs in an environment of its own, so nothing here imports settled or anything else that agents use.
"""
