"""The simulator: seeded worlds of virtual time, in which the machine of the core is judged by ground truth.

``python -m settled.testing.simulate`` plays them; ``profiles`` has the kinds of worlds.

Read on in this order: ``loop`` (time), ``world`` and ``tools`` (what truly happens), ``shaky`` (the journal),
``driver`` (performs the machine's commands), ``workers`` (the processes), ``plans`` and ``mind`` (what is meant, and
what is made of the answers), ``asking`` (how it is asked for), ``simulation`` (all of it together). At work are
``agents``, ``trips`` (runs that are undone), ``guests`` and ``colleagues`` (who join a run), ``chains`` (fallbacks),
``nested`` (calls inside of a call), ``rows`` (transactional tools), ``people`` (who settle what is left). The judges
are ``oracle``, ``saga_oracle`` and ``chain_oracle``; they know the world, and none of the rules.
"""
