"""Source tables with their names, versions and stops.

A *source table* is one table from its creation to its drop, under all its names. Its `versions` have the columns of its
rows after each TSO, and what each statement did to the rows that existed (`effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.evolution.schema_state import Shape
from ticdc_assets.schema.model import TableName, TableSchema

if TYPE_CHECKING:
    from ticdc_assets.schema.evolution.schema_state import Effect


SourceName = TableName
"""A name that a source table has or had."""


def fold_name(schema: str, table: str) -> SourceName:
    """The name in lower case: TiDB compares names without regard to case."""
    return (fold(schema), fold(table))


def same_name(one: SourceName, other: SourceName) -> bool:
    """Whether two names are equal without regard to case."""
    return fold_name(*one) == fold_name(*other)


@dataclass(frozen=True, slots=True)
class Version:
    """The columns of rows with commit_ts above `from_ts`, and what the statement did to earlier rows."""

    from_ts: int
    table: TableSchema
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class NamePeriod:
    """The name of a source table for rows with commit_ts in `(after_ts, until_ts]`; None = it still has the name."""

    schema: str
    table: str
    after_ts: int
    until_ts: int | None = None

    @property
    def folded(self) -> SourceName:
        """The name in lower case."""
        return fold_name(self.schema, self.table)


@dataclass(frozen=True, slots=True)
class Absence:
    """A source table does not exist from its drop at `dropped_ts` to `back_ts`, when RECOVER or FLASHBACK TABLE brought
    it back; None where nothing did."""

    dropped_ts: int
    back_ts: int | None = None

    def includes(self, ts: int) -> bool:
        """Whether the table does not exist right after `ts`."""
        return self.dropped_ts <= ts and (self.back_ts is None or ts < self.back_ts)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why a source table stops: rows above `ts` cannot be decoded until the user acts.

    waits_for_schema: whether a text in `schema_files` has to be corrected, and nothing else.
    advice: what to do besides what lets every stopped table continue.
    """

    ts: int
    reason: str
    waits_for_schema: bool = False
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One source table from creation to drop. Where it `is_contained`, a dump that was loaded has all its rows. Where
    `copied_ts` is not 0, its rows up to there are those of TiDB. `gaps` are the pairs of TSOs between which it exists
    and none of its changes are known.

    RECOVER and FLASHBACK TABLE continue a dropped table, so it may have several `absences`. `dropped_ts` is set where
    the last one is not over.
    """

    id: str
    name_periods: tuple[NamePeriod, ...]
    versions: tuple[Version, ...]
    dropped_ts: int | None = None
    stop: Stop | None = None
    marks: tuple[str, ...] = ()
    is_contained: bool = False
    copied_ts: int = 0
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> SourceName:
        """Its current name; the last one of a dropped table."""
        return (self.name_periods[-1].schema, self.name_periods[-1].table)

    @property
    def folded_names(self) -> set[SourceName]:
        """All names that it has or had, in lower case."""
        return {period.folded for period in self.name_periods}

    def name_at(self, ts: int) -> SourceName | None:
        """Its name right after `ts`; None before its creation and after its drop."""
        for name_period in self.name_periods:
            if name_period.after_ts <= ts and (name_period.until_ts is None or ts < name_period.until_ts):
                return (name_period.schema, name_period.table)
        return None

    def name_until(self, ts: int) -> SourceName:
        """Its name right after `ts`; the last one before that where it is dropped then."""
        period = next((period for period in reversed(self.name_periods) if period.after_ts <= ts), self.name_periods[0])
        return (period.schema, period.table)

    @property
    def absences(self) -> tuple[Absence, ...]:
        """When it does not exist, from its creation on."""
        found, known = [], {begin for begin, _ in self.gaps}
        for number, period in enumerate(self.name_periods, start=1):
            back_ts = self.name_periods[number].after_ts if number < len(self.name_periods) else None
            if period.until_ts is not None and period.until_ts != back_ts and period.until_ts not in known:
                found.append(Absence(period.until_ts, back_ts))
        return tuple(found)

    def absence_at(self, ts: int) -> Absence | None:
        """The absence in which it is right after `ts`."""
        return next((absence for absence in self.absences if absence.includes(ts)), None)

    def was_ever(self, called: Callable[[str, str], bool]) -> bool:
        """Whether any of its names satisfies `called`."""
        return any(called(name_period.schema, name_period.table) for name_period in self.name_periods)

    @property
    def first_event_ts(self) -> int:
        """The TSO of the first event that has it; 0 where it is known only from `schema_files`."""
        return int(self.id.rpartition("@")[2])

    @property
    def newest(self) -> TableSchema:
        """The schema of the last version."""
        return self.versions[-1].table

    def version_at(self, commit_ts: int) -> Version:
        """The version that a row with this commit_ts has; DDL takes effect after the rows of its own TSO."""
        for version in reversed(self.versions):
            if version.from_ts < commit_ts:
                return version
        return self.versions[0]


@dataclass(frozen=True, slots=True)
class SchemaPeriod:
    """One source table and one version of a name, for rows with commit_ts above `after_ts`."""

    after_ts: int
    source_table_id: str
    version: Version


@dataclass(frozen=True, slots=True)
class SchemaGap:
    """No table has the name, for rows with commit_ts above `after_ts`."""

    after_ts: int


Timeline = tuple[SchemaPeriod | SchemaGap, ...]
"""The schema periods of one name and the gaps between two tables, ordered by `after_ts`. Each ends where the next
begins."""


@dataclass(frozen=True, slots=True)
class History:
    """All source tables, by id and by name."""

    source_tables: tuple[SourceTable, ...]
    _by_name: dict[SourceName, list[SourceTable]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for source_table in self.source_tables:
            for name in source_table.folded_names:
                self._by_name.setdefault(name, []).append(source_table)

    def by_id(self) -> dict[str, SourceTable]:
        """The source tables by their ids."""
        return {source_table.id: source_table for source_table in self.source_tables}

    def as_of(self, schema: str, table: str, commit_ts: int) -> tuple[SourceTable, Version] | None:
        """The source table and version of a row; None where no table had the name at its commit_ts."""
        for source_table in self.ever_called(schema, table):
            for name_period in source_table.name_periods:
                inside = name_period.after_ts < commit_ts and (
                    name_period.until_ts is None or commit_ts <= name_period.until_ts
                )
                if inside and name_period.folded == fold_name(schema, table):
                    return source_table, source_table.version_at(commit_ts)
        return None

    def ever_called(self, schema: str, table: str) -> Sequence[SourceTable]:
        """The source tables that have or had the name."""
        return self._by_name.get(fold_name(schema, table), ())

    def timelines(self) -> dict[SourceName, Timeline]:
        """The timeline of every name in lower case."""
        periods: dict[SourceName, list[SchemaPeriod | SchemaGap]] = {}
        for source_table in self.source_tables:
            for name_period in source_table.name_periods:
                periods.setdefault(name_period.folded, []).extend(_name_periods(source_table, name_period))
        return {name: _merged(of_name) for name, of_name in periods.items()}


def _name_periods(source_table: SourceTable, name_period: NamePeriod) -> Iterator[SchemaPeriod | SchemaGap]:
    yield SchemaPeriod(name_period.after_ts, source_table.id, source_table.version_at(name_period.after_ts + 1))
    for version in source_table.versions:
        if version.from_ts > name_period.after_ts and (
            name_period.until_ts is None or version.from_ts < name_period.until_ts
        ):
            yield SchemaPeriod(version.from_ts, source_table.id, version)
    if name_period.until_ts is not None:
        yield SchemaGap(name_period.until_ts)


def _merged(periods: Sequence[SchemaPeriod | SchemaGap]) -> Timeline:
    by_start: dict[int, SchemaPeriod | SchemaGap] = {}
    for period in periods:
        # A table may get the name at the TSO at which another one loses it: its period wins over the gap.
        if period.after_ts not in by_start or isinstance(period, SchemaPeriod):
            by_start[period.after_ts] = period
    return tuple(by_start[ts] for ts in sorted(by_start))


@dataclass(slots=True)
class SourceTableBuilder:
    """One source table so far; `shape` is its current one.

    is_whole: whether the stream has sent all its rows, since it was created or truncated in the stream.
    is_made: whether a CREATE statement in the stream has all its columns.
    is_contained: whether a loaded dump has what the stream sends of it.
    copied_ts: the TSO at which its rows are copied from TiDB; 0 where they are not.
    gaps: the pairs of TSOs between which none of its changes are known.
    """

    id: str
    shape: Shape
    name_periods: list[NamePeriod]
    versions: list[Version]
    dropped_ts: int | None = None
    stop: Stop | None = None
    marks: list[str] = field(default_factory=list)
    is_whole: bool = False
    is_made: bool = False
    is_contained: bool = False
    copied_ts: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def name(self) -> SourceName:
        """The newest name."""
        return (self.name_periods[-1].schema, self.name_periods[-1].table)

    def frozen(self) -> SourceTable:
        """The source table as it is now."""
        return SourceTable(
            self.id,
            tuple(self.name_periods),
            tuple(self.versions),
            self.dropped_ts,
            self.stop,
            tuple(self.marks),
            self.is_contained,
            self.copied_ts,
            tuple(self.gaps),
        )
