"""What is noted in the journal beside its calls: short texts (JSON) by kind and name, changed in transitions alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from settled.core.books import Books

PAUSED: Final = "paused"
"""By tool: who has paused it, why, when."""
PAUSES: Final = "pauses"
"""By tool: who has paused and resumed it so far, the newest last."""
LOOKED_AT: Final = "looked_at"
"""By operation id: who looks at a call that waits for a person, until when."""
LEDGER: Final = "ledger"
"""By tool: when its ledger was compared last, and who does so now."""
FINDING: Final = "finding"
"""By id: what a comparison with a tool's ledger has found."""
ALARM: Final = "alarm"
"""By what it is about: an alert that receivers were told of, and that is not closed."""
DELIVERY: Final = "delivery"
"""By alert: how far its delivery has come."""
SENDING: Final = "sending"
"""Which process delivers alerts now."""


def read(text: str | None) -> dict[str, Any]:
    """Return what a note holds; nothing if there is none."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def noted(books: Books, kind: str, name: str) -> dict[str, Any]:
    """Return what is noted of a kind under a name; empty if nothing is."""
    return read(books.note(kind, name))


def put(books: Books, kind: str, name: str, facts: dict[str, Any] | None) -> None:
    """Note facts under a name; ``None``: nothing any more."""
    books.put_note(kind, name, None if facts is None else json.dumps(facts))
