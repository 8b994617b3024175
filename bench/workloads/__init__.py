"""Real agent tasks replayed under faults and kills, with settled and without: ``python -m bench.workloads --help``.

Read on in this order: ``world`` (the tools, in a process that outlives the agents), ``agent`` (one life of an agent),
``bare`` and ``guarded`` (how it makes a call), ``seeds`` (playing a seed to its end), ``judge``.
"""
