"""The journal in a PostgreSQL database: shared by many processes of many machines. Needs ``settled[postgres]``.

Every change is durable when ``perform`` returns, as far as the server's own settings go (``fsync``, and what the
commit waits for on standbys, ``synchronous_commit``); ``check`` names those that would lose records.
"""

from settled.journals.postgres.journal import PostgresJournal, migrate, open_postgres

__all__ = ["PostgresJournal", "migrate", "open_postgres"]
