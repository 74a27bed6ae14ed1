"""Python code with which a reader opens all mirrors at their recorded snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ticdc_assets.names import quote_path

_PYICEBERG: Final = """from pyiceberg.catalog import load_catalog

catalog = load_catalog({catalog!r})
snapshots = {snapshots}
tables = {{name: catalog.load_table(name).scan(snapshot_id=i).to_arrow() for name, i in snapshots.items()}}"""

_POLARS: Final = """import polars
from pyiceberg.catalog import load_catalog

catalog = load_catalog({catalog!r})
snapshots = {snapshots}
tables = {{name: polars.scan_iceberg(catalog.load_table(name), snapshot_id=i) for name, i in snapshots.items()}}"""

_DUCKDB: Final = """import duckdb
from pyiceberg.catalog import load_catalog

duckdb.sql("LOAD avro; LOAD iceberg")
catalog = load_catalog({catalog!r})
snapshots = {snapshots}
files = {{name: catalog.load_table(name).metadata_location for name in snapshots}}
scan = "SELECT * FROM iceberg_scan('{{}}', snapshot_from_id = {{}})"
tables = {{name: duckdb.sql(scan.format(files[name], i)) for name, i in snapshots.items()}}"""


def _spark(catalog: str, snapshots: Mapping[tuple[str, ...], int]) -> str:
    lines = [
        f"    {name!r}: spark.sql({_select(catalog, name, snapshot_id)!r})," for name, snapshot_id in snapshots.items()
    ]
    return "\n".join(("tables = {", *lines, "}"))


def _select(catalog: str, name: tuple[str, ...], snapshot_id: int) -> str:
    return f"SELECT * FROM {quote_path((catalog, *name))} VERSION AS OF {snapshot_id}"  # noqa: S608


def _filled(template: str) -> Callable[[str, Mapping[tuple[str, ...], int]], str]:
    def fill(catalog: str, snapshots: Mapping[tuple[str, ...], int]) -> str:
        lines = "".join(f"    {name!r}: {snapshot_id},\n" for name, snapshot_id in snapshots.items())
        return template.format(catalog=catalog, snapshots=f"{{\n{lines}}}")

    return fill


_READERS: Final[Mapping[str, Callable[[str, Mapping[tuple[str, ...], int]], str]]] = {
    "spark": _spark,
    "pyiceberg": _filled(_PYICEBERG),
    "polars": _filled(_POLARS),
    "duckdb": _filled(_DUCKDB),
}


def snippet(reader: str, catalog: str, tables: Iterable[Mapping[str, Any]]) -> str:
    """The code for one of spark, pyiceberg, polars and duckdb. It sets `tables`: by identifier, the mirror's rows.

    `tables` are those of `recorded_snapshot`; `catalog` is the name in pyiceberg's own configuration and in Spark.
    """
    snapshots = {tuple(table["mirror"]): table["snapshot_id"] for table in tables if table["mirror"]}
    return _READERS[reader](catalog, snapshots)
