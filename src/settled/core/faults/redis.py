"""redis-py (and its fork valkey).

It repeats a command by itself when its answer is lost. The error of the last try may then be a refused connection,
though the first try was executed: only a connection that was being made for the first time proves anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.rules import (
    Situation,
    ambiguous,
    exists,
    is_of,
    local,
    refused,
    retryable,
    rules,
    unwritable,
    weakened,
)
from settled.core.model import Fault
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.faults.rules import Judge

_CONNECTING = re.compile(r"Error (?:.{0,200} )?connecting to |Timeout connecting to server")
_FULL = "max number of clients reached"
_NONE_FREE = "No connection available"
_SENDING = "send_packed_command"
"""redis-py's function that writes a command: it connects anew where the connection broke."""


def of_connection(error: BaseException, _: Situation) -> Fault | None:
    """Read ConnectionError and TimeoutError by the phase in which redis-py raises them."""
    if look.came_through([error], _SENDING):  # the command may have gone over the connection before this one
        return ambiguous("connection_error")
    words = look.text(error)
    if words.startswith(_FULL):
        return retryable("too_many_clients")
    if words.startswith(_NONE_FREE):
        return local("pool_timeout")
    no_address = is_of(error, _ROOTS, "MasterNotFoundError", "SlaveNotFoundError")
    return retryable("connect_failed") if no_address or _CONNECTING.match(words) else None


_ROOTS = ("redis", "valkey")


# --- what the server answers --------------------------------------------------------------


_OF_A_PIPELINE = re.compile(r"Command # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
"""What redis-py puts before the server's words."""
_SCRIPTS = frozenset({"EVAL", "EVALSHA", "FCALL"})
_PASSING = {"BUSY": "busy_script", "MISCONF": "misconf", "NOREPLICAS": "no_replicas"}
_OF_A_PROXY = re.compile(r"[^'`\"]*\b(?:timed out|conn(?:ection)?|upstream|backend|broken pipe|host)\b", re.IGNORECASE)
"""Words of a proxy (twemproxy, Envoy, Codis) about its own connection to the server: it may have passed the command on.
A server itself speaks of the command."""
_MISCOUNTED = "Wrong number of response items from pipeline execution"
"""redis-py's own words, after the server has answered."""
_THERE = frozenset({"BUSYGROUP", "BUSYKEY"})


def of_reply(error: BaseException, situation: Situation) -> Fault:
    """Read an error that has no class of its own, by its first word."""
    words = look.text(error)
    told = _OF_A_PIPELINE.match(words)
    if words.startswith(_MISCOUNTED):
        return ambiguous("protocol_error")
    words = words[told.end() if told else 0 :].removeprefix("ERR ")
    word = words.partition(" ")[0]
    if word in _PASSING:
        return retryable(_PASSING[word])
    if word in _THERE:
        return exists("response_error", doubtful=situation.doubtful)
    return ambiguous("proxy_error") if _OF_A_PROXY.match(words) and not word.isupper() else refused("response_error")


def answered(said: Fault | Judge, *, by_scripts: bool = False) -> Judge:
    """Return the rule for an error that the server answers: it is of one command, and others may have been executed.

    Nothing is undone for it, neither in a transaction nor in a script. ``by_scripts``: it comes up amid one, too.
    """

    def judge(error: BaseException, situation: Situation) -> Fault | None:
        fault = said if isinstance(said, Fault) else said(error, situation)
        others = _among_others(error) or (by_scripts and _out_of_a_script(error))
        return weakened(fault) if others and fault is not None else fault

    return judge


def _among_others(error: BaseException) -> bool:
    """Tell whether it is a pipeline's error, of which some other command may have been executed."""
    if not _OF_A_PIPELINE.match(look.text(error)):
        return False
    earlier = chain.context(error)
    if earlier is not None and is_of(earlier, _ROOTS, "ExecAbortError"):  # the transaction was never executed
        return False
    looked = [frame.f_locals for frame in look.frames(error) if frame.f_code.co_name == _FIRST]
    return not any(_all_refused(known.get("commands"), known.get("response")) for known in looked)


def _all_refused(commands: object, answers: object) -> bool:
    """Tell whether these are all of a pipeline's commands, and none of them can have done anything."""
    if not (isinstance(commands, list) and isinstance(answers, list)):
        return False
    scripts = any(isinstance(each, tuple) and each and _is_script(each[0]) for each in commands)
    return not scripts and all(isinstance(each, Exception) for each in answers)


_FIRST = "raise_first_error"
"""redis-py's function that looks through the answers of a pipeline."""


def _out_of_a_script(error: BaseException) -> bool:
    made = [frame.f_locals.get("args") for frame in look.frames(error) if frame.f_code.co_name == "execute_command"]
    return any(map(_is_script, made))


def _is_script(command: object) -> bool:
    return isinstance(command, tuple) and bool(command) and look.text(command[0]).upper() in _SCRIPTS


RULES = rules(
    *_ROOTS,
    final={
        "BusyLoadingError": answered(retryable("busy_loading")),
        "MaxConnectionsError": local("pool_full"),
        "ReadOnlyError": answered(retryable("read_only_replica")),
        "ClusterDownError": answered(retryable("cluster_down")),
        "MasterDownError": answered(retryable("master_down")),
        "TryAgainError": answered(retryable("try_again")),
        "AskError": answered(retryable("moved")),
        "MovedError": answered(retryable("moved")),
        "WatchError": retryable("watched_key_changed"),
        "ExecAbortError": retryable("exec_aborted"),
        "OutOfMemoryError": answered(retryable("out_of_memory"), by_scripts=True),
        "NoScriptError": answered(refused("response_error")),
        "NoPermissionError": answered(refused("no_permission"), by_scripts=True),
        "AuthenticationError": answered(replace(refused("authentication"), refresh=True)),
        "DataError": unwritable("invalid_request"),
        "ResponseError": answered(of_reply, by_scripts=True),
        "ConnectionError": of_connection,
        "TimeoutError": of_connection,
    },
    wraps={"RedisError": ambiguous("redis_error")},
    default=ambiguous("connection_error"),
)
