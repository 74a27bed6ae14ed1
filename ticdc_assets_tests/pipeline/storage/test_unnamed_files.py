"""Files that no index names because TiCDC could not write it, and files that were read before they were whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.assets.checks.results import no_gaps
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Feed, JsonSink, Sink

T = ("s", "t")
FOLDER = "s/t/100"


@pytest.fixture(params=[Sink, JsonSink], ids=["csv", "canal-json"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    made: Sink = request.param(tmp_path / "bucket", checkpoint=1000)
    made.table(T)
    return made


def assert_whole(feed: Feed, sink: Sink) -> None:
    feed.truth = type(feed.truth)(sink.rows)
    assert feed.found() == feed.expected()
    assert feed.state(T) == "live"
    assert feed.run() is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("lost", [1, 3, 20])
def test_files_behind_the_one_that_the_index_names_are_read(sink: Sink, tmp_path: Path, lost: int):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    for number in range(2, 2 + lost):
        sink.bucket.data(FOLDER, number, sink.insert(T, 1000 + number, number, "b"))
    sink.bucket.checkpoint(2000)

    feed.run()

    assert_whole(feed, sink)


@pytest.mark.variants(2)
@pytest.mark.parametrize("until", [2, 3, 4])
def test_files_that_ticdc_writes_again_under_numbers_that_no_index_named_are_read(
    sink: Sink, tmp_path: Path, until: int
):
    """It goes on behind its index when it is started again, with other rows; until then nothing is wrong."""
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    sink.bucket.data(FOLDER, 2, sink.insert(T, 300, 2, "b"))
    sink.bucket.data(FOLDER, 3, sink.insert(T, 310, 3, "c"))
    feed = sink.feed(tmp_path)
    feed.run()
    sink.bucket.checkpoint(1500)
    feed.run()
    assert_whole(feed, sink)

    for number in range(2, until + 1):
        sink.file(T, number, [sink.insert(T, 1000 + number, 10 + number, "b")])
    sink.bucket.checkpoint(2000)
    feed.run()

    assert_whole(feed, sink)
    sink.file(T, until + 1, [sink.insert(T, 2100, 50, "c")])
    sink.bucket.checkpoint(2200)
    feed.run()
    assert_whole(feed, sink)


def test_a_file_is_read_late_where_its_index_was_lost_and_the_checkpoint_passed(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    sink.bucket.checkpoint(1500)
    feed.run()
    sink.bucket.data(FOLDER, 2, sink.insert(T, 1400, 2, "b"))
    sink.bucket.checkpoint(1600)

    feed.run()

    assert_whole(feed, sink)


@pytest.mark.parametrize("only_repeats", [True, False])
def test_a_file_that_was_read_half_written_heals_its_table(sink: Sink, tmp_path: Path, only_repeats: bool):
    first = sink.insert(T, 200, 1, "a")
    sink.file(T, 1, [first])
    feed = sink.feed(tmp_path)
    feed.run()
    begun = [first] if only_repeats else [first, sink.insert(T, 1100, 2, "b")]
    sink.bucket.checkpoint(1200)
    sink.file(T, 2, begun)
    feed.run()
    assert feed.state(T) == "live"
    sink.file(T, 2, [*begun, sink.insert(T, 1150, 3, "c"), sink.insert(T, 1300, 4, "d")])
    sink.bucket.checkpoint(1400)

    feed.run()

    assert_whole(feed, sink)


def test_without_commit_ts_an_unnamed_file_stops_its_table(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", checkpoint=1000, commit_ts=False)
    sink.table(T)
    begun = sink.insert(T, 200, 1, "a")
    sink.file(T, 1, [begun])
    feed = sink.feed(tmp_path)
    feed.run()
    sink.file(T, 1, [begun, sink.line(T, "I", 300, 2, "b")])
    sink.bucket.checkpoint(1400)

    feed.run()

    assert feed.state(T) == "stopped"
    assert "as when it was read" in feed.note(T)
    assert feed.found() == feed.expected()


# -- options that changed at the source -------------------------------------------------------------------------------


def behind(sink: Sink, folder: str, number: int, index: str, data: str) -> None:
    """A file and its index in a folder where the options that are known here put none."""
    sink.bucket.write(f"{FOLDER}/{folder}meta/{index}", f"{data}\n".encode())
    sink.bucket.write(f"{FOLDER}/{folder}{data}", sink.insert(T, 1000 + number, number, "b"))
    sink.bucket.checkpoint(2000)


def name_of(sink: Sink, number: int, dispatcher: str | None = None) -> str:
    return sink.bucket.layout.data_name(dispatcher, number, 20)


@pytest.mark.parametrize("folder", ["2025-07-31/", "2025-07/"])
def test_folders_of_another_date_separator_are_read(sink: Sink, tmp_path: Path, folder: str):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    behind(sink, folder, 2, "CDC.index", name_of(sink, 1))

    feed.run()

    assert_whole(feed, sink)


def test_folders_of_another_layout_stop_the_table_that_was_read_without_them(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    behind(sink, "odd/", 2, "CDC.index", name_of(sink, 1))

    feed.run()

    assert feed.state(T) == "stopped"
    assert f"{FOLDER}/odd" in feed.note(T)
    assert "Its rows are not read. Give the changefeed's own date-separator" in feed.note(T)


def test_under_the_options_that_it_has_by_now_the_table_goes_on(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    behind(sink, "2025-07-31/", 2, "CDC.index", name_of(sink, 1))
    feed.run()
    feed.lake.workload.variant["config"]["sink"]["date-separator"] = "day"
    feed.lake = FeedLake(feed.lake.workload, tmp_path, sink.folder)

    feed.run()

    assert_whole(feed, sink)


def test_a_table_that_is_spread_over_nodes_by_now_is_read(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    feed = sink.feed(tmp_path)
    feed.run()
    behind(sink, "", 2, "CDC_d-1.index", name_of(sink, 1, "d-1"))

    feed.run()

    assert_whole(feed, sink)


def test_what_is_not_known_as_ticdcs_is_named(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 200, 1, "a")])
    sink.bucket.write(f"{FOLDER}/part-0001.parquet", b"x")
    feed = sink.feed(tmp_path)

    feed.run()

    verdict = no_gaps((), feed.scan()[1].scan.notes)
    assert (verdict.passed, verdict.warns) == (False, True)
    assert "part-0001.parquet: not something that TiCDC writes there" in verdict.sentence
    assert_whole(feed, sink)
