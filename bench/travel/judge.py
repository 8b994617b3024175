"""Whether every trip is wholly done, wholly undone, or in the queue with exactly the steps that stand.

The services' books are the truth: what is here knows nothing of settled's rules, only what it says in the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from bench.travel.plan import PARTS, STAY, TOGETHER, Trip
from bench.travel.weather import IN_DOUBT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = dict[str, Any]
Kind = Literal["done", "undone", "queued", "half"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known in the end."""

    trips: Sequence[Trip]
    books: Sequence[Row]
    """Every request that any service was sent, in the order in which the services acted."""
    queue: Sequence[Row]
    """What settled says that waits for a person."""
    runs: Mapping[str, str]
    """What settled says of each run."""
    told: Sequence[Row]
    """What agents were told of trips."""
    killed: frozenset[int]
    """Process ids."""


@dataclass(slots=True)
class Findings:
    """What became of the trips, and a line of evidence for each wrong."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why steps stand in the queue, by what the books show."""
    late: int = 0
    """Steps that were undone after others which had been done before them, since their undoing had met with trouble."""
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def problem(self, kind: str, what: str) -> None:
        """Note that something is wrong."""
        self.wrong[kind].append(what)


def judge(evidence: Evidence) -> Findings:
    """Judge all trips."""
    findings, known = Findings(), {trip.name for trip in evidence.trips}
    books, queue, told = (_by_trip(rows) for rows in (evidence.books, evidence.queue, evidence.told))
    for trip in evidence.trips:
        case = Case(trip, books[trip.name], queue[trip.name], evidence.killed, findings)
        case.judge(evidence.runs, told[trip.name])
    for name in {*books, *queue} - known - {""}:
        findings.problem("strange", f"{name} is no trip")
    for row in evidence.books:
        if row["word"] == "strange":
            findings.problem("strange", f"a booking that never was is cancelled: {row}")
    for entry in queue.get("", ()):
        findings.problem("queued without need", f"of no trip: {entry}")
    return findings


def _by_trip(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["trip"]].append(row)
    return found


