"""Requests that a client makes one after another by itself, repeats and redirects: only the last one's end is seen.

Some errors say so. Of others it shows in the functions of the client that they came through, by their tracebacks. So it
is with work on many files, or many items in several requests: of those before the one that failed nothing is known.
Out of another process an error comes without its past; all that is left of it is a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.rules import is_a, is_of, roots
from settled.core.faults.tls import rejected_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType

    Locals = Mapping[str, object]

_REPEATERS = frozenset({"botocore", "openai", "anthropic", "requests", "niquests", "tenacity", "google"})
_REDIRECTED = frozenset({"httpx", "httpx2", "requests", "niquests", "aiohttp"})
_TELLING = _REPEATERS | _REDIRECTED
_URLLIB3 = ("urllib3", "urllib3_future")


def hidden(errors: Iterable[BaseException]) -> bool:
    """Tell whether one of these errors is the last of several tries of which the others are not known."""
    for error in errors:  # noqa: SIM110 - one pass over one error, as most are, costs half as much so
        if _last_of_many(error) or _came_late(error) or _left_its_past(error):
            return True
    return False


def _last_of_many(error: BaseException) -> bool:
    known = roots(type(error))
    if _TELLING.isdisjoint(known):
        return False
    response = look.attr(error, "response")
    if any(map(_went_on, (look.attr(response, "history"), look.attr(error, "history")))):
        return True
    if _repeated_beneath(response) or _numbered(error):
        return True
    if _REPEATERS.isdisjoint(known):
        return False
    if isinstance(response, Mapping):
        meta = response.get("ResponseMetadata")
        return bool(look.number(meta.get("RetryAttempts")) if isinstance(meta, Mapping) else 0)
    return (
        (look.number(look.attr(error, "last_attempt", "attempt_number")) or 1) > 1
        or bool(look.attr(response, "raw", "retries", "history"))
        or is_a(error, "google", "RetryError")
    )


def _repeated_beneath(response: object) -> bool:
    """Tell whether a transport of httpx's that repeats (httpx-retries) says that this answer is not the first."""
    extensions = look.attr(response, "extensions")
    retry = extensions.get("retry") if isinstance(extensions, Mapping) else None
    return bool(look.number(look.attr(retry, "attempts_made")))


def _numbered(error: BaseException) -> bool:
    """Tell whether a request says that it is no first try: in the SDKs that Stainless makes, whatever their names."""
    headers = look.attr(error, "request", "headers")
    return look.called(headers, "get", "x-stainless-retry-count") not in (None, "0")


def _went_on(history: object) -> bool:
    """Tell whether one of these answers leaves open what its request has done: a redirect, not a mere 401."""
    return isinstance(history, list | tuple) and not all(map(_turned_away, history))


def _turned_away(answer: object) -> bool:
    return (look.attr(answer, "status_code") or look.attr(answer, "status")) in _TURNED_AWAY


_TURNED_AWAY = (401, 407)
"""Answers upon which a client sends the request once more, with proof of who it is."""


# --- what tracebacks show -----------------------------------------------------------------


def _came_late(error: BaseException) -> bool:
    at, answered = error.__traceback__, False
    while at is not None:
        frame, at = at.tb_frame, at.tb_next
        if answered and _asks(frame):
            return True
        answered = answered or _was_answered(frame)
        judge = _LATE.get(frame.f_code.co_name)
        if judge is not None:
            tells = judge.get(look.package(frame)) or judge.get(_ANY)
            if tells is not None and tells(frame.f_locals):
                return not _failed_first(tells, error, frame, at)
    return False


def _failed_first(
    tells: Callable[[Locals], bool], error: BaseException, frame: FrameType, inner: TracebackType | None
) -> bool:
    """Tell whether what failed was the first thing that this function does: then it had done nothing before."""
    if tells is _on_many_files:
        return isinstance(error, FileNotFoundError)  # of the folder, or the archive, itself
    if tells is _at_its_end:
        return look.package(frame) in map(look.package, look.further(inner))
    return False


