"""A travel desk under faults and kills, judged by its services' own books: ``python -m bench.travel --help``.

Read on in this order: ``plan`` (what a trip is), ``weather`` and ``service`` (the other side, five processes with their
books), ``desk`` (the tools), ``agent`` (one life of a worker), ``fleet`` (all of them, and who kills them), ``claims``
(what settled says in the end), ``judge``.
"""
