"""Times and records that a lake does not know: an answer over them is refused, or says what it leaves out."""

from __future__ import annotations

import json
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
from ticdc_assets.pipeline.history.knowledge import Lack, LackCode, LakeKnowledge, lacks, without
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable
from ticdc_assets.spark import session
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.load.dumps import write_dump
from ticdc_assets_tests.pipeline.load.loading import at, loaded, middle, source_of, workload
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

T, OLDER = ("s", "t"), ("s", "older")
OF_OLDER = [
    Lack(LackCode.OLDER_ROWS, "rows from before 100, until a first change, which adds them"),
    Lack(LackCode.QUARANTINE, "1 record in quarantine"),
]
OF_T = [Lack(LackCode.SKIP_FILES, "files that `skip_files` gives up (s/t/100/CDC000009.csv)")]
AS_OBJECTS = {name: [lack.as_object() for lack in lacks] for name, lacks in (("older", OF_OLDER), ("t", OF_T))}


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
    feed = made.feed(
        tmp_path / "lake", skip_files=["s/t/100/CDC000009.csv"], history=["s.*"], views="{schema}__v.{table}"
    )
    feed.run()
    return feed


def test_a_table_older_than_the_stream_is_not_compared_with_a_time_before_it(feed: Feed):
    before, since = differences(feed.lake, 50, 1000), differences(feed.lake, 100, 1000)
    assert before["older"].reason == "it is known from 100 on, where the stream begins, and not at 50"
    assert (before["t"].added, since["t"].added, since["older"].added) == (1, 1, 1)
    assert schema_at(feed.lake.lake, "s.older", 50)["known_from"] == 100


def test_what_an_answer_leaves_out_is_said(feed: Feed):
    found = differences(feed.lake, 100, 1000)
    assert {name: list(table.knowledge.lacks) for name, table in found.items()} == {"older": OF_OLDER, "t": OF_T}
    told = as_object(DiffOptions(100, 1000, (), False, True), list(found.values()))
    assert {table["table"]: table["leaves_out"] for table in told["tables"]} == AS_OBJECTS
    assert without(OF_OLDER) == f"; without {OF_OLDER[0].text}, and without {OF_OLDER[1].text}"


def test_records_that_were_given_up_and_skipped_offsets_are_said(feed: Feed):
    changefeed: Any = feed.lake.lake.changefeed
    skips = replace(changefeed.bad_input, skip_files=(), skip_offsets=(OffsetRule("feed", None, 0, 9),))
    lacking = replace(feed.record(T), quarantined=2, quarantined_since=500, discarded=1)
    found = {until: list(lacks(replace(changefeed, bad_input=skips), lacking, [T], until)) for until in (499, 500)}
    given_up = [
        Lack(LackCode.DISCARDED, "1 record given up with --discard"),
        Lack(LackCode.SKIP_OFFSETS, "messages of any table that `skip_offsets` gives up (feed[*])"),
    ]
    assert found == {499: given_up, 500: [Lack(LackCode.QUARANTINE, "2 records in quarantine"), *given_up]}


def test_a_table_that_is_created_after_the_load_is_known_since_then(feed: Feed):
    known = LakeKnowledge(feed.lake.lake.changefeed, 200, 100, {})
    [table] = [table for table in feed.lake.history.source_tables if table.name == T]
    later = SourceTable("s.t@300", (NamePeriod("s", "t", 300),), table.versions)
    dumped = SourceTable("s.t@200", (NamePeriod("s", "t", 200),), table.versions)
    assert (known.table(later, 400).begin, known.table(dumped, 400).begin) == (0, 200)


@pytest.mark.spark
def test_snapshots_histories_and_views_say_what_they_leave_out(feed: Feed):
    feed.lake.mirrors()

    found = recorded_snapshot(feed.lake.lake, 1000)
    assert {table["table"]: table["leaves_out"] for table in found["tables"]} == AS_OBJECTS
    spark, catalog = session(feed.lake.config), feed.lake.catalog_name
    for name, begin in (("older", 100), ("t", 0)):
        written = spark.sql(f"SELECT summary FROM {catalog}.s.{name}__history.snapshots").collect()[-1].summary
        shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {catalog}.s__v.{name}").collect()}
        for told in (written, shown):
            assert told["ticdc.known-from"] == str(begin)
            assert json.loads(told["ticdc.leaves-out"]) == AS_OBJECTS[name]
