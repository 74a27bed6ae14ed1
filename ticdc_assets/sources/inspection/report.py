"""The result of an inspection: counts, names, times and faults; never row values.

All lists have a bound, so that a stream of any length is inspected in constant memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.protocols.events import Op, RowEvent

NAMES_MAX: Final = 10_000
"""Tables or partitions that are counted separately; the rows of all others are counted together."""

PROBLEMS_MAX: Final = 100
"""Different problems that are listed."""

OTHERS: Final = "(other tables)"
"""The entry of all tables beyond `NAMES_MAX`."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read; None reads everything. `messages` counts those of all files, `bytes_` what data files hold."""

    messages: int | None = 200_000
    bytes_: int | None = 64 << 20


@dataclass(slots=True)
class OperationCounts:
    """Rows by operation; `upserts` if the stream does not distinguish INSERT and UPDATE."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    upserts: int = 0

    @property
    def rows(self) -> int:
        """All rows."""
        return self.inserts + self.updates + self.deletes + self.upserts

    def add(self, op: Op, upsert: bool = False) -> None:
        """Count one row."""
        if op is Op.DELETE:
            self.deletes += 1
        elif upsert:
            self.upserts += 1
        elif op is Op.INSERT:
            self.inserts += 1
        else:
            self.updates += 1


@dataclass(slots=True)
class TableSeen:
    """One source table, under the name in its events."""

    schema: str
    table: str
    counts: OperationCounts = field(default_factory=OperationCounts)
    statements: int = 0
    schemas: int = 0
    first_ts: int | None = None
    last_ts: int | None = None

    def row(self, event: RowEvent) -> None:
        """Count one row change."""
        self.counts.add(event.op, event.upsert)
        self.at(event.commit_ts if event.commit_ts is not None else (event.time.commit_ms or 0) << 18)

    def at(self, ts: int | None) -> None:
        """Extend the range of commit_ts."""
        if ts:
            self.first_ts = ts if self.first_ts is None else min(self.first_ts, ts)
            self.last_ts = ts if self.last_ts is None else max(self.last_ts, ts)


@dataclass(slots=True)
class PartitionSeen:
    """One partition of a topic: its offsets and its watermark."""

    topic: str
    partition: int
    messages: int = 0
    first_offset: int = 0
    last_offset: int = -1
    missing: int = 0
    repeats: int = 0
    watermark: int | None = None
    watermark_went_back: int = 0


@dataclass(slots=True)
class ProblemSeen:
    """A fault, its first position, and how often it occurs."""

    where: str
    expected: str
    found: str
    advice: str
    count: int = 1

    @property
    def sentence(self) -> str:
        """The fault as a sentence: where, expected, found, and what to do."""
        often = f" ({self.count:,} times; this is the first)" if self.count > 1 else ""
        return f"{self.where}: expected {self.expected}, found {self.found}{often}. {self.advice}"


@dataclass(slots=True)
class DetectedConfig:
    """The configuration that a stream shows.

    `options` are the detected options of the changefeed under TiCDC's names. `sink_uri` and `config` are those of them
    that a config needs, `settings` this project's own keys.
    """

    options: dict[str, Any] = field(default_factory=dict)
    sink_uri: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class AmountRead:
    """The data files that there are, and how much was read; `whole` is whether that is everything."""

    files: int = 0
    files_read: int = 0
    messages: int = 0
    whole: bool = True


@dataclass(slots=True)
class EventsSeen:
    """How many events there are besides rows; `watermark` is the TSO up to which the stream is complete, if known."""

    watermark: int | None = None
    watermarks: int = 0
    statements: int = 0
    schemas: int = 0


@dataclass(slots=True)
class Inspection:
    """The whole result. `kind` is storage, capture or kafka."""

    place: str
    kind: str
    protocol: str = ""
    read: AmountRead = field(default_factory=AmountRead)
    events: EventsSeen = field(default_factory=EventsSeen)
    detected: DetectedConfig = field(default_factory=DetectedConfig)
    tables: dict[tuple[str, str], TableSeen] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionSeen] = field(default_factory=dict)
    problems: dict[tuple[str, str], ProblemSeen] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> OperationCounts:
        """The rows of all tables."""
        seen = [table.counts for table in self.tables.values()]
        return OperationCounts(
            *(sum(getattr(c, n) for c in seen) for n in ("inserts", "updates", "deletes", "upserts"))
        )

    def table(self, schema: str, table: str) -> TableSeen:
        """The entry of that table, created on first use."""
        name = (schema, table)
        if name not in self.tables and len(self.tables) >= NAMES_MAX:
            name = ("", OTHERS)
        return self.tables.setdefault(name, TableSeen(*name))

    def problem(self, where: str, expected: str, found: str, advice: str, count: int = 1) -> None:
        """Add a fault; a repeated fault is only counted."""
        known = self.problems.get((expected, found))
        if known is not None:
            known.count += count
        elif len(self.problems) < PROBLEMS_MAX:
            self.problems[expected, found] = ProblemSeen(where, expected, found, advice, count)

    def fault(self, error: TicdcAssetsError) -> None:
        """Add an error as a problem."""
        self.problem(error.where, error.expected, error.found, error.advice)

    def note(self, sentence: str) -> None:
        """Add a fact that is useful and no fault."""
        if len(self.notes) < PROBLEMS_MAX and sentence not in self.notes:
            self.notes.append(sentence)
