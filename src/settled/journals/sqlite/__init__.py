"""The journal in an SQLite file: the default. Many processes of one machine may share it.

Every change is durable when ``perform`` returns (``synchronous="FULL"``: the write-ahead log is synced at each commit).
With ``"NORMAL"`` it is not synced: a crash of the process loses nothing, a crash of the machine or a power cut may lose
the last commits, and calls made just before could then be made once more.
"""

from settled.journals.spill import FileSpill
from settled.journals.sqlite.journal import SqliteJournal, accept, migrate, open_sqlite

__all__ = ["FileSpill", "SqliteJournal", "accept", "migrate", "open_sqlite"]
