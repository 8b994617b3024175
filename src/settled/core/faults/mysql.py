"""MySQL and MariaDB: PyMySQL, aiomysql, mysqlclient and MySQL's own connector, by the server's numbers.

An error rolls its statement back, and not what stood in the transaction before: a connection that is used again may
commit that later. So it proves something only while the connection is made, and of a deadlock, which takes back all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, refused, retryable, rules
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_ROOTS = ("pymysql", "aiomysql", "MySQLdb", "mysql")
_CONNECTS = frozenset({"connect", "Connect", "_connect", "_open_connection"})
_NO_ENTRY = (1044, 1045, 1698)
_DEADLOCK = 1213


def of_mysql(error: BaseException, _: Situation) -> Fault | None:
    """Read an error by its number; ``None`` if that proves nothing."""
    first = error.args[0] if error.args else None
    number = look.number(look.attr(error, "errno")) or look.number(first)
    if number == _DEADLOCK:
        return retryable("deadlock")
    if not any(f.f_code.co_name in _CONNECTS and look.package(f) in _ROOTS for f in look.frames(error)):
        return None
    return replace(refused("authentication"), refresh=True) if number in _NO_ENTRY else retryable("connect_failed")


RULES = rules(
    *_ROOTS,
    final=dict.fromkeys(("Error", "MySQLError"), of_mysql),
    default=ambiguous("database_error"),
)
