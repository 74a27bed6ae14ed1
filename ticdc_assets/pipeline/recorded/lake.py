"""The mirrors and changelogs of a changefeed as a record in `watermarks` has them, for readers outside of runs.

All tables of one `RecordedLake` are of one TSO, whatever runs publish meanwhile: each is read at the snapshot that the
record names, and never at the newest one.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.table import DataScan, Table

from ticdc_assets import spark
from ticdc_assets.config import Changefeed, Config
from ticdc_assets.errors import ConfigError, MachineError, NotYetError
from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.quarantine import last_whole
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.control.tables import named

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame


MIRROR: Final = "mirror"
CHANGELOG: Final = "changelog"
HISTORY: Final = "history table"
_DROPPED: Final = "dropped"


@dataclass(frozen=True)
class RecordedTable:
    """One Iceberg table at one recorded snapshot.

    `columns` names the columns to read, default all. `where` selects rows by a condition in SQL, such as
    `id > 7 AND name IS NOT NULL`; pyiceberg's expressions are taken too, except by Spark. Columns and rows that are not
    asked for are left out while files are read.
    """

    lake: Lake = field(repr=False)
    identifier: Identifier
    snapshot_id: int | None
    tso: int

    def to_pyiceberg(self) -> Table:
        """The table itself. A scan of it reads the recorded rows only with `snapshot_id`, which `scan` gives."""
        return self.lake.catalog.load_table(self.identifier)

    def scan(self, columns: Sequence[str] | None = None, where: str | BooleanExpression = "") -> DataScan:
        """A scan of pyiceberg at the recorded snapshot.

        Raises:
            ConfigError: a column is not there, or `where` cannot be read.
            NotYetError: maintenance has removed the snapshot.
        """
        table = self.to_pyiceberg()
        self._require_snapshot(table)
        schema = table.scan(snapshot_id=self.snapshot_id).projection()
        missing = [name for name in columns or () if name not in schema.column_names]
        if missing:
            listed = f"columns of {', '.join(schema.column_names)}"
            raise ConfigError(".".join(self.identifier), listed, ", ".join(missing), "Correct `columns`.")
        row_filter = self._condition(where, schema) if self.snapshot_id is not None else AlwaysFalse()
        return table.scan(row_filter, tuple(columns or ("*",)), snapshot_id=self.snapshot_id)

    def _condition(self, where: str | BooleanExpression, schema: Schema) -> BooleanExpression:
        if not where:
            return AlwaysTrue()
        try:
            condition = parse(where) if isinstance(where, str) else where
            bind(schema, condition, case_sensitive=True)
        except Exception as error:  # noqa: BLE001  the parser and the binding have kinds of their own
            expected = f"a condition in SQL on {', '.join(schema.column_names)}"
            raise ConfigError("where", expected, type(error).__name__, "Correct it.") from None
        return condition

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | BooleanExpression = "") -> pa.Table:
        """The rows as an Arrow table."""
        return self.scan(columns, where).to_arrow()

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | BooleanExpression = "") -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow(columns, where).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, where: str | BooleanExpression = "") -> polars.DataFrame:
        """The rows as a polars DataFrame. Raises MachineError where polars is not installed."""
        frame: polars.DataFrame = required("polars").from_arrow(self.to_arrow(columns, where))
        return frame

    def to_duckdb(
        self,
        columns: Sequence[str] | None = None,
        where: str | BooleanExpression = "",
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, in `connection` or a new one. Raises MachineError where DuckDB is not
        installed."""
        # DuckDB reads the batches as they are asked for; the relation keeps the connection.
        opened = connection or required("duckdb").connect()
        relation: duckdb.DuckDBPyRelation = opened.from_arrow(self.to_arrow(columns, where))
        return relation

    def to_spark(self, columns: Sequence[str] | None = None, where: str = "") -> DataFrame:
        """A Spark DataFrame in the lake's session, which starts if it is not running.

        Raises:
            ConfigError: `where` is not SQL.
        """
        if not isinstance(where, str):
            raise ConfigError("where", "a condition in SQL for Spark", type(where).__name__, "Give it as text.")
        self._require_snapshot(self.to_pyiceberg())
        name = quote_path((self.lake.config.catalog.name, *self.identifier))
        reader = spark.session(self.lake.config).read
        if self.snapshot_id is not None:
            reader = reader.option("versionAsOf", str(self.snapshot_id))
        rows = reader.table(name)
        if self.snapshot_id is None:
            rows = rows.where("false")
        if where:
            rows = rows.where(where)
        return rows.select(*columns) if columns else rows

    def _require_snapshot(self, table: Table) -> None:
        if self.snapshot_id is None or table.metadata.snapshot_by_id(self.snapshot_id) is not None:
            return
        raise NotYetError(
            ".".join(self.identifier),
            f"snapshot {self.snapshot_id} of TSO {self.tso}",
            "none, as maintenance has removed it",
            f"Read a later TSO; `ticdc-assets maintain --pin {self.tso}` keeps the snapshots of a TSO.",
        )


