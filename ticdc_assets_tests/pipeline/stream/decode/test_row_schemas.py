"""Tables that are known from rows alone: later rows widen their columns, or hold the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.stream.source import StreamChanges
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import (
    TOPIC,
    SmallStream,
    UndatedCanalJson,
    shape,
    states,
)

C, D = Column("c", "VARCHAR(20)"), Column("d", "INT")
A, A_C, A_CD, B = shape("a"), shape("a", C), shape("a", C, D), shape("b")
WIRES = [OpenProtocol(), CanalJson(), UndatedCanalJson()]
DATED = [OpenProtocol(), CanalJson()]
FLOAT_TENTH = 0.10000000149011612
"""0.1 as a float32, which TiDB keeps when the column becomes a DOUBLE."""


def rows(lake: FeedLake, table: str = "a") -> list[dict[str, Any]]:
    """The rows of a table's changelog, without the columns that this project adds."""
    record = lake.records()["s", table]
    found = lake.lake.catalog.load_table(tuple(record.changelog or ())).scan().to_arrow().to_pylist()
    cells = ({n: v for n, v in row.items() if not n.startswith("_ticdc")} for row in found)
    return sorted(cells, key=lambda row: int(row["id"]))


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": f"name {number}", **more}


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
@pytest.mark.parametrize("is_apart", [False, True], ids=["one run", "a run each"])
def test_columns_that_rows_gain_are_added_and_rows_of_before_have_null(is_apart: bool, wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    lake = stream.lake()
    sent = [(A, {}), (A, {}), (A_C, {"c": "sent"}), (A_CD, {"c": "x", "d": 7}), (A_CD, {"c": None, "d": 8})]
    for number, (table, more) in enumerate(sent):
        stream.put(2 + number, table, number, **more)
        stream.put(2 + number, B, number)
        stream.watermark(2 + number)
        if is_apart:
            lake.publish()
    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert rows(lake) == [
        row(0, c=None, d=None),
        row(1, c=None, d=None),
        row(2, c="sent", d=None),
        row(3, c="x", d=7),
        row(4, c=None, d=8),
    ]
    assert len(rows(lake, "b")) == 5
    assert "inferred" in lake.records()["s", "a"].note


@pytest.mark.parametrize("wire", DATED, ids=lambda wire: wire.name)
def test_rows_that_arrive_before_older_ones_of_another_partition_are_each_of_their_own_columns(
    wire: Wire, tmp_path: Path
):
    stream = SmallStream(tmp_path, wire)
    stream.put(5, A_CD, 2, c="y", d=1, partition=0)
    stream.put(2, A, 0, partition=1)
    stream.put(4, A_C, 1, c="x", partition=1)
    stream.send(TOPIC, 1, stream.wire.watermark(10**18))
    stream.send(TOPIC, 0, stream.wire.watermark(10**18))
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert rows(lake) == [row(0, c=None, d=None), row(1, c="x", d=None), row(2, c="y", d=1)]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
def test_a_column_that_rows_lose_holds_the_table_by_its_name(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    stream.put(2, A_C, 1, c="sent")
    stream.put(3, A, 2)
    stream.put(3, B, 1)
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake)["a"] in ("stopped", "waiting")
    assert states(lake)["b"] == "live"
    assert "without 'c'" in lake.records()["s", "a"].note


@pytest.mark.parametrize("wire", DATED, ids=lambda wire: wire.name)
def test_a_type_that_widens_is_followed(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    stream.put(2, shape("a", D), 1, d=7)
    stream.put(3, shape("a", Column("d", "BIGINT")), 2, d=1 << 40)
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert rows(lake) == [row(1, d=7), row(2, d=1 << 40)]
    assert lake.lake.control.quarantined() == []


@pytest.mark.parametrize("wire", DATED, ids=lambda wire: wire.name)
@pytest.mark.parametrize("is_apart", [False, True], ids=["one run", "a run each"])
def test_a_float_that_becomes_a_double_keeps_the_value_of_its_float(is_apart: bool, wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    lake = stream.lake()
    stream.put(2, shape("a", Column("d", "FLOAT")), 1, d=0.1)
    stream.watermark(2)
    if is_apart:
        lake.run()
    stream.put(3, shape("a", Column("d", "DOUBLE")), 2, d=0.1)
    stream.watermark(5)

    lake.run()

    assert states(lake) == {"a": "live"}
    assert rows(lake) == [row(1, d=FLOAT_TENTH), row(2, d=0.1)]
    [record] = lake.records().values()
    mirror = lake.lake.catalog.load_table(tuple(record.mirror or ())).scan().to_arrow().to_pylist()
    assert {kept["id"]: kept["d"] for kept in mirror} == {1: FLOAT_TENTH, 2: 0.1}
    assert lake.lake.control.quarantined() == []


@pytest.mark.parametrize("wire", DATED, ids=lambda wire: wire.name)
def test_a_type_that_becomes_another_stops_the_table_there_by_the_columns_name(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    stream.put(2, A_C, 1, c="12")
    stream.put(3, shape("a", Column("c", "INT")), 2, c=12)
    stream.put(3, B, 1)
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live"}
    assert "column 'c'" in lake.records()["s", "a"].note
    assert rows(lake) == [row(1, c="12")]


@pytest.mark.parametrize("wire", DATED, ids=lambda wire: wire.name)
def test_columns_that_statements_and_rows_tell_go_together(wire: Wire, tmp_path: Path):
    """A table older than the stream, with statements, and one that the stream lacks."""
    stream = SmallStream(tmp_path, wire)
    stream.put(2, A, 1)
    stream.ddl(3, "ALTER TABLE `a` ADD COLUMN `c` VARCHAR(20) DEFAULT _UTF8MB4'k'", A, A_C)
    stream.put(4, A_C, 2, c="x")
    stream.put(5, A_CD, 3, c="y", d=3)
    after = shape("a", D)
    stream.ddl(6, "ALTER TABLE `a` DROP COLUMN `c`", A_CD, after)
    stream.put(7, after, 4, d=4)
    stream.watermark(9)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert rows(lake) == [row(1, c=None, d=None), row(2, c="x", d=None), row(3, c="y", d=3), row(4, c=None, d=4)]


def test_a_long_stream_is_read_again_once_and_not_for_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scans = 0
    scan = StreamChanges.scan

    def counted(changes: StreamChanges) -> Any:
        nonlocal scans
        scans += 1
        return scan(changes)

    monkeypatch.setattr(StreamChanges, "scan", counted)
    stream = SmallStream(tmp_path, CanalJson(), binary=True)
    for number in range(9000):
        table, more = (A, {}) if number < 5000 else (A_C, {"c": str(number)})
        stream.put(2 + number // 100, table, number, **more)
    stream.watermark(1000)
    lake = stream.lake()

    lake.publish()

    assert scans == 2
    assert [r["c"] for r in rows(lake)] == [None] * 5000 + [str(n) for n in range(5000, 9000)]


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("is_apart", [False, True], ids=["one run", "a run each"])
def test_mirrors_gain_the_columns_of_newer_schemas(is_apart: bool, tmp_path: Path):
    stream = SmallStream(tmp_path)
    lake = stream.lake()
    sent = [(A, {}), (A, {}), (A_C, {"c": "sent"}), (A_CD, {"c": "x", "d": 7})]
    for number, (table, more) in enumerate(sent):
        stream.put(2 + number, table, number, **more)
        stream.watermark(2 + number)
        if is_apart:
            lake.run()
    lake.run()

    record = lake.records()["s", "a"]
    assert record.rows == 4
    table = lake.lake.catalog.load_table(tuple(record.mirror or ())).scan().to_arrow().to_pylist()
    found = {r["id"]: (r["c"], r["d"]) for r in table}
    assert found == {0: (None, None), 1: (None, None), 2: ("sent", None), 3: ("x", 7)}
