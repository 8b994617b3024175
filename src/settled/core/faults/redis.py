"""redis-py (and its fork valkey).

It repeats a command by itself when its answer is lost. The error of the last try may then be a refused connection,
though the first try was executed: only a connection that was being made for the first time proves anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, local, refused, retryable, rules
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_CONNECTING = re.compile(r"Error (?:.{0,200} )?connecting to |Timeout connecting to server")
_FULL = "max number of clients reached"
_SENDING = "send_packed_command"
"""redis-py's function that writes a command: it connects anew where the connection broke."""


def of_connection(error: BaseException, _: Situation) -> Fault | None:
    """Read ConnectionError and TimeoutError by the phase in which redis-py raises them."""
    words = look.text(error)
    if words.startswith(_FULL):
        return retryable("too_many_clients")
    if _CONNECTING.match(words) and not look.came_through([error], _SENDING):
        return retryable("connect_failed")
    return None


RULES = rules(
    *("redis", "valkey"),
    final={
        "BusyLoadingError": retryable("busy_loading"),
        "MaxConnectionsError": local("pool_full"),
        "ReadOnlyError": retryable("read_only_replica"),
        "ClusterDownError": retryable("cluster_down"),
        "MasterDownError": retryable("master_down"),
        "TryAgainError": retryable("try_again"),
        "AskError": retryable("moved"),
        "MovedError": retryable("moved"),
        "WatchError": retryable("watched_key_changed"),
        "ExecAbortError": retryable("exec_aborted"),
        "OutOfMemoryError": refused("out_of_memory"),
        "NoPermissionError": refused("no_permission"),
        "AuthenticationError": replace(refused("authentication"), refresh=True),
        "DataError": refused("invalid_request"),
        "ResponseError": refused("response_error"),
        "ConnectionError": of_connection,
        "TimeoutError": of_connection,
    },
    wraps={"RedisError": ambiguous("redis_error")},
    default=ambiguous("connection_error"),
)
