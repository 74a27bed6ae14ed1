"""What is known of every source table over its whole life: lineages, their names, versions and stops.

A *lineage* is one source table from its birth to its drop, whatever it is called meanwhile; its `versions` say which
columns its rows have after which TSO, and what each statement did to the rows that were there (`effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ticdc_assets.schema.evolution import Effect
from ticdc_assets.schema.model import TableSchema

SourceName = tuple[str, str]
"""Schema and table."""


def fold_name(schema: str, table: str) -> SourceName:
    """Names as TiDB compares them: without regard to case."""
    return (schema.lower(), table.lower())


def same_name(one: SourceName, other: SourceName) -> bool:
    """Whether two names are of one table."""
    return fold_name(*one) == fold_name(*other)


@dataclass(frozen=True, slots=True)
class Version:
    """The shape of rows with commit_ts above `from_ts`, and what its statement did to rows that were there."""

    from_ts: int
    table: TableSchema
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenure:
    """A name a lineage bore for rows with commit_ts in `(after_ts, until_ts]`; None = it still does."""

    schema: str
    table: str
    after_ts: int
    until_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why a lineage cannot go on: rows above `ts` are not decodable until the user helps."""

    ts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """One source table from birth to drop."""

    id: str
    tenures: tuple[Tenure, ...]
    versions: tuple[Version, ...]
    dropped_ts: int | None = None
    stop: Stop | None = None
    marks: tuple[str, ...] = ()

    @property
    def name(self) -> SourceName:
        """Its newest name; a dropped table's last one."""
        return (self.tenures[-1].schema, self.tenures[-1].table)

    def name_at(self, ts: int) -> SourceName | None:
        """What it was called right after `ts`; None before its birth and after its drop."""
        for tenure in self.tenures:
            if tenure.after_ts <= ts and (tenure.until_ts is None or ts < tenure.until_ts):
                return (tenure.schema, tenure.table)
        return None

    def was_ever(self, called: Callable[[str, str], bool]) -> bool:
        """Whether it bears or bore a name of some kind."""
        return any(called(tenure.schema, tenure.table) for tenure in self.tenures)

    @property
    def told_ts(self) -> int:
        """The TSO of what first told of it; 0 where that was the user."""
        return int(self.id.rpartition("@")[2])

    @property
    def newest(self) -> TableSchema:
        return self.versions[-1].table

    def version_at(self, commit_ts: int) -> Version:
        """The version that a row with this commit_ts has; DDL takes effect after the rows of its own TSO."""
        for version in reversed(self.versions):
            if version.from_ts < commit_ts:
                return version
        return self.versions[0]


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of a source name's life with one lineage and one version: rows with commit_ts > `after_ts`."""

    after_ts: int
    lineage_id: str | None
    version: Version | None


@dataclass(frozen=True, slots=True)
class History:
    """All lineages, by id and by the names they bore."""

    lineages: tuple[Lineage, ...]
    _bearers: dict[SourceName, list[Lineage]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for lineage in self.lineages:
            for name in {fold_name(tenure.schema, tenure.table) for tenure in lineage.tenures}:
                self._bearers.setdefault(name, []).append(lineage)

    def by_id(self) -> dict[str, Lineage]:
        return {lineage.id: lineage for lineage in self.lineages}

    def as_of(self, schema: str, table: str, commit_ts: int) -> tuple[Lineage, Version] | None:
        """The lineage and version of a row of that name and commit_ts, if any table bore the name then."""
        for lineage in self.ever_called(schema, table):
            for tenure in lineage.tenures:
                inside = tenure.after_ts < commit_ts and (tenure.until_ts is None or commit_ts <= tenure.until_ts)
                if inside and fold_name(tenure.schema, tenure.table) == fold_name(schema, table):
                    return lineage, lineage.version_at(commit_ts)
        return None

    def ever_called(self, schema: str, table: str) -> Sequence[Lineage]:
        """The lineages that bear or bore the name."""
        return self._bearers.get(fold_name(schema, table), ())

    def timelines(self) -> dict[SourceName, tuple[Slot, ...]]:
        """For every name (case folded): its slots by `after_ts`, gaps between two tables of that name included."""
        slots: dict[SourceName, list[Slot]] = {}
        for lineage in self.lineages:
            for tenure in lineage.tenures:
                slots.setdefault(fold_name(tenure.schema, tenure.table), []).extend(_tenure_slots(lineage, tenure))
        return {name: _merged(found) for name, found in slots.items()}


def _tenure_slots(lineage: Lineage, tenure: Tenure) -> Iterator[Slot]:
    yield Slot(tenure.after_ts, lineage.id, lineage.version_at(tenure.after_ts + 1))
    for version in lineage.versions:
        if version.from_ts > tenure.after_ts and (tenure.until_ts is None or version.from_ts < tenure.until_ts):
            yield Slot(version.from_ts, lineage.id, version)
    if tenure.until_ts is not None:
        yield Slot(tenure.until_ts, None, None)


def _merged(found: Sequence[Slot]) -> tuple[Slot, ...]:
    by_start: dict[int, Slot] = {}
    for slot in found:
        # Where one table leaves a name at the TSO at which the next takes it, the next one's slot stands.
        if slot.after_ts not in by_start or slot.lineage_id is not None:
            by_start[slot.after_ts] = slot
    return tuple(by_start[ts] for ts in sorted(by_start))
