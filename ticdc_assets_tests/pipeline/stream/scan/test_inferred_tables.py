"""Tables older than their stream, whose columns are known from rows alone: which rows count."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold import events as folds
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets_tests.deliveries.database import START_TS, Column, RowChange, Shape, Statement, Value
from ticdc_assets_tests.deliveries.wires import CanalJson, Message, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake

ID = Column("id", "INT", nullable=False)
KEY = Shape(1, 1, "shop", "t", (ID,), "id", None, START_TS)
OLD = replace(KEY, columns=(ID, Column("v", "VARCHAR(9)"), Column("w", "INT")))
WIRES = [OpenProtocol(), CanalJson()]


@dataclass
class Stream:
    """A capture of one topic with two partitions, written message by message."""

    folder: Path
    wire: Wire
    config: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def send(self, partition: int, *messages: Message) -> None:
        for key, value in messages:
            offset = sum(line["partition"] == partition for line in self.lines)
            message = {"key": key and b64encode(key).decode(), "value": value and b64encode(value).decode()}
            self.lines.append({"topic": "feed", "partition": partition, "offset": offset, **message, "ts_ms": 0})

    def row(self, partition: int, at: int, op: str, shape: Shape, *cells: Value) -> None:
        change = RowChange(START_TS + at, shape, op, dict(zip(shape.names, cells, strict=True)))
        self.send(partition, *self.wire.rows([change]))

    def statement(self, at: int, before: Shape, after: Shape, query: str) -> None:
        for partition in (0, 1) if self.wire.statements_to_all else (0,):
            self.send(partition, self.wire.statement(Statement(START_TS + at, "alter", query, before, after)))

    def run(self, watermark: int) -> FeedLake:
        """The lake after a run over all that was sent, which is complete up to the watermark."""
        for partition in (0, 1):
            self.send(partition, self.wire.watermark(START_TS + watermark))
        path = self.folder / "messages.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        variant = {"sink_uri": self.wire.sink_uri, "config": {"sink": self.config}}
        workload: Any = SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=self.folder)
        lake = FeedLake(workload, self.folder / "lake", path)
        lake.publish()
        return lake


def rows(lake: FeedLake) -> list[tuple[int, str, dict[str, Any]]]:
    """What the changelogs hold: time, op and values of each row."""
    return sorted((c.commit_ts - START_TS, c.op, dict(c.new or c.old or ())) for c in lake.changes().elements())


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_deletes_that_are_keys_tell_no_columns(wire: Wire, tmp_path: Path):
    """They do not say that other columns are missing, and may be all that a first run sees."""
    stream = Stream(tmp_path, wire, {"delete-only-output-handle-key-columns": True})
    stream.row(0, 1, "D", KEY, 1)
    waiting = stream.run(10)
    assert rows(waiting) == []
    assert waiting.records()["shop", "t"].state == "waiting"

    stream.row(0, 11, "D", KEY, 2)
    stream.row(1, 12, "I", OLD, 3, "x", 7)

    assert rows(stream.run(20)) == [
        (1, "D", {"id": 1, "v": None, "w": None}),
        (11, "D", {"id": 2, "v": None, "w": None}),
        (12, "I", {"id": 3, "v": "x", "w": 7}),
    ]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_deletes_that_are_whole_tell_the_columns(wire: Wire, tmp_path: Path):
    stream = Stream(tmp_path, wire)
    stream.row(0, 1, "D", OLD, 1, "x", 7)

    assert rows(stream.run(10)) == [(1, "D", {"id": 1, "v": "x", "w": 7})]


STATEMENTS = {
    "RENAME COLUMN `v` TO `x`": (ID, Column("x", "VARCHAR(9)"), Column("w", "INT")),
    "DROP COLUMN `v`": (ID, Column("w", "INT")),
    "ADD COLUMN `n` INT NOT NULL DEFAULT 5": (*OLD.columns, Column("n", "INT", nullable=False, default=5)),
}


@pytest.mark.parametrize("action", STATEMENTS)
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_the_earliest_row_tells_the_columns_not_the_first_to_arrive(wire: Wire, action: str, tmp_path: Path):
    """Rows of one table on two partitions: the one from before a statement is read after those behind it."""
    new = replace(OLD, columns=STATEMENTS[action])
    stream = Stream(tmp_path, wire)
    stream.statement(50, OLD, new, f"ALTER TABLE `t` {action}")
    row = {name: {"id": 2, "v": "b", "w": 8, "x": "b", "n": 9}[name] for name in new.names}
    stream.row(0, 60, "I", new, *row.values())
    stream.row(1, 10, "I", OLD, 1, "a", 7)

    assert rows(stream.run(70)) == [(10, "I", {"id": 1, "v": "a", "w": 7}), (60, "I", row)]


def test_many_tables_that_rows_tell_of_cost_no_fold_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stream that begins long after its tables were made: 1,000 of them took a minute to look at."""
    counts: list[int] = []

    def counted(events: Sequence[DdlEvent], known: Known) -> History:
        counts.append(len(events))
        return fold(events, known)

    monkeypatch.setattr(folds, "fold", counted)
    stream = Stream(tmp_path, CanalJson())
    for number in range(40):
        older = replace(OLD, table_id=number, name=f"older{number}")
        stream.row(0, 10 + number, "I", older, number, "x", 7)
        stream.statement(55, older, older, f"ALTER TABLE `{older.name}` ADD INDEX `w`(`w`)")
    renamed = replace(OLD, name="after")
    stream.row(0, 60, "I", replace(OLD, name="before"), 1, "x", 7)
    stream.statement(61, replace(OLD, name="before"), renamed, "RENAME TABLE `before` TO `after`")
    stream.row(0, 62, "I", renamed, 2, "y", 8)

    lake = stream.run(70)

    assert len(counts) < 20
    assert len(rows(lake)) == 42
    assert {name for (_, name), record in lake.records().items() if record.state == "live"} == {
        *(f"older{number}" for number in range(40)),
        "after",
    }
