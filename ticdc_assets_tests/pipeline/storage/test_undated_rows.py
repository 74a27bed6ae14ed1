"""Rows of Canal-JSON files without a commit_ts: quarantined where others have one, read by arrival where none has."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.replay.run import ReplayRequest, Resolution, replay
from ticdc_assets_tests.pipeline.small_feeds import Feed, JsonSink, hand_made

A, B = ("s", "a"), ("s", "b")


@pytest.fixture
def sink(tmp_path: Path) -> JsonSink:
    made = JsonSink(tmp_path / "bucket")
    for name in (A, B):
        made.table(name)
    made.file(B, 1, [made.insert(B, 110, 1, "one")])
    return made


def undated(sink: JsonSink, number: int) -> bytes:
    return sink.message(A, None, {"id": str(number), "name": "undated"})


def of_canal(line: bytes) -> bytes:
    """The same as Alibaba's Canal writes it."""
    return json.dumps({**json.loads(line), "id": 7, "gtid": ""}).encode() + b"\r\n"


def with_null(line: bytes) -> bytes:
    return json.dumps({**json.loads(line), "_tidb": None}).encode() + b"\r\n"


def ids(feed: Feed) -> list[Any]:
    return sorted(dict(change.new or ())["id"] for change in feed.found(A).elements())


@pytest.mark.parametrize("form", [bytes, of_canal, with_null])
def test_a_row_without_a_commit_ts_is_quarantined_and_all_others_are_read(sink: JsonSink, tmp_path: Path, form: Any):
    bad = form(undated(sink, 2))
    sink.file(A, 1, [sink.insert(A, 110, 1, "one"), bad, sink.insert(A, 120, 3, "three")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert ids(feed) == [1, 3]
    assert (feed.state(A), feed.state(B)) == ("live", "live")
    [kept] = feed.quarantined()
    assert (kept.line, kept.raw) == (1, bad)
    assert "record 1: expected _tidb.commitTs, as enable-tidb-extension=true requires, found none" in kept.reason
    assert "undated" not in kept.reason
    assert feed.run() is None


def test_a_file_of_rows_without_a_commit_ts_holds_its_table_alone(sink: JsonSink, tmp_path: Path):
    sink.file(A, 1, [undated(sink, number) for number in range(20)])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert (feed.state(A), feed.state(B)) == ("stopped", "live")
    assert ids(feed) == []
    assert "CDC00000000000000000001.json" in feed.note(A)


def test_a_row_without_a_commit_ts_is_still_bad_after_a_replay(sink: JsonSink, tmp_path: Path):
    sink.file(A, 1, [sink.insert(A, 110, 1, "one"), undated(sink, 2)])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = replay(feed.lake.lake, ReplayRequest())

    [outcome] = report.outcomes
    assert outcome.resolution is Resolution.STILL_BAD
    assert ids(feed) == [1]


def test_without_the_extension_all_rows_are_read_in_the_order_of_files(sink: JsonSink, tmp_path: Path):
    """Dated ones too, which another changefeed of the same bucket may have left."""
    sink.file(A, 1, [undated(sink, 1), sink.message(A, 130, {"id": "2", "name": "dated"})])
    sink.file(A, 2, [undated(sink, 3)])
    feed = hand_made(sink.folder, tmp_path / "lake", "canal-json", Counter(), {}, extension=False)

    feed.run()

    assert ids(feed) == [1, 2, 3]
    assert {change.commit_ts for change in feed.found(A)} == {None}
    assert feed.quarantined() == []
