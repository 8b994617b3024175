"""PyMongo. A write that it repeats by itself the server knows again; what it raises then is the first error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, exists, refused, retryable, rules, unwritable, weakened
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.faults.rules import Judge

_NO_ENTRY = frozenset({18, 8000})
_NO_RIGHTS = 13
_REFUSED = frozenset({2, 9, 14, 26, 59, 66, 72, 73, 121})
"""Of the whole command: bad value, type, name or field, no such collection or command, a document that is not valid."""
_OF_MANY = ("update_many", "delete_many", "aggregate")
_COUNTS = ("nInserted", "nUpserted", "nModified", "nRemoved")


def of_selection(error: BaseException, _: Situation) -> Fault:
    """Read that no server was found: before anything was sent, or before a COMMIT was sent anew."""
    lost = look.called(error, "has_error_label", "UnknownTransactionCommitResult") is True
    return ambiguous("commit_lost") if lost else retryable("connect_failed")


def of_failure(error: BaseException, situation: Situation) -> Fault | None:
    """Read an answer by its code; ``None`` if it proves nothing."""
    code = look.number(look.attr(error, "code"))
    if code in _NO_ENTRY:
        return replace(refused("authentication"), refresh=True)
    if code == _NO_RIGHTS:
        return replace(refused("no_permission"), gate=True)
    return of_one(refused(f"mongo_{code}"))(error, situation) if code in _REFUSED else None


def of_one(said: Fault) -> Judge:
    """Return the rule for a refusal of one document: of many, others were changed before."""

    def judge(error: BaseException, _: Situation) -> Fault:
        many = any(look.came_through([error], name) for name in _OF_MANY)
        return weakened(said) if many else said

    return judge


def of_duplicate(error: BaseException, situation: Situation) -> Fault | None:
    """Read that there is such a document already."""
    return of_one(exists("mongo_11000", doubtful=situation.doubtful))(error, situation)


def of_bulk(error: BaseException, _: Situation) -> Fault:
    """Read the answer to several writes: what was done before or beside the refused one is done."""
    details = look.attr(error, "details")
    details = details if isinstance(details, Mapping) else {}
    done = any(look.number(details.get(name)) for name in _COUNTS)
    return Fault(FaultClass.PARTIAL, Evidence.SOME if done else Evidence.MAYBE, "mongo_bulk")


RULES = {
    **rules(
        "pymongo",
        final={
            "ServerSelectionTimeoutError": of_selection,
            "WaitQueueTimeoutError": replace(retryable("pool_timeout"), local=True),
            "DuplicateKeyError": of_duplicate,
            "BulkWriteError": of_bulk,
            "WriteConcernError": ambiguous("mongo_write_concern"),
            "OperationFailure": of_failure,
            "DocumentTooLarge": unwritable("request_too_large"),
            "ConfigurationError": unwritable("invalid_request"),
        },
        default=ambiguous("database_error"),
    ),
    **rules("bson", final={"InvalidDocument": unwritable("invalid_request")}),
}
