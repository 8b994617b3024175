"""The journal in a Redis or Valkey server: shared by many processes of many machines. Needs ``settled[redis]``.

Every change is recorded when ``perform`` returns, as far as the server's own settings keep it (``appendonly``,
``appendfsync``, ``maxmemory-policy``, replicas); where they may lose it, ``write`` tools are refused unless that is
accepted (``accept_loss=True``), and ``check`` says how it can be lost.
"""

from settled.journals.redis.journal import RedisJournal, open_redis

__all__ = ["RedisJournal", "open_redis"]