def required(module: str) -> Any:
    """The module. Raises MachineError where its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        found = f"no module {module}"
        raise MachineError("this Python", f"the package {module}", found, f"Run: pip install {module}") from None


# -- all tables of a record --------------------------------------------------------------------------------------------


def recorded_lake(
    config: Config,
    changefeed: Changefeed,
    at: int | None = None,
    tables: Sequence[str] = (),
    stays_before_quarantine: bool | None = None,
) -> RecordedLake:
    """The tables of the newest record, or of the newest up to the TSO `at`. Needs no JVM.

    Args:
        tables: patterns such as `shop.users` or `*.*`. While one of these tables is held, the record is the newest one
            in which all of them are complete. The other tables may be held in it: to read those is refused.
        stays_before_quarantine: whether a record without `at` is one before the first record in quarantine; None for
            the config's `readers`.

    Raises:
        ConfigError: a pattern is invalid.
        NotYetError: there is no such record.
    """
    lake = Lake(read_only_config(config), changefeed)
    where, last = f"changefeed {changefeed.name}", last_whole(lake, stays_before_quarantine) if at is None else None
    if last is None:
        return RecordedLake(lake, lake.control.require_at(at, where, named(tables)))
    record = lake.control.at(last, named(tables))
    if record is None:
        advice = "Replay or discard those that `ticdc-assets tables` shows, or read the newest record."
        raise NotYetError(where, "a complete record before the first one in quarantine", "none", advice)
    return RecordedLake(lake, record)


@dataclass(frozen=True)
class RecordedLake:
    """A changefeed's tables at one recorded TSO. Tables that are held there are not of that TSO, and cannot be read."""

    lake: Lake = field(repr=False)  # its config may hold credentials
    record: WatermarkRecord = field(repr=False)

    @property
    def tso(self) -> int:
        """The TSO up to which every table of `tables` is complete."""
        return self.record.tso

    @property
    def held(self) -> dict[str, str]:
        """Why source tables cannot be read at this TSO, by `schema.table`."""
        return {_name(table): table.note or "it is behind" for table in self.record.held if table.state != _DROPPED}

    @property
    def tables(self) -> tuple[str, ...]:
        """The source tables that can be read at this TSO, as `schema.table`."""
        return tuple(sorted(_name(table) for table in self.record.tables if table.complete and table.state != _DROPPED))

    @property
    def lacking(self) -> dict[str, int]:
        """The number of records in quarantine that the tables here may lack, by table, as `schema.table`."""
        return {_name(table): table.quarantined for table in self.record.tables if table.quarantined}

    def mirror(self, name: str) -> RecordedTable:
        """The current rows of the source table `schema.table`. Raises ConfigError where there is no such mirror."""
        return self._table(name, MIRROR)

    def changelog(self, name: str) -> RecordedTable:
        """Every change of the source table `schema.table`. Raises ConfigError where there is no such table."""
        return self._table(name, CHANGELOG)

    def history_table(self, name: str) -> RecordedTable:
        """The table with every version of every row of the source table `schema.table`, where the config's `history`
        asks for it. Raises ConfigError where there is none."""
        return self._table(name, HISTORY)

    def _table(self, name: str, kind: str) -> RecordedTable:
        found = self._record_of(name)
        identifier, snapshot_id = _place_in(found, kind)
        if identifier is None:
            raise ConfigError(name, f"a table with a {kind}", f"none at TSO {self.tso}", _WITHOUT[kind])
        newest = self.lake.recorded(self.lake.control.newest()).get(found.source_table, found)
        moved, _ = _place_in(newest, kind)
        return RecordedTable(self.lake, tuple(moved or identifier), snapshot_id, self.tso)

    def _record_of(self, name: str) -> TableRecord:
        wanted = fold_name(name, "")
        for table in self.record.tables:
            if table.state != _DROPPED and fold_name(_name(table), "") == wanted:
                self._require_complete(table)
                return table
        listed = ", ".join(self.tables) or "no table"
        where = f"changefeed {self.lake.changefeed.name}"
        raise ConfigError(where, f"a source table {name} at TSO {self.tso}", listed, "Give it as schema.table.")

    def _require_complete(self, table: TableRecord) -> None:
        if table.complete:
            return
        name = _name(table)
        raise NotYetError(
            f"changefeed {self.lake.changefeed.name}",
            f"all of {name} up to TSO {self.tso}",
            f"a table that is held: {table.note or 'it is behind'}",
            "Name it in `tables`, with those to join it to: they are then of the newest TSO at which all are complete.",
        )


_WITHOUT: Final = {
    MIRROR: "A table without a key has a changelog only: docs/mirrors.md.",
    CHANGELOG: "See its note.",
    HISTORY: "Ask for it with `history` in the config; docs/time.md says which tables can have none.",
}


def _place_in(table: TableRecord, kind: str) -> tuple[list[str] | None, int | None]:
    """The identifier and the snapshot of one of the table's tables."""
    return {
        MIRROR: (table.mirror, table.mirror_snapshot_id),
        CHANGELOG: (table.changelog, table.changelog_snapshot_id),
        HISTORY: (table.history_table, table.history_snapshot_id),
    }[kind]


def _name(table: TableRecord) -> str:
    return f"{table.schema}.{table.table}"
