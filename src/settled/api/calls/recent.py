"""A bounded memory of what this process was last told of calls outside of runs."""

from __future__ import annotations

from collections import OrderedDict


def told_as(tool: str, fingerprint: str) -> str:
    """Return what a call outside of runs is remembered by."""
    return f"{tool} {fingerprint}"


class Recent(OrderedDict[str, str]):
    """Tool and fingerprint -> operation id; the oldest are forgotten first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def note(self, what: str, operation_id: str, *, is_open: bool) -> None:
        """Remember a call that was told as open; forget it once its outcome was told."""
        if not is_open:
            self.pop(what, None)
            return
        self[what] = operation_id
        while len(self) > self._most:
            self.popitem(last=False)
