"""The kill suite: real processes, killed with SIGKILL at every boundary, judged by a ledger of what truly happened.

``python -m settled.testing.kill --rounds 200 --seed 1`` plays random rounds. Needs a POSIX system.

Read on in this order: ``fuse`` (where a process dies), ``service`` (the other side and its ledger), ``scripts`` (what a
process does), ``life`` (one process), ``judge`` (what must hold afterwards).
"""
