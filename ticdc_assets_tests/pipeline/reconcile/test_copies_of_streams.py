"""A table of messages that is held goes on from its copy, whatever the protocol. TiDB's side is a table of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.reconcile import copy, ranges
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import CanalJson, Debezium, OpenProtocol, SimpleJson, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, ids, shape, states

A, WIDER = shape("a"), shape("a", Column("b", "INT"), version=30)
OTHER = shape("other")
WIDEST = shape("a", Column("b", "INT"), Column("c", "INT"), version=62)
NOWHERE = {"host": "127.0.0.1", "port": 1, "user": "root"}


@dataclass
class TableOfRows:
    """What is read of `s.a` in place of TiDB."""

    rows: Sequence[tuple[int, str, int]]
    tso: int

    def __call__(self, upstream: object) -> TableOfRows:
        return self

    def __enter__(self) -> TableOfRows:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def now(self) -> int:
        return self.tso

    def answers(self, statement: str, parameters: Sequence[Any], tso: int) -> list[tuple[bytes, ...]]:
        assert tso == self.tso
        if statement.startswith("SHOW CREATE"):
            return [(b"a", WIDER.create.encode())]
        if "LIMIT 1" in statement:
            return []
        return [tuple(str(cell).encode() for cell in row) for row in self.rows]


def changelog(lake: FeedLake, name: str = "a") -> list[tuple[str, int]]:
    record = [r for r in lake.lake.control.newest().tables if r.table == name][-1]
    rows = lake.lake.catalog.load_table(tuple(record.changelog)).scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["_ticdc_commit_ts"], row["_ticdc_seq"]))
    return [(row["_ticdc_op"], row["id"]) for row in rows]


@pytest.mark.parametrize("wire", [OpenProtocol(), CanalJson(), Debezium(), SimpleJson()], ids=lambda wire: wire.name)
def test_a_held_table_goes_on_from_its_copy(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stream = SmallStream(tmp_path, wire)
    stream.create(0, A)
    stream.create(1, OTHER)
    stream.put(5, A, 1)
    stream.ddl(30, "ALTER TABLE `s`.`a` FROBNICATE", A, WIDER)
    stream.put(35, WIDER, 2, b=7)
    stream.put(36, OTHER, 1)
    stream.watermark(40)
    lake = stream.lake(upstream=NOWHERE)
    lake.publish()
    assert states(lake) == {"a": "stopped", "other": "live"}
    tidb = TableOfRows([(1, "name 1", 0), (2, "name 2", 7), (3, "name 3", 8)], at(50))
    monkeypatch.setattr(copy, "UpstreamRows", tidb)
    monkeypatch.setattr(ranges, "UpstreamRows", tidb)
    stream.put(45, WIDER, 3, b=8)

    report = copy.copy_tables(lake.lake, [("s", "a")], None, LocalWorkers())

    assert (report.rows, report.errors) == ({"s.a": 3}, {})
    stream.put(60, WIDER, 4, b=9)
    stream.ddl(62, "ALTER TABLE `s`.`a` ADD COLUMN `c` INT", WIDER, WIDEST)
    stream.put(65, WIDEST, 5, b=9, c=1)
    stream.put(66, OTHER, 2)
    stream.watermark(70)
    lake.publish()
    assert states(lake) == {"a": "dropped, live", "other": "live"}
    assert changelog(lake)[:3] == [("R", 1), ("R", 2), ("R", 3)]
    assert [key for _, key in changelog(lake)[3:]] == [4, 5]
    assert ids(lake)["other"] == [1, 2]
    assert lake.lake.control.quarantined() == []
    assert {record.watermark for record in lake.records().values()} == {at(70)}


@pytest.mark.parametrize("wire", [OpenProtocol(), CanalJson(), Debezium(), SimpleJson()], ids=lambda wire: wire.name)
def test_a_table_that_is_selected_in_mid_life_goes_on_from_its_copy(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stream = SmallStream(tmp_path, wire)
    stream.create(0, OTHER)
    stream.put(5, OTHER, 1)
    stream.bootstrap(WIDER)
    stream.put(32, WIDER, 1, b=1)
    stream.watermark(40)
    stream.lake(upstream=NOWHERE, tables=["s.other"]).publish()
    lake = stream.lake(upstream=NOWHERE, tables=["s.*"])
    tidb = TableOfRows([(1, "name 1", 1), (3, "name 3", 8)], at(50))
    monkeypatch.setattr(copy, "UpstreamRows", tidb)
    monkeypatch.setattr(ranges, "UpstreamRows", tidb)
    stream.put(45, WIDER, 3, b=8)

    copy.copy_tables(lake.lake, [("s", "a")], None, LocalWorkers())

    stream.put(60, WIDER, 4, b=9)
    stream.put(66, OTHER, 2)
    stream.watermark(70)
    lake.publish()
    assert changelog(lake)[:2] == [("R", 1), ("R", 3)]
    assert [key for _, key in changelog(lake)[2:]] == [4]
    assert ids(lake)["other"] == [1, 2]
    assert {record.state for record in lake.records().values()} == {"live"}
    assert {record.watermark for record in lake.records().values()} == {at(70)}