def _was_answered(frame: FrameType) -> bool:
    """Tell whether a client has its answer, or may have: what fails now is a hook of the user's."""
    answer = _ANSWER.get(frame.f_code.co_name, _NONE).get(look.package(frame), "")
    held = frame.f_locals.get(answer) if answer else None
    return held is not None and not _turned_away(held)


def _asks(frame: FrameType) -> bool:
    return look.package(frame) in _ASKING.get(frame.f_code.co_name, ())


_NONE: Mapping[str, str] = {}
_ANSWER = {
    "_send_handling_redirects": {"httpx": "response", "httpx2": "response"},
    "send": {"requests": "r", "niquests": "r"},
    "_request": {"aiohttp": "req"},  # whatever one of its middlewares has done with it
}
"""Functions that call hooks, by name and package; the variable that is set by then."""
_ASKING = {
    **dict.fromkeys(("request", "send"), ("httpx", "httpx2", "requests", "niquests")),
    "build_request": ("httpx", "httpx2"),
    "prepare_request": ("requests", "niquests"),
    "_request": ("aiohttp",),
}
"""Functions that make another request."""


def _urllib3(known: Locals) -> bool:
    history = look.attr(known.get("retries"), "history")
    return isinstance(history, tuple) and not all(_unsent(look.attr(entry, "error")) for entry in history)


def _unsent(error: object) -> bool:
    if not isinstance(error, BaseException):
        return False
    return is_of(error, _URLLIB3, "NewConnectionError", "ConnectTimeoutError") or rejected_certificate(error)


def _elastic(known: Locals) -> bool:
    errors = known.get("errors")
    return isinstance(errors, list) and not all(any(map(_unsent, _inside(each))) for each in errors)


def _inside(error: object) -> Iterable[BaseException]:
    return chain.inside(error) if isinstance(error, BaseException) else ()


def _httpx(known: Locals) -> bool:
    return _went_on(known.get("history"))


def _aiohttp(known: Locals) -> bool:
    if _went_on(known.get("history")):
        return True
    # taken back once it has sent the request anew; others than these it sends once
    return known.get("retry_persistent_connection") is False and look.text(known.get("method")).upper() in _SENT_ANEW


_SENT_ANEW = frozenset({"PUT", "DELETE"})


def _above(name: str, least: int) -> Callable[[Locals], bool]:
    return lambda known: (look.number(known.get(name)) or 0) > least


def _some(name: str, least: int = 0) -> Callable[[Locals], bool]:
    def judge(known: Locals) -> bool:
        listed = known.get(name)
        return isinstance(listed, list | tuple) and len(listed) > least

    return judge


def _counted(holder: str, name: str) -> Callable[[Locals], bool]:
    return lambda known: (look.number(look.attr(known.get(holder), name)) or 0) > 0


def _repeats(name: str) -> Callable[[Locals], bool]:
    """Tell of a client that repeats whatever fails so many times, and forgets how often it did."""
    return _counted("self", name)


def _tenacity(known: Locals) -> bool:
    return (look.number(look.attr(known.get("retry_state"), "attempt_number")) or 1) > 1


def _retry(known: Locals) -> bool:
    tries = known.get("tries")  # counted down from here; negative: without end
    return tries not in (None, 1) and known.get("_tries") != tries


def _is_not_none(name: str) -> Callable[[Locals], bool]:
    return lambda known: known.get(name) is not None


def _counted_up(known: Locals) -> bool:
    """Tell whether a function that sends for httpx, and is not its own, counts tries."""
    counts = [name for name in known if _COUNT.search(name)]
    return any((look.number(known[name]) or 0) > 0 for name in counts)


_COUNT = re.compile(r"^(?!max|total)\w*(?:attempt|retr|tries)", re.IGNORECASE)


def _made_by_machine(known: Locals) -> bool:
    """Tell of SDKs that Fern or Stainless generate; both count their repeats.

    Fern's function calls itself for each repeat, and has the count as an argument; Stainless's is a loop.
    """
    name = "retries" if "request_options" in known else "retries_taken"
    return (look.number(known.get(name)) or 0) > 0


def _never(_: Locals) -> bool:
    return False


def _always(_: Locals) -> bool:
    return True


def _on_many_files(_: Locals) -> bool:
    """Of the files before the one that failed nothing is known (but see ``_failed_first``)."""
    return True


