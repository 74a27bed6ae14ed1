"""A source table while `history.fold` builds it, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets.schema.evolution.evolve import SchemaState
from ticdc_assets.schema.history.source_table import NamePeriod, SourceName, SourceTable, Stop, Version


@dataclass(slots=True)
class SourceTableBuilder:
    """One source table so far; `shape` is its current one.

    is_whole: whether the stream has sent all its rows, since it was created or truncated in the stream.
    is_made: whether a CREATE statement in the stream has all its columns.
    is_contained: whether a loaded dump has what the stream sends of it.
    copied_ts: the TSO at which its rows are copied from TiDB; 0 where they are not.
    """

    id: str
    shape: SchemaState
    name_periods: list[NamePeriod]
    versions: list[Version]
    dropped_ts: int | None = None
    stop: Stop | None = None
    marks: list[str] = field(default_factory=list)
    is_whole: bool = False
    is_made: bool = False
    is_contained: bool = False
    copied_ts: int = 0

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
        )
