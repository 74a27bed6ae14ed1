"""Mirrors against a real TiDB that TICDC_ASSETS_TIDB names (host:port, user root without a password)."""

from __future__ import annotations

import pickle
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.names import column_name
from ticdc_assets.pipeline.history.table_sums import MirrorRows
from ticdc_assets.pipeline.history.verification import Comparison, Reading, TableVerification, refusal
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl.statements import CreateTable
from ticdc_assets.schema.evolution.evolve import create as created
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import cells, value
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.iceberg.stored_rows import StoredTable
from ticdc_assets_tests.sources.upstream.kinds import KEYLESS, KINDS
from ticdc_assets_tests.sources.upstream.real_tidb import DATABASE, SERVER, Tidb

pytestmark = pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")

Row = dict[str, Any]
CHUNK_ROWS = 4
VALUES = [
    (text, *KINDS.get(text, KEYLESS.get(text, (None, None)))) for text in (*KINDS, "JSON", "VECTOR", "MEDIUMBLOB")
]
NULLS = [("DATE", "0000-00-00", None), ("TIMESTAMP", "0000-00-00 00:00:00", None), ("TEXT", None, None)]


def shape_of(create: str) -> TableSchema:
    [statement] = parse(create, DATABASE)
    assert isinstance(statement, CreateTable)
    return created(statement).table


@pytest.fixture
def tidb() -> Iterator[Tidb]:
    with closing(Tidb()) as opened:
        yield opened


def written(tidb: Tidb, create: str, rows: Sequence[Sequence[Any]]) -> tuple[TableSchema, int]:
    """A table of TiDB with rows, and the TSO at which it has them."""
    tidb.run(create)
    marks = ", ".join(["%s"] * len(rows[0]))
    ts = 0
    for row in rows:
        ts = tidb.run(f"INSERT INTO t VALUES ({marks})", values=tuple(row))
    return shape_of(create), ts


class Pickled(LocalWorkers):
    """Sends work as to workers of a cluster."""

    def map(self, work: Any, payloads: Sequence[Any]) -> list[Any]:
        return super().map(work, pickle.loads(pickle.dumps(payloads)))