@dataclass(slots=True)
class Case:
    """One trip, with its rows of the books and its entries of the queue."""

    trip: Trip
    rows: list[Row]
    queue: list[Row]
    killed: frozenset[int]
    findings: Findings
    booked: dict[str, Row] = field(init=False)
    """Part -> the row in which it was done, once."""
    cancelled: dict[str, Row] = field(init=False)

    def judge(self, runs: Mapping[str, str], told: Sequence[Row]) -> None:
        """Judge it."""
        self.booked = self._once("booked", "done more than once")
        self.cancelled = self._once("cancelled", "undone more than once")
        for part, row in self.cancelled.items():
            if part not in self.booked or row["at"] < self.booked[part]["at"]:
                self._wrong("wrong order", f"{part} is undone before it was done")
        self._order()
        self._behind_the_back()
        self._mail()
        kind = self._kind()
        self.findings.kinds[kind] += 1
        if kind == "half":
            self._wrong("half done", f"{sorted(self.standing)} stand, and nothing of it is in the queue")
        self._queue()
        self._claims(kind, runs, told)

    def _wrong(self, kind: str, what: str) -> None:
        self.findings.problem(kind, f"{self.trip.name}: {what}")

    def _once(self, word: str, wrong: str) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for row in self.rows:
            if row["word"] == word:
                if row["part"] in found:
                    self._wrong(wrong, f"{row['part']} by {found[row['part']]} and {row}")
                found.setdefault(row["part"], row)
        return found

    @property
    def standing(self) -> set[str]:
        """The parts that are done and not undone."""
        return self.booked.keys() - self.cancelled.keys()

    # --- order ---

    def _order(self) -> None:
        """What was done last is undone first; what was done side by side has no order."""
        undone = sorted(self.cancelled.keys() & self.booked.keys(), key=lambda part: self.booked[part]["at"])
        for first, second in combinations(undone, 2):
            early = self.cancelled[first]["at"] < self.cancelled[second]["at"]
            if not early or {first, second} == TOGETHER:
                continue
            if self._in_trouble(second, until=self.cancelled[first]["at"]):
                self.findings.late += 1
            else:
                self._wrong("wrong order", f"{first} is undone before {second}, which was done later")

    def _in_trouble(self, part: str, until: int) -> bool:
        """Whether undoing a part, or asking about it, met with a fault before a moment: then the others go on."""
        return any(
            row["part"] == part and row["verb"] != "book" and row["at"] < until and _hindered(row) for row in self.rows
        )

    def _behind_the_back(self) -> None:
        """Nothing is done any more once something was undone."""
        begun = min((row["at"] for row in self.cancelled.values()), default=None)
        for part, row in self.booked.items():
            if begun is not None and row["at"] > begun:
                self._wrong("done behind the back", f"{part} is done after the undoing had begun")

    def _mail(self) -> None:
        """The mail is the last: what it speaks of stands when it is sent."""
        mail = self.booked.get("mail")
        others = [part for part in self.trip.parts if part != "mail"]
        if mail is not None and any(p not in self.booked or self.booked[p]["at"] > mail["at"] for p in others):
            self._wrong("mail too early", f"sent before all of {others} were done")

    # --- what became of it ---

    def _kind(self) -> Kind:
        if self.queue:
            return "queued"
        if not self.standing:
            return "undone"
        return "done" if self.standing == set(self.trip.parts) else "half"

    def _queue(self) -> None:
        """The queue names exactly the steps that stand, and nothing without a need."""
        if not self.queue:
            return
        named = {entry["part"] for entry in self.queue}
        for part in self.standing - named:
            self._wrong("half done", f"{part} stands, and is not in the queue, which names {sorted(named)}")
        for entry in self.queue:
            reason = self._need(entry)
            self.findings.reasons[reason or "without need"] += 1
            if not reason:
                self._wrong("queued without need", str(entry))
        for part, count in Counter(entry["part"] for entry in self.queue).items():
            if count > 1:
                self._wrong("queued more than once", f"{part} by {self.queue}")

    def _need(self, entry: Row) -> str:
        """Return what makes a person needed, by the books; empty: nothing does."""
        part = PARTS[entry["part"]]
        stands = part.name in self.standing
        if entry["waiting"] == "unknown":
            asked = part.undo_asked if entry["undoing"] else part.asked
            return "" if asked else self._doubt(entry)
        if not stands:
            return ""
        if not part.undoes:
            return "done, and nothing undoes it"
        refused = any(r["verb"] == "cancel" and r["part"] == part.name and r["word"] == "refused" for r in self.rows)
        return "its undoing is refused for good" if refused else ""

    def _doubt(self, entry: Row) -> str:
        """A true doubt: the services' fault hid the outcome, or the process that asked was killed."""
        if doubted(self.rows, entry):
            return "nobody can know: a fault hid the outcome"
        if self.killed & set(entry["processes"]):
            return "nobody can know: its process was killed"
        return ""

    # --- what was said of it ---

    def _claims(self, kind: Kind, runs: Mapping[str, str], told: Sequence[Row]) -> None:
        state = runs.get(self.trip.name, "new")
        expected = {"done": "completed", "undone": "compensated", "queued": "partly_compensated", "half": ""}[kind]
        if state != expected:
            self._wrong("said otherwise", f"it is {kind} by the books, and its run is {state}")
        if kind == "undone" and runs.get(f"{self.trip.name}{STAY}", "compensated") != "compensated":
            self._wrong("said otherwise", f"it is undone, and its inner run is {runs[f'{self.trip.name}{STAY}']}")
        words = {row["said"] for row in told}
        if "completed" in words and kind != "done":
            self._wrong("told otherwise", f"it is {kind}, and an agent was told that it is completed")
        if "compensated" in words and kind != "undone":
            self._wrong("told otherwise", f"it is {kind}, and an agent was told that it is undone")
        if not words:
            self._wrong("told otherwise", "no agent was told anything")


def doubted(rows: Iterable[Row], entry: Row) -> bool:
    """Whether the books show a fault that hid the outcome of what an entry of the queue is about."""
    verb = "cancel" if entry["undoing"] else "book"
    return any(r["verb"] == verb and r["part"] == entry["part"] and r["fault"] in IN_DOUBT for r in rows)


def _hindered(row: Row) -> bool:
    return bool(row["fault"]) or row["word"] in ("expired", "refused")


def unexplained(evidence_books: Sequence[Row], queue: Iterable[Row]) -> list[Row]:
    """Return the entries whose doubt the books do not show: a killed process must be what explains them."""
    books = _by_trip(evidence_books)
    unknown = [entry for entry in queue if entry["waiting"] == "unknown"]
    return [entry for entry in unknown if not doubted(books[entry["trip"]], entry)]
