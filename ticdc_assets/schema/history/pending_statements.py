"""Statements and stops for names that no source table has yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, Stop, fold_name

PendingStatement = tuple[DdlEvent, ddl.TruncateTable | ddl.AlterTable]


@dataclass(slots=True)
class PendingStatements:
    """The pending statements and stops by name, without regard to case."""

    _statements: dict[SourceName, list[PendingStatement]] = field(default_factory=dict)
    _stops: dict[SourceName, Stop] = field(default_factory=dict)
    _stops_of_databases: dict[str, Stop] = field(default_factory=dict)

    def called(self, table: str) -> set[SourceName]:
        """The pending names of this table in any database."""
        return {name for name in (*self._statements, *self._stops) if name[1] == fold(table)}

    def inside(self, schema: str) -> set[SourceName]:
        """The pending names in a database."""
        return {name for name in (*self._statements, *self._stops) if name[0] == fold(schema)}

    def change(self, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable) -> None:
        """Keep a statement on the event's table."""
        self._statements.setdefault(fold_name(event.schema, event.table), []).append((event, statement))

    def stop(self, name: SourceName, stop: Stop) -> None:
        """Stop the next table that gets this name; the first stop of a name counts."""
        self._stops.setdefault(fold_name(*name), stop)

    def stop_database(self, schema: str, stop: Stop) -> None:
        """Stop each new table of this database; of every database where `schema` is empty."""
        self._stops_of_databases.setdefault(fold(schema), stop)

    def take_changes(self, name: SourceName) -> list[PendingStatement]:
        """Remove and return the statements on a name."""
        return self._statements.pop(fold_name(*name), [])

    def take_stop(self, name: SourceName) -> Stop | None:
        """The earliest stop of the name and its database; the name's own stop is removed."""
        of_databases = (self._stops_of_databases.get(schema) for schema in ("", fold(name[0])))
        stops = [stop for stop in (self._stops.pop(fold_name(*name), None), *of_databases) if stop is not None]
        return min(stops, key=lambda stop: stop.ts, default=None)

    def forget(self, name: SourceName) -> None:
        """Remove what is pending for a name."""
        self._statements.pop(fold_name(*name), None)
        self._stops.pop(fold_name(*name), None)

    def forget_database(self, schema: str) -> None:
        """Remove the stop of a database that is dropped."""
        self._stops_of_databases.pop(fold(schema), None)
