"""Times and records that a lake does not know: an answer over them is refused, or says what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.commands.read.diff import DiffOptions, as_object
from ticdc_assets.commands.read.listing import recorded_snapshot
from ticdc_assets.commands.read.schema import schema_at
from ticdc_assets.config import OffsetRule
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history.differences import TableDifference, table_differences
from ticdc_assets.pipeline.history.knowledge import LakeKnowledge, lacks, without
from ticdc_assets.pipeline.recorded.lake import recorded_lake
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.load.dumps import write_dump
from ticdc_assets_tests.pipeline.load.loading import at, loaded, middle, source_of, workload
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

T, OLDER = ("s", "t"), ("s", "older")


def differences(feed: FeedLake, after: int, until: int) -> dict[str, TableDifference]:
    return {table.name[1]: table for table in table_differences(feed.lake, after, until, ())}


def test_a_time_before_the_load_is_refused(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    lake = FeedLake(of, tmp_path / "lake")
    loaded(lake, source_of(lake, write_dump(tmp_path / "dump", at(of, ts), ts, "csv"), ts))
    lake.publish()
    newest = lake.lake.control.newest()
    assert newest is not None
    [name, *_] = lake.records()

    words = f"a TSO from the initial load on, {ts}"
    for refused in (
        lambda: differences(lake, ts - 1, newest.tso),
        lambda: differences(lake, 0, ts - 1),
        lambda: schema_at(lake.lake, ".".join(name), ts - 1),
    ):
        with pytest.raises(ConfigError, match=words):
            refused()
    found = differences(lake, ts, newest.tso)
    assert any(table.is_compared for table in found.values())
    assert schema_at(lake.lake, ".".join(name), ts)["known_from"] == ts


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """`older` was there before the stream, which begins at 100; one of its records is in quarantine."""
    made = Sink(tmp_path / "bucket")
    made.table(T)
    made.file(T, 1, [made.insert(T, 110, 1, "one")])
    made.bucket.schema(*OLDER, 105, query="", type_=0)
    lines = [made.insert(OLDER, 120, 1, "one"), made.line(OLDER, "I", 130, None, "no key")]
    made.file(OLDER, 1, lines, version=105)
    feed = made.feed(tmp_path / "lake", skip_files=["s/t/100/CDC000009.csv"])
    feed.run()
    return feed


def test_a_table_older_than_the_stream_is_not_compared_with_a_time_before_it(feed: Feed):
    before, since = differences(feed.lake, 50, 1000), differences(feed.lake, 100, 1000)
    assert before["older"].reason == "it is known from 100 on, where the stream begins, and not at 50"
    assert (before["t"].added, since["t"].added, since["older"].added) == (1, 1, 1)
    assert schema_at(feed.lake.lake, "s.older", 50)["known_from"] == 100


def test_what_an_answer_leaves_out_is_said(feed: Feed):
    found = differences(feed.lake, 100, 1000)
    older = ["rows from before 100, until their first change", "1 record in quarantine"]
    skipped = ["files that `skip_files` gives up (s/t/100/CDC000009.csv)"]
    assert {name: list(table.knowledge.lacks) for name, table in found.items()} == {"older": older, "t": skipped}
    told = as_object(DiffOptions(100, 1000, (), False, True), list(found.values()))
    assert sorted(table["leaves_out"] for table in told["tables"]) == sorted([older, skipped])
    assert without(older) == f"; without {older[0]}, and without {older[1]}"


def test_records_that_were_given_up_and_skipped_offsets_are_said(feed: Feed):
    changefeed: Any = feed.lake.lake.changefeed
    skips = replace(changefeed.bad_input, skip_files=(), skip_offsets=(OffsetRule("feed", None, 0, 9),))
    lacking = replace(feed.record(T), quarantined=2, quarantined_since=500, discarded=1)
    offsets = "messages of any table that `skip_offsets` gives up (feed[*])"
    given_up = "1 record given up with --discard"
    found = {until: list(lacks(replace(changefeed, bad_input=skips), lacking, [T], until)) for until in (499, 500)}
    assert found == {499: [given_up, offsets], 500: ["2 records in quarantine", given_up, offsets]}


def test_a_table_that_is_created_after_the_load_is_known_since_then(feed: Feed):
    known = LakeKnowledge(feed.lake.lake.changefeed, 200, 100, {})
    [table] = [table for table in feed.lake.history.source_tables if table.name == T]
    later = SourceTable("s.t@300", (NamePeriod("s", "t", 300),), table.versions)
    dumped = SourceTable("s.t@200", (NamePeriod("s", "t", 200),), table.versions)
    assert (known.table(later, 400).begin, known.table(dumped, 400).begin) == (0, 200)


@pytest.mark.spark
def test_a_snapshot_and_a_history_say_what_they_leave_out(feed: Feed):
    feed.lake.mirrors()
    found = recorded_snapshot(feed.lake.lake, 1000)
    assert {table["table"]: table["leaves_out"] for table in found["tables"]} == {
        "older": ["1 record in quarantine"],
        "t": ["files that `skip_files` gives up (s/t/100/CDC000009.csv)"],
    }
    history = recorded_lake(feed.lake.config, feed.lake.lake.changefeed).history("s.older")
    assert history.knowledge.begin == 100
    assert "1 record in quarantine" in history.knowledge.lacks
