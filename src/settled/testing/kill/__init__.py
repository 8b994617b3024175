"""The kill suite: real processes, killed with SIGKILL at every boundary, judged by a ledger of what truly happened.

``python -m settled.testing.kill --rounds 200 --seed 1`` plays random rounds; ``--script batch`` (and so on)
chooses what is played, ``--journal postgresql://…`` where; ``--every`` kills at each
boundary in turn. Needs POSIX.

Read on in this order: ``fuse`` (where a process dies), ``service`` (the other side and its ledger), ``scripts`` (what a
process does), ``life`` (one process), ``judge`` (what must hold afterwards). Runs have oracles of their own, from the
books of their world and what settled says in the end: ``sagas``, ``joins`` and ``visits`` (two agents), ``batches``,
``drafts``, ``rewinds``, ``fallbacks``; ``aftermath`` has what they share.
"""
