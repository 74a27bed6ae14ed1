"""FLOAT and DOUBLE keep the sign of a negative zero in every protocol; in a column of integers `-0` is 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.deliveries.avro_wire import Avro
from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import ID, JsonSink, Sink, column
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, in_bulk_or_one_by_one, shape

REALS = (Column("d", "DOUBLE"), Column("f", "FLOAT"))
TABLE = shape("t", *REALS, Column("n", "INT"))
KEPT = {"d": "-0.0", "f": "-0.0", "n": "0"}
ONE = {"d": "1.5", "f": "1.5", "n": "1"}


def signs(image: Any) -> dict[str, str] | None:
    return None if image is None else {name: str(value) for name, value in image if name in KEPT}


def changes(lake: FeedLake) -> list[Any]:
    """By commit_ts, operation, new and old values of all changes."""
    found = sorted(lake.changes(), key=lambda change: change.commit_ts)
    return [(change.op, signs(change.new), signs(change.old)) for change in found]


def row(number: int, real: float, whole: float) -> dict[str, Any]:
    return {"id": number, "name": "a-0,", "d": real, "f": real, "n": whole}


def sent(stream: SmallStream, table: Shape, *rows: RowChange, **settings: Any) -> FeedLake:
    stream.create(1, table)
    stream.send("feed", 0, *(message for change in rows for message in stream.wire.rows([change])))
    stream.watermark(9)
    return stream.lake(**settings)


@pytest.mark.parametrize("in_bulk", [True, False])
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_images_keep_the_sign(wire: Wire, in_bulk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    in_bulk_or_one_by_one(monkeypatch, in_bulk)
    zeros, ones = row(1, -0.0, -0.0), row(1, 1.5, 1)
    lake = sent(
        SmallStream(tmp_path, wire),
        TABLE,
        RowChange(at(2), TABLE, "I", zeros),
        RowChange(at(3), TABLE, "U", ones, zeros),
        RowChange(at(4), TABLE, "U", zeros, ones),
        RowChange(at(5), TABLE, "D", zeros),
    )

    lake.publish()

    assert changes(lake) == [("I", KEPT, None), ("U", ONE, KEPT), ("U", KEPT, ONE), ("D", KEPT, None)]


@pytest.mark.parametrize("in_bulk", [True, False])
def test_avro_keeps_the_sign(in_bulk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    in_bulk_or_one_by_one(monkeypatch, in_bulk)
    wire = Avro(tmp_path, told=True)
    stream = SmallStream(tmp_path, wire)
    change = RowChange(at(2), TABLE, "I", row(1, -0.0, 0))
    lake = sent(stream, TABLE, change, schema_registry={"file": str(wire.registry)})

    lake.publish()

    assert changes(lake) == [("I", KEPT, None)]


@pytest.mark.parametrize("sink", [Sink, JsonSink])
def test_files_keep_the_sign(sink: type[Sink], tmp_path: Path):
    name = ("s", "t")
    made = sink(tmp_path / "bucket")
    columns = [ID, column("d", "DOUBLE"), column("f", "FLOAT"), column("n", "INT")]
    made.table(name, columns=columns, query="CREATE TABLE `t` (`id` INT PRIMARY KEY,`d` DOUBLE,`f` FLOAT,`n` INT)")
    texts = {"id": "1", "d": "-0", "f": "-0", "n": "-0"}
    csv = b'"I","t","s",200,1,-0,-0,-0\r\n'
    made.file(name, 1, [made.message(name, 200, texts) if isinstance(made, JsonSink) else csv])
    feed = made.feed(tmp_path)

    feed.run()

    assert changes(feed.lake) == [("I", KEPT, None)]


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_mirror_keeps_the_sign(wire: Wire, tmp_path: Path):
    zeros = row(1, -0.0, -0.0)
    lake = sent(SmallStream(tmp_path, wire), TABLE, RowChange(at(2), TABLE, "I", zeros))

    lake.run()

    [found] = lake.mirror_rows(lake.records()["s", "t"], list(KEPT))
    assert list(map(str, found)) == list(KEPT.values())


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_both_zeros_are_one_key(wire: Wire, tmp_path: Path):
    table = Shape(7, 7, "s", "t", (Column("d", "DOUBLE", nullable=False), Column("n", "INT")), "d", None, at(0))
    changes = [("I", {"d": -0.0, "n": 1}), ("I", {"d": 2.5, "n": 2}), ("D", {"d": 0.0, "n": 1})]
    lake = sent(
        SmallStream(tmp_path, wire),
        table,
        *(RowChange(at(tick), table, op, values) for tick, (op, values) in enumerate(changes, start=2)),
    )

    lake.run()

    assert list(lake.mirror_rows(lake.records()["s", "t"], ["d", "n"])) == [(2.5, 2)]