def compared(tidb: Tidb, shape: TableSchema, ts: int, rows: list[Row], folder: Path) -> Comparison:
    """The comparison of a mirror with these rows."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/{len(list(folder.iterdir()))}.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("s")
    schema = pa.schema([(column_name(c.name), arrow_type(c.type)) for c in shape.stored_columns])
    mirror = catalog.create_table("s.t", schema)
    mirror.append(pa.Table.from_pylist(rows, schema=schema))
    snapshot = mirror.current_snapshot()
    assert snapshot is not None
    reading = Reading(tidb.upstream, Pickled(), range_rows=CHUNK_ROWS)
    stored = MirrorRows(StoredTable(mirror.metadata_location, {}, snapshot.snapshot_id), shape.stored_columns)
    comparing = TableVerification(reading, (DATABASE, "t"), shape, ts, stored)
    return comparing.compare(list(comparing.ranges()))


def found(comparison: Comparison) -> list[tuple[Any, ...]]:
    return sorted((row.kind, row.key, row.columns) for row in comparison.differences)


def sent(value: Any) -> Any:
    return b64decode(value["b64"]) if isinstance(value, dict) else value


def test_values_of_every_type_are_equal_and_each_that_differs_is_named(tidb: Tidb, tmp_path: Path):
    values = [*VALUES, *NULLS]
    columns = ", ".join(f"c{number} {text} NULL" for number, (text, _, _) in enumerate(values))
    create = f"CREATE TABLE t (id INT PRIMARY KEY, {columns})"
    shape, ts = written(tidb, create, [(key, *(sent(recorded) for _, recorded, _ in values)) for key in range(10)])
    rows = [{"id": key, **{f"c{n}": wanted for n, (_, _, wanted) in enumerate(values)}} for key in range(10)]

    equal = compared(tidb, shape, ts, rows, tmp_path)

    assert (equal.mirror_rows, equal.upstream_rows, found(equal)) == (10, 10, [])
    assert equal.statements == 6, "the checksums of three ranges do not suffice"
    for number, (_, _, wanted) in enumerate(values):
        wrong = [dict(row) for row in rows]
        wrong[3][f"c{number}"] = None if wanted is not None else _other(shape, number)
        assert found(compared(tidb, shape, ts, wrong, tmp_path)) == [("different", (3,), (f"c{number}",))]


def _other(shape: TableSchema, number: int) -> Any:
    return {"date32": 1, "timestamp": 1, "string": "x"}[
        str(arrow_type(shape.columns[number + 1].type)).partition("[")[0]
    ]


KEYS: dict[str, list[tuple[Any, ...]]] = {
    "id BIGINT PRIMARY KEY": [(number - 9,) for number in range(17)],
    "id VARCHAR(9) PRIMARY KEY": [(f"é{number}",) for number in range(17)],
    "id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY": [("aB"[number % 2] + str(number),) for number in range(17)],
    "id VARBINARY(9) PRIMARY KEY": [(bytes([250 - number]),) for number in range(17)],
    "id DATETIME(3) PRIMARY KEY": [(f"2024-02-29 01:02:03.{number:03}",) for number in range(17)],
    "id ENUM('b','a'), n INT, PRIMARY KEY (id, n)": [("ab"[number % 2], number) for number in range(17)],
    "id SET('b','a'), n INT, PRIMARY KEY (id, n)": [("ab"[number % 2], number) for number in range(17)],
    "id BIT(10), n INT, PRIMARY KEY (id, n)": [(number % 3 * 256, number) for number in range(17)],
    "id TIME(1), n INT, PRIMARY KEY (id, n)": [(f"{number % 4 * 50 - 99}:00:00.5", number) for number in range(17)],
    "n INT, id INT, PRIMARY KEY (id, n)": [(number, number // 6) for number in range(17)],
    "n INT, `a%b` VARCHAR(9), PRIMARY KEY (`a%b`, n)": [(number, "xyz"[number % 3]) for number in range(17)],
}


@pytest.mark.parametrize("columns", KEYS)
def test_rows_are_found_by_keys_of_any_type(columns: str, tidb: Tidb, tmp_path: Path):
    shape, ts = written(tidb, f"CREATE TABLE t ({columns}, v INT)", [(*key, 5) for key in KEYS[columns]])
    ids = [column for column in shape.columns if column.name != "v"]
    with UpstreamRows(tidb.upstream) as reader:
        listed = ", ".join(f"`{column.name}`" for column in ids).replace("%", "%%")
        answers = reader.answers(f"SELECT {listed} FROM {tidb.name.replace('%', '%%')}.t", [], ts)
    read = [
        [value(c, cell, "") for c, cell in zip(ids, cells(ids, answer).values(), strict=True)] for answer in answers
    ]
    rows = [{**dict(zip((column_name(c.name) for c in ids), key, strict=True)), "v": 5} for key in read]
    assert len(rows) == 17

    equal = compared(tidb, shape, ts, rows, tmp_path)
    changed = [{**row, "v": 6} if number == 8 else row for number, row in enumerate(rows) if number != 12]
    different = compared(tidb, shape, ts, changed, tmp_path)
    gone = tidb.run("DELETE FROM t WHERE v = 5 LIMIT 1")
    extra = compared(tidb, shape, gone, rows, tmp_path)

    def key(number: int) -> tuple[Any, ...]:
        return tuple(rows[number][column_name(column.name)] for column in shape.ordered_key)

    assert (equal.upstream_rows, found(equal)) == (17, [])
    assert equal.statements == (2 if "SET" in columns else 10), "the checksums of all ranges do not suffice"
    assert sorted(found(different), key=str) == [("different", key(8), ("v",)), ("missing", key(12), ())]
    assert [row.kind for row in extra.differences] == ["extra"]
    assert (extra.mirror_rows, extra.upstream_rows) == (17, 16)


def test_a_mirror_without_rows_and_a_table_without_rows_differ_and_are_equal(tidb: Tidb, tmp_path: Path):
    shape, ts = written(tidb, "CREATE TABLE t (id INT PRIMARY KEY)", [(number,) for number in range(9)])
    empty = tidb.run("DELETE FROM t")

    assert [row.kind for row in compared(tidb, shape, ts, [], tmp_path).differences] == ["missing"] * 9
    assert compared(tidb, shape, empty, [], tmp_path).differences == []


def test_tables_that_cannot_be_compared_are_refused():
    assert "floating point" in refusal(shape_of("CREATE TABLE t (id FLOAT PRIMARY KEY)"))
