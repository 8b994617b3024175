"""Callers without settled: one that never repeats, and one as a careful engineer writes it today."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx
import tenacity

from bench.workloads.orders import ATTEMPTS, BASE, CAP, THROTTLED_BASE, Report
from bench.workloads.world import contract
from settled.demo.agent import Lines, lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.workloads.client import Tools
    from bench.workloads.orders import Word

_TRANSIENT = frozenset({contract.REFUSED, contract.EXPIRED, contract.BROKEN})
_backoff = tenacity.wait_random_exponential(multiplier=BASE, max=CAP)
_throttled = tenacity.wait_random_exponential(multiplier=THROTTLED_BASE, max=CAP)


def is_transient(error: BaseException) -> bool:
    """Tell whether a repeat may help."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _TRANSIENT
    return isinstance(error, httpx.TransportError)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return _throttled(state) if isinstance(error, httpx.HTTPStatusError) else _backoff(state)


class OneTry:
    """Makes each request once. A run that was killed is not started again: nothing is repeated anywhere."""

    resumes = False

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def begin(self, task: str, entry: int) -> None:
        """Begin a task."""
        self._task, self._entry = task, entry

    def make(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> Report:
        """Make one call; return what the agent is told."""
        began, before = time.monotonic(), self._tools.took
        try:
            answer, tries = self._tried(mark, tool, arguments)
        except httpx.HTTPError as error:
            return Report(self._task, self._entry, mark, _word_for(error), why=f"{type(error).__name__}: {error}"[:120])
        added = time.monotonic() - began - (self._tools.took - before) if tries == 1 else None
        return Report(self._task, self._entry, mark, "done", answer, added=added)

    def _tried(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Any, int]:
        return self._tools.call(tool, arguments, f"{self._task}/{mark}"), 1

    def end(self) -> None:
        """End a task."""


class Careful(OneTry):
    """Retries every transient error with jittered exponential backoff; keeps each outcome in a checkpoint file.

    A task that is started again goes on after the last call in the file, which is synced to disk.
    """

    resumes = True

    def __init__(self, tools: Tools, checkpoint: Path) -> None:
        super().__init__(tools)
        self._outcomes = {(line["task"], line["mark"]): line for line in lines(checkpoint)}
        self._file = Lines(checkpoint, sync=True)

    def make(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> Report:
        """Make one call unless its outcome is kept; return what the agent is told."""
        kept = self._outcomes.get((self._task, mark))
        if kept is not None:
            return Report(self._task, self._entry, mark, kept["said"], kept["value"], "from the checkpoint")
        report = super().make(mark, tool, arguments)
        began = time.monotonic()
        self._file.write({"task": self._task, "mark": mark, "said": report.said, "value": report.value})
        took = time.monotonic() - began
        added = None if report.added is None else report.added + took
        return Report(report.task, report.entry, mark, report.said, report.value, report.why, added=added)

    def _tried(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Any, int]:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_transient),
            wait=_wait,
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        answer: Any = retrying(super()._tried, mark, tool, arguments)
        return answer[0], int(retrying.statistics.get("attempt_number", 1))


def _word_for(error: httpx.HTTPError) -> Word:
    """A refusal by the tool is its word that nothing was done; of anything else nobody knows."""
    no = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == contract.FAILED
    return "failed" if no else "no_answer"
