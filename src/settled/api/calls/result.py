"""What a caller gets: one value that says what happened, what it means, and what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from settled import errors
from settled.core.answer import Status  # noqa: TC001 - help() reads it
from settled.partial.outcome import Item  # noqa: TC001 - as above

T_co = TypeVar("T_co", covariant=True)

LONGEST_SHOWN = 2000
"""Characters of what is shown in words, having no JSON."""
Next = Literal["done", "fix_arguments", "wait", "ask_again", "ask_human", "repair_prompt", "give_up"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A call that this tool has already made, as a model or a person should see it."""

    operation_id: str
    status: Status
    arguments: Any
    """Redacted where the tool says so."""


class Result(Struct, Generic[T_co], frozen=True, kw_only=True):
    """The outcome of one call.

    ``succeeded`` means that the effect happened; ``failed`` and ``not_done`` that it is proved that it did not (or
    that a named person said so: ``asserted``); ``unknown`` that it may have.

    Attributes:
        tool: name of the tool.
        status: ``succeeded``, ``failed`` (for good), ``not_done`` (may be tried again), ``partial``, ``unknown``,
            ``in_progress`` (another owner is at work), ``conflict`` (the key is known with other arguments),
            ``invalid`` (the arguments do not fit), ``rejected`` (nothing was tried), ``expired``,
            ``awaiting_approval``, ``refused``, ``compensating``, ``compensated``.
        reason: a short, stable word: the fault's code (``http_503``, ``read_timeout``), or for ``rejected``
            ``breaker_open``, ``deadline``, ``superseded``, ``rolled_back``, ``untold_before``, ``untold_blocked``,
            ``unknown_before``, ``unsettled_before``, for a joined agent ``run_ended`` and ``not_in_token``; for
            ``awaiting_approval`` what asks for leave, or ``by_hand``: a person is to do it. Where a person has decided,
            their own words.
        value: what the tool returned; what was done and what failed for ``partial``.
        value_available: false if there is no value to give: it did not succeed, or its value was not kept.
        replayed: answered from the record; nothing was executed for this ask.
        reworded: answered by a call with the same identity and other words.
        disputed: evidence speaks against the status; it stands in the queue.
        asserted: settled by a person's word, without proof.
        retryable: asking for the same call again may bring another answer.
        retry_after: seconds to wait before that, if known.
        recorded: whether the outcome is on record.
        earlier: the calls that ``untold_…`` and ``unknown_before`` speak of, or the like call that answered.
        operation_id: names the call in the journal; empty if it is not recorded.
        message: what it means, safe to show to a model: no secrets, no stack.
        fields: argument -> what is wrong with it.
        next: ``done``, ``fix_arguments``, ``wait``, ``ask_again``, ``ask_human``, ``repair_prompt``, ``give_up``.
        attempts: attempts on record, of all owners.
        items: of a batch (``partial=``): what became of each of its items, in their order.
        fallback: the tool that was called in its place, since it is proved that nothing was done; ``person``: it was
            left to a person, by hand; ``skip``: nothing was done, and ``value`` is what its declaration gives instead,
            while the status tells what became of the call; ``say``: ``message`` is.
        hint: for an operator, never shown to a model: the command to type next, as ``settled queue show op_…`` where a
            person is wanted; of a conflict the one that shows the call that has the key, or lets a run's be made anew.

    ``unwrap`` and plain calls raise: ``CallFailed``, ``CallNotDone``, ``CallPartial``, ``CallUnknown``,
    ``CallInProgress``, ``CallConflict``, ``InvalidArguments``, ``CallRejected``, ``CallRefused``; all are
    ``CallError`` and carry the result. ``ResultUnavailable`` is raised for a success whose value was not kept.
    """

    tool: str
    status: Status
    reason: str = ""
    value: T_co | None = None
    value_available: bool = False
    replayed: bool = False
    reworded: bool = False
    disputed: bool = False
    asserted: bool = False
    retryable: bool = False
    retry_after: float | None = None
    recorded: bool = False
    earlier: tuple[Earlier, ...] = ()
    operation_id: str = ""
    message: str = ""
    fields: dict[str, str] = {}
    next: Next = "done"
    attempts: int = 0
    fallback: str = ""
    items: tuple[Item, ...] = ()
    hint: str = ""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status == "succeeded"

    def unwrap(self) -> T_co:
        """Return the value, or raise the ``CallError`` that fits the status."""
        if self.value_available and (self.ok or self.fallback == "skip"):
            return self.value  # type: ignore[return-value]  # None is a value of T when the tool returns None
        raise _ERRORS.get(self.status, errors.CallError)(self) if not self.ok else errors.ResultUnavailable(self)

    def for_model(self) -> str:
        """Return short JSON for a model: what happened, and what to do next."""
        facts: dict[str, Any] = {"status": self.status}
        if self.ok:
            facts["result"] = self.value if self.value_available else "done; the value was not kept"
        elif self.fallback == "skip":
            facts["instead"] = self.value
        said = {"message": self.message if not self.ok or self.replayed else "", "next": "" if self.ok else self.next}
        facts |= {name: text for name, text in said.items() if text}
        if self.items and not self.ok:
            facts["items"] = _items(self.items)
        if self.fields:
            facts["fields"] = self.fields
        if self.retry_after is not None:
            facts["retry_after_seconds"] = round(self.retry_after, 1)
        if self.earlier:
            facts["earlier_calls"] = [
                {"operation_id": e.operation_id, "status": e.status, "arguments": e.arguments} for e in self.earlier
            ]
        if self.operation_id and (not self.ok or self.replayed):
            facts["operation_id"] = self.operation_id
        return _json(facts) or json.dumps({name: _shown(fact) for name, fact in facts.items()})


def _items(items: tuple[Item, ...]) -> dict[str, Any]:
    """Return the positions of the items by what became of them, with the codes of those that failed."""
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(item.status, []).append(item.position)
    codes = {item.position: item.code for item in items if item.code and item.status != "done"}
    return found | ({"codes": codes} if codes else {})


def _json(value: object) -> str:
    """Return a value as JSON; empty where it has none: a cycle, say, a number too long or without end."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except Exception:  # noqa: BLE001 - the value's own code may be asked, and the effect is done
        return ""


def _shown(value: object) -> Any:
    """Return a fact as JSON can hold it: what has no JSON in words."""
    text = _json(value)
    if text:
        return json.loads(text)
    try:
        return repr(value)[:LONGEST_SHOWN]
    except Exception:  # noqa: BLE001 - as above
        return f"a {type(value).__name__}, which cannot be shown"


def _plain(value: object) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


_ERRORS: dict[str, type[errors.CallError]] = {
    "failed": errors.CallFailed,
    "not_done": errors.CallNotDone,
    "partial": errors.CallPartial,
    "unknown": errors.CallUnknown,
    "in_progress": errors.CallInProgress,
    "conflict": errors.CallConflict,
    "rejected": errors.CallRejected,
    "invalid": errors.InvalidArguments,
    "awaiting_approval": errors.CallInProgress,
    "refused": errors.CallRefused,
    "compensating": errors.CallRefused,
    "compensated": errors.CallRefused,
    "expired": errors.CallRefused,
}
