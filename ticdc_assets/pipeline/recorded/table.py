"""One mirror or changelog at the snapshot that a record in `watermarks` names."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind

from ticdc_assets import spark
from ticdc_assets.errors import ConfigError, MachineError, NotYetError
from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.tables.catalog import Identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import pandas
    import polars
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, Table
    from pyspark.sql import DataFrame


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
