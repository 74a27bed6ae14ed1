"""Streams that TiCDC's new architecture wrote for SQL that a real TiDB ran: the mirrors equal its SELECTs, however the
stream arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ticdc_assets.notes import NoteCode
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES, Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay


class TidbStream(Workload):
    """A stream and the rows at each TSO of its truth."""

    def arrivals(self, folder: Path) -> Iterator[tuple[int, Path]]:
        """Lets one increment after the other arrive; yields the TSO up to which the source is complete, and the
        source."""
        if (self.root / "data").exists():
            yield from self._of_bucket(folder)
        else:
            yield from self._of_messages(folder)

    def _of_bucket(self, folder: Path) -> Iterator[tuple[int, Path]]:
        replay = Replay(self, folder / "bucket")
        while not replay.is_over:
            before = replay.checkpoint
            while replay.checkpoint == before:
                replay.write()
            yield replay.checkpoint, replay.folder

    def _of_messages(self, folder: Path) -> Iterator[tuple[int, Path]]:
        messages = (self.root / "messages.jsonl").read_text().splitlines()
        capture = folder / "messages.jsonl"
        for mark in json.loads((self.root / "marks.json").read_text()):
            capture.write_text("".join(f"{line}\n" for line in messages[: mark["messages"]]))
            yield mark["ts"], capture


def streams(root: Path, pattern: str) -> list[TidbStream]:
    return [TidbStream(path.parent) for path in sorted(root.glob(f"{pattern}/*/variant.json"))]


STREAMS = [s for s in streams(CORPUS / "tidb_streams", "*") if s.root.parent.name != "mixed"]
FULL = FIXTURES.parent / "fixtures-tidb" if FIXTURES is not None else None
MIXED = streams(FULL if FULL is not None and FULL.is_dir() else CORPUS / "tidb_streams", "mixed")
IN_EVERY_RUN = ("simple-avro", "storage-csv")
HOLDS = {NoteCode.STATEMENT, NoteCode.MIRROR}


@pytest.mark.variants(2)
@pytest.mark.spark
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_mirrors_equal_tidb_after_each_increment(stream: TidbStream, tmp_path: Path):
    snapshots = {entry["ts"] for entry in stream.truth}
    for ts, source in stream.arrivals(tmp_path):
        lake = FeedLake(stream, tmp_path / "lake", storage=source)
        report = lake.run()
        assert report is None or report.errors == {}
        assert {record.note for record in lake.records().values() if record.state != "live"} == set()
        assert ts not in snapshots or lake.differences(ts) == []


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_mirrors_equal_tidb_where_all_arrives_at_once(stream: TidbStream, tmp_path: Path):
    lake = FeedLake(stream, tmp_path / "lake")
    report = lake.run()

    assert report is None or report.errors == {}
    assert lake.differences(max(entry["ts"] for entry in stream.truth)) == []


# -- a random workload ------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    "stream",
    [pytest.param(s, id=s.root.name, marks=() if s.root.name in IN_EVERY_RUN else pytest.mark.matrix) for s in MIXED],
)
def test_mirrors_equal_tidb_after_each_increment_of_720_statements(stream: TidbStream, tmp_path: Path):
    for ts, source in stream.arrivals(tmp_path):
        lake = FeedLake(stream, tmp_path / "lake", storage=source)
        report = lake.run()

        assert report is not None
        assert all("redo on existing rows" in error.detail for error in report.errors.values()), report.errors
        assert sum(record.state != "live" for record in lake.records().values()) <= 2
        assert ts not in {entry["ts"] for entry in stream.truth} or differences(lake, ts) == []


def differences(lake: FeedLake, ts: int) -> list[str]:
    """Those of tables that the stream determines. A statement can have a result that no reader can compute. TiCDC sends
    nothing of a table without a key, nor the statement that drops the key. Schema files and Simple messages do not
    carry the order of a key's columns."""
    records = lake.records()
    held = {name for name, record in records.items() if {note.code for note in record.notes} & HOLDS}
    keyless = {(entry["schema"], entry["table"]) for entry in lake.workload.truth if not entry["key"]}
    keys = {(e["schema"], e["table"]): e["key"] for e in lake.workload.truth if e["ts"] == ts}
    same = {name for name, key in keys.items() if name in records and set(key) == set(records[name].key)}
    passed = [f"{schema}.{table} " for schema, table in held | keyless]
    passed += [f"{schema}.{table} has the key" for schema, table in same]
    return [found for found in lake.differences(ts) if not found.startswith(tuple(passed))]