def _at_its_end(_: Locals) -> bool:
    """What the function does itself comes after what it lets others of its package do (see ``_failed_first``)."""
    return True


def _begun_before(known: Locals) -> bool:
    """Tell whether this waits for the end of an operation: that was begun, so its failure is no refusal."""
    return look.attr(known.get("self"), "_blocking_poll") is not None


def _by_pages(known: Locals) -> bool:
    """Tell of psycopg2, which sends many rows in pages, whether a page before this one may have been committed."""
    rows, most = known.get("argslist"), look.number(known.get("page_size"))
    one_page = isinstance(rows, list | tuple) and most is not None and len(rows) <= most
    return not one_page and _commits_each(known.get("cur"))


def _by_rows(known: Locals) -> bool:
    """Tell of a cursor that sends row by row whether a row before this one may have been committed."""
    return _commits_each(known.get("self"))


def _by_batches(known: Locals) -> bool:
    """Tell the same of SQLAlchemy, which sends batches."""
    later = (look.number(look.attr(known.get("imv_batch"), "batchnum")) or 1) > 1
    return later and look.called(known.get("self"), "_is_autocommit_isolation") is not False


def _commits_each(cursor: object) -> bool:
    """Tell whether each statement may commit by itself: unless the cursor's connection says that it does not.

    PostgreSQL's drivers have an attribute for that; those of MySQL have a method, and another one to set it.
    """
    connection = look.attr(cursor, "connection")
    told = look.called(connection, "get_autocommit")
    return (look.attr(connection, "autocommit") if told is None else told) is not False


_ANY = ""
"""Any package that is not named."""
_TRANSPORTS = {**dict.fromkeys(("httpx", "httpx2", "httpcore", "httpcore2"), _never), _ANY: _counted_up}

