"""The time of a commit in changelogs: the wall time of its TSO, by whose UTC day the files lie."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import GreaterThanOrEqual
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from ticdc_assets_tests.pipeline.small_feeds import JsonSink, Sink

T = ("s", "t")
MOMENTS = [  # in UTC; the logical part of a TSO is no part of its time
    (datetime(2025, 3, 1, 0, 0, 0, 0, UTC), 0),
    (datetime(2025, 3, 1, 23, 59, 59, 999_000, UTC), (1 << 18) - 1),
    (datetime(2025, 3, 2, 0, 0, 0, 0, UTC), 1),
    (datetime(2025, 3, 2, 12, 34, 56, 789_000, UTC), 77),
    (datetime(2026, 1, 1, 0, 0, 0, 1000, UTC), 5),
]
VERSION, CHECKPOINT = 100, 1 << 62


def tso(moment: datetime, logical: int) -> int:
    """The definition, written a second time: milliseconds since 1970, and 18 bits."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) * (1 << 18) + logical


def changelog(sink: Sink, folder: Path, **settings: str) -> Table:
    """The changelog of the table that was written, after a run."""
    feed = sink.feed(folder, **settings)
    feed.run()
    return feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A changelog with a change at each of the moments, which came in one file."""
    sink = Sink(tmp_path / "bucket", checkpoint=CHECKPOINT)
    sink.table(T, VERSION)
    sink.file(T, 1, [sink.insert(T, tso(*moment), number, "n") for number, moment in enumerate(MOMENTS)], VERSION)
    return changelog(sink, tmp_path / "lake")


def test_every_change_has_the_wall_time_of_its_commit(table: Table):
    rows = table.scan().to_arrow().to_pylist()

    assert {row["id"]: (row["_ticdc_commit_ts"], row["_ticdc_commit_time"]) for row in rows} == {
        number: (tso(*moment), moment[0]) for number, moment in enumerate(MOMENTS)
    }


def test_each_file_holds_the_changes_of_the_day_that_it_is_filed_under(table: Table):
    [field] = table.spec().fields
    held: defaultdict[date, list[int]] = defaultdict(list)
    for task in table.scan().plan_files():
        rows = pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
        day = date(1970, 1, 1) + timedelta(days=task.file.partition[0])
        assert {row["_ticdc_commit_time"].date() for row in rows} == {day}
        held[day] += [row["id"] for row in rows]

    assert isinstance(field.transform, DayTransform)
    assert table.schema().find_column_name(field.source_id) == "_ticdc_commit_time"
    assert held == {date(2025, 3, 1): [0, 1], date(2025, 3, 2): [2, 3], date(2026, 1, 1): [4]}


def test_a_reader_of_one_day_opens_the_files_of_that_day_alone(table: Table):
    since = table.scan(GreaterThanOrEqual("_ticdc_commit_time", "2026-01-01T00:00:00+00:00"))

    assert len(list(since.plan_files())) == 1
    assert since.to_arrow()["id"].to_pylist() == [4]


def test_without_commit_ts_the_time_is_that_which_the_stream_tells_or_none(tmp_path: Path):
    json_sink = JsonSink(tmp_path / "bucket", checkpoint=CHECKPOINT)
    json_sink.table(T, VERSION)
    lines = [json.loads(json_sink.message(T, None, {"id": str(n), "name": "n"})) for n in range(len(MOMENTS))]
    for line, (moment, _) in zip(lines, MOMENTS, strict=True):
        line["es"] = tso(moment, 0) >> 18
    json_sink.file(T, 1, [json.dumps(line, separators=(",", ":")).encode() + b"\r\n" for line in lines], VERSION)
    csv_sink = Sink(tmp_path / "csv", checkpoint=CHECKPOINT, commit_ts=False)
    csv_sink.table(T, VERSION)
    csv_sink.file(T, 1, [csv_sink.insert(T, 0, 1, "n")], VERSION)

    dated = changelog(json_sink, tmp_path / "lake", sink_uri="file:///bucket?protocol=canal-json")
    undated = changelog(csv_sink, tmp_path / "other")

    times = {row["id"]: row["_ticdc_commit_time"] for row in dated.scan().to_arrow().to_pylist()}
    assert times == {number: moment for number, (moment, _) in enumerate(MOMENTS)}
    assert len(list(dated.scan().plan_files())) == 3
    assert undated.scan().to_arrow()["_ticdc_commit_time"].to_pylist() == [None]
    assert [task.file.partition[0] for task in undated.scan().plan_files()] == [None]
