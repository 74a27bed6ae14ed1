"""What a stream tells of tables before any lineage bears their names: what is done to them, where they are stopped."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.lineage import SourceName, Stop, fold_name

Told = tuple[DdlEvent, ddl.TruncateTable | ddl.AlterTable]


@dataclass(slots=True)
class Unborn:
    """By name, without regard to case."""

    _statements: dict[SourceName, list[Told]] = field(default_factory=dict)
    _stops: dict[SourceName, Stop] = field(default_factory=dict)
    _stops_of_databases: dict[str, Stop] = field(default_factory=dict)

    def called(self, table: str) -> set[SourceName]:
        """The names that are told of, of this table in any database."""
        return {name for name in (*self._statements, *self._stops) if name[1] == table.lower()}

    def inside(self, schema: str) -> set[SourceName]:
        """The names that are told of in a database."""
        return {name for name in (*self._statements, *self._stops) if name[0] == schema.lower()}

    def change(self, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable) -> None:
        """A statement on the table that the event is about."""
        self._statements.setdefault(fold_name(event.schema, event.table), []).append((event, statement))

    def stop(self, name: SourceName, stop: Stop) -> None:
        """Who is born under this name is stopped; the first stop of a name counts."""
        self._stops.setdefault(fold_name(*name), stop)

    def stop_database(self, schema: str, stop: Stop) -> None:
        """Who is born in this database is stopped, in any where `schema` is empty."""
        self._stops_of_databases.setdefault(schema.lower(), stop)

    def take_changes(self, name: SourceName) -> list[Told]:
        """The statements on it, once."""
        return self._statements.pop(fold_name(*name), [])

    def take_stop(self, name: SourceName) -> Stop | None:
        """Where it is stopped: by its own stop, once, or that of its database, whichever comes first."""
        of_databases = (self._stops_of_databases.get(schema) for schema in ("", name[0].lower()))
        stops = [stop for stop in (self._stops.pop(fold_name(*name), None), *of_databases) if stop is not None]
        return min(stops, key=lambda stop: stop.ts, default=None)

    def forget(self, name: SourceName) -> None:
        """The name is free."""
        self._statements.pop(fold_name(*name), None)
        self._stops.pop(fold_name(*name), None)

    def forget_database(self, schema: str) -> None:
        """The database is gone."""
        self._stops_of_databases.pop(schema.lower(), None)