_LATE: Mapping[str, Mapping[str, Callable[[Locals], bool]]] = {
    "urlopen": dict.fromkeys(_URLLIB3, _urllib3),
    "resolve_redirects": {"requests": _always, "niquests": _always},
    "http_error_302": {"urllib": _always},  # under this name for all redirects
    "_send_handling_redirects": {"httpx": _httpx, "httpx2": _httpx},
    "_request": {"aiohttp": _aiohttp, "httplib2": _is_not_none("location")},
    "request": {
        "xmlrpc": _above("i", 0),
        "jira": _repeats("max_retries"),
        **dict.fromkeys(("discord", "nextcord", "disnake"), _above("tries", 0)),
        _ANY: _made_by_machine,
    },
    "handle_request": _TRANSPORTS,
    "handle_async_request": _TRANSPORTS,
    # Stainless's SDKs: a try that is not the first may fail before it has a request that would tell so
    "_build_request": {_ANY: _above("retries_taken", 0)},
    # Speakeasy's SDKs, and whoever calls it so
    "retry_with_backoff": {_ANY: _above("retries", 0)},
    "retry_with_backoff_async": {_ANY: _above("retries", 0)},
    "_http_backoff_base": {"huggingface_hub": _above("nb_tries", 1)},
    "with_exponential_backoff": {"weaviate": _above("count", 0)},
    "awith_exponential_backoff": {"weaviate": _above("count", 0)},
    "retry_on_exceptions_with_backoff": {"llama_index": _above("tries", 1)},
    "http_request": {"gitlab": _counted("retry", "cur_retries")},
    "_execute_with_retry": {"notion_client": _above("attempt", 0)},
    "request_json_string_with_retry": {"dropbox": _above("attempt", 0)},
    "_send_request": {"botocore": _above("attempts", 1), "aiobotocore": _above("attempts", 1)},
    "_request_with_retries_internal": {"stripe": _above("num_retries", 0)},
    "_request_with_retries_internal_async": {"stripe": _above("num_retries", 0)},
    "iter": {"tenacity": _tenacity},
    "retry": {"backoff": _above("tries", 1)},
    "__retry_internal": {"retry": _retry},
    "call": {"retrying": _above("attempt_number", 1)},
    "_do_request": {"aiohttp_retry": _above("current_attempt", 1)},
    "_retry_operation": {"httpx_retries": _is_not_none("response")},
    "_retry_operation_async": {"httpx_retries": _is_not_none("response")},
    "retry_target": {"google": _some("error_list", 1)},
    "perform_request": {"elastic_transport": _elastic, "opensearchpy": _above("attempt", 0)},
    "_retry_request": {"googleapiclient": _above("retry_num", 0)},
    # which of its tries a refusal answers is not seen any more
    "execute": {"googleapiclient": _above("num_retries", 0)},
    "next_chunk": {"googleapiclient": _above("num_retries", 0)},
    "_perform_urllib_http_request": {"slack_sdk": _above("counter_for_safety", 1)},
    "_perform_http_request": {"slack_sdk": _above("counter_for_safety", 1)},
    "_request_with_session": {"slack_sdk": _above("counter_for_safety", 1)},
    "_ensured": {"kombu": _above("retries", 0)},
    "bulk": dict.fromkeys(("elasticsearch", "opensearchpy"), _above("success", 0)),
    "async_bulk": dict.fromkeys(("elasticsearch", "opensearchpy"), _above("success", 0)),
    "streaming_bulk": dict.fromkeys(("elasticsearch", "opensearchpy"), _above("attempt", 0)),
    "async_streaming_bulk": dict.fromkeys(("elasticsearch", "opensearchpy"), _above("attempt", 0)),
    "__call__": {"boto3": _some("responses")},
    "run": {"docker": _is_not_none("container")},
    "_flush": {"boto3": _always},
    "result": {"google": _begun_before, "arq": _always},  # arq's comes out of another process, as some below
    # many rows, each of which commits by itself
    "execute_batch": {"psycopg2": _by_pages},
    "execute_values": {"psycopg2": _by_pages},
    "_executemany_gen_no_pipeline": {"psycopg": _by_rows},
    "executemany": dict.fromkeys(("pymysql", "aiomysql", "MySQLdb", "mysql"), _by_rows),
    "_exec_insertmany_context": {"sqlalchemy": _by_batches},
    # what comes out of another process: the error left its past there
    "send_raw_command": {"anyio": _always},
    "maybe_throw": {"celery": _always},
    "raise_for_error": {"taskiq": _always},
    "_result": {"distributed": _always},
    "_gather": {"distributed": _always},
    "_process_result": {"modal": _always},
    "reraise": {"parsl": _always},
    # work on several files
    "rmtree": {"shutil": _on_many_files},
    "move": {"shutil": _at_its_end},  # it copies by others, and then takes the old file away
    "unpack_archive": {"shutil": _on_many_files},
    "extractall": {"zipfile": _on_many_files, "tarfile": _on_many_files},
    "_make_zipfile": {"shutil": _always},
    "_make_tarball": {"shutil": _always},
    # once the contents are there, or have been taken away
    "copymode": {"shutil": _always},
    "copystat": {"shutil": _always},
    "putfo": {"paramiko": _is_not_none("size")},
    "__exit__": {"tempfile": _always},
    "close": {"tempfile": _always},
}
"""By the name of a function, and the package that it is of: whether its variables tell of an earlier request."""


# --- what came out of another process -----------------------------------------------------


_REMOTE = frozenset({"_RemoteTraceback", "RemoteTraceback"})
"""The class, of whatever pool, by which an error's traceback comes along: as its cause, and as a text."""
_MARKS = ("_remote_tb", "_pyroTraceback")
"""What rpyc and Pyro put on an error that the other side raised."""
_HANDLED = "During handling of the above exception"


def _left_its_past(error: BaseException) -> bool:
    """Tell whether an error left other errors, or a client's own repeats, behind in another process."""
    if (error.__dict__ and any(name in error.__dict__ for name in _MARKS)) or is_a(error, "ray", "RayTaskError"):
        return True
    if type(error).__qualname__ not in _REMOTE:
        return False
    told = look.attr(error, "tb")
    return not isinstance(told, str) or _HANDLED in told or _REPEATER.search(told) is not None


_REPEATER = re.compile(
    "|".join(
        rf"[/\\]{package}(?:[/\\][^\"\n]*|\.py)\", line \d+, in {name}\n"
        for name, packages in _LATE.items()
        for package, tells in packages.items()
        if package and tells is not _never
    )
)
