"""Avro messages that are not in the order of TiCDC: a note of their table counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.deliveries.avro_wire import Avro
from ticdc_assets_tests.deliveries.database import RowChange
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, in_bulk_or_one_by_one, shape

TABLE = shape("t")
NOTE = "behind their own deletes"


class Topic:
    """A topic of Avro rows and deletes, in the order in which they are sent."""

    def __init__(self, folder: Path) -> None:
        self.wire = Avro(folder, told=False)
        self.stream = SmallStream(folder, self.wire)

    def put(self, tick: int, number: int, partition: int = 0) -> None:
        self.stream.put(tick, TABLE, number, partition=partition)

    def delete(self, number: int) -> None:
        [(key, _)] = self.wire.rows([_inserted(number)])
        self.stream.send("feed", 0, (key, None))

    def lake(self, **settings: Any) -> FeedLake:
        return self.stream.lake(schema_registry={"file": str(self.wire.registry)}, **settings)


def _inserted(number: int) -> RowChange:
    return RowChange(at(0), TABLE, "I", {"id": number, "name": ""})


def note(lake: FeedLake) -> str:
    return lake.records()["s", "t"].note


@pytest.mark.parametrize("in_bulk", [True, False])
def test_misplaced_rows_are_counted_and_the_note_stays(in_bulk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    in_bulk_or_one_by_one(monkeypatch, in_bulk)
    topic = Topic(tmp_path)
    topic.put(1, 1)
    topic.delete(5)
    topic.delete(6)
    topic.put(9, 9)
    topic.put(5, 5)
    topic.put(6, 6)
    lake = topic.lake()
    lake.publish()
    assert f"2 rows {NOTE}" in note(lake)

    topic.put(10, 10)
    lake.publish()

    assert f"2 rows {NOTE}" in note(lake)


def test_rows_that_are_sent_again_are_not_misplaced(tmp_path: Path):
    topic = Topic(tmp_path)
    for tick in (1, 2, 3, 2, 3, 4):
        topic.put(tick, tick)
    topic.put(2, 20, partition=1)  # another partition has an order of its own
    topic.delete(2)
    lake = topic.lake()

    lake.publish()

    assert NOTE not in note(lake)


def test_rows_of_a_table_that_several_nodes_send_have_no_order(tmp_path: Path):
    topic = Topic(tmp_path)
    topic.stream.config["scheduler"] = {"enable-table-across-nodes": True}
    topic.put(1, 1)
    topic.delete(5)
    topic.put(9, 9)
    topic.put(5, 5)
    lake = topic.lake()

    lake.publish()

    assert NOTE not in note(lake)
