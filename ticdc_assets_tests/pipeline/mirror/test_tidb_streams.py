"""Streams that TiCDC's new architecture wrote for SQL that a real TiDB ran: the mirrors equal its SELECTs, however the
stream arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay


class TidbStream(Workload):
    """A stream and the rows at each TSO of its truth."""

    @cached_property
    def truth(self) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.log / "truth.jsonl").read_text().splitlines())
        return [line for line in lines if not line.get("end")]

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


STREAMS = [TidbStream(path.parent) for path in sorted((CORPUS / "tidb_streams").glob("*/*/variant.json"))]


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


@pytest.mark.spark
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_mirrors_equal_tidb_where_all_arrives_at_once(stream: TidbStream, tmp_path: Path):
    lake = FeedLake(stream, tmp_path / "lake")
    report = lake.run()

    assert report is None or report.errors == {}
    assert lake.differences(max(entry["ts"] for entry in stream.truth)) == []
