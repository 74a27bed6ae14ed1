"""Quarantined records of storage files that can be decoded now, or were corrected, are added to their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.assets.checks.results import nothing_quarantined
from ticdc_assets.pipeline.replay.run import Resolution
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.pipeline.replay.replays import FILE, T, again, assert_all_is_well, resolutions
from ticdc_assets_tests.pipeline.small_feeds import ID, JsonSink, Sink, column


def test_a_corrected_line_of_the_middle_is_published_as_if_it_had_never_been_bad(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110 + n, n, "eins") for n in range(3)]
    corrected = sink.insert(T, 111, 7, "lost a quote")
    sink.file(T, 1, [lines[0], corrected.replace(b'quote"', b"quote"), *lines[1:]])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert not nothing_quarantined(feed.quarantined(), "").passed

    before = again(feed)
    report = again(feed, only=frozenset({(FILE, 1)}), corrected={(FILE, 1): corrected})

    assert [outcome.resolution for outcome in before.outcomes] == [Resolution.STILL_BAD]
    assert before.outcomes[0].reason.startswith(f"{FILE}, record 1: ")
    assert resolutions(report) == [(1, "replayed")]
    assert list(report.added.values()) == [1]
    assert_all_is_well(feed)
    [record] = feed.lake.lake.control.ever_quarantined()
    assert (record.resolution, record.resolved_by) == ("replayed", report.run_id)


@pytest.mark.parametrize("commit_ts", [True, False])
def test_a_replay_into_a_changelog_without_a_change_has_the_watermark_of_the_record(tmp_path: Path, commit_ts: bool):
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    csv = {"delimiter": "|", "include-commit-ts": commit_ts}
    sink.feed(tmp_path / "lake", config={"sink": {"date-separator": "none", "csv": csv}}).run()
    feed = sink.feed(tmp_path / "lake")

    again(feed)

    recorded = feed.record(T)
    table = feed.lake.lake.catalog.load_table(tuple(recorded.changelog or ()))
    assert progress_of(table).watermark == recorded.watermark == sink.checkpoint
    assert_all_is_well(feed)


def test_a_record_without_a_column_is_taken_in_once_the_config_says_that_it_is_left_out(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T)
    short = sink.line(T, "I", 115, 7)
    sink.file(T, 1, [sink.insert(T, 110, 1, "one"), short])
    sink.insert(T, 115, 7, None)
    sink.feed(tmp_path / "lake").run()
    selectors = [{"matcher": ["s.t"], "columns": ["*", "!name"]}]
    csv = {"include-commit-ts": True, "output-old-value": False}
    config = {"sink": {"date-separator": "none", "csv": csv, "column-selectors": selectors}}
    feed = sink.feed(tmp_path / "lake", config=config)
    assert [record.line for record in feed.quarantined()] == [1]

    report = again(feed)

    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_a_record_that_the_config_makes_readable_is_taken_in_as_it_is(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T, columns=[ID, column("v", "DATETIME")], query=" ")
    sink.file(T, 1, [sink.insert(T, 110, 1, None, columns=("id", "v"))])
    zero = sink.line(T, "I", 115, 7, "0000-00-00 00:00:00")
    sink.insert(T, 115, 7, None, columns=("id", "v"))
    sink.file(T, 2, [zero])
    sink.feed(tmp_path / "lake", zero_dates="error").run()
    feed = sink.feed(tmp_path / "lake", zero_dates="null")

    report = again(feed)

    assert resolutions(report) == [(0, "replayed")]
    assert_all_is_well(feed)


def test_records_that_a_wrong_option_cut_at_other_places_are_read_as_one_piece(sink: Sink, tmp_path: Path):
    texts = ['a,"b', 'c",d', "e", 'f,"g', "h", 'i",j']
    lines = [f"I|+|t|+|s|+|{110 + n}|+|{n}|+|{text}\r\n".encode() for n, text in enumerate(texts)]
    for n, text in enumerate(texts):
        sink.insert(T, 110 + n, n, text)
    sink.file(T, 1, lines)
    sink.feed(tmp_path / "lake", on_bad_message="quarantine_all").run()
    csv = {"include-commit-ts": True, "delimiter": "|+|", "quote": ""}
    feed = sink.feed(tmp_path / "lake", config={"sink": {"date-separator": "none", "csv": csv}})
    assert len(feed.quarantined()) == 3

    report = again(feed)

    assert resolutions(report) == [(0, "replayed"), (1, "replayed"), (2, "replayed")]
    assert sum(report.added.values()) == len(texts)
    assert_all_is_well(feed)


def test_all_records_of_a_replay_are_in_one_data_file_of_a_table_and_a_day(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110 + n, n, "x") for n in range(4)]
    bad = [line.replace(b',"x"', b",x") for line in lines]
    sink.file(T, 1, [lines[0], *bad[1:3]])
    sink.file(T, 2, bad[3:])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    corrected = dict(zip([record.position for record in feed.quarantined()], lines[1:], strict=True))

    report = again(feed, corrected=corrected)

    assert report.is_clean, [outcome.reason for outcome in report.outcomes]
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    assert [task.file.record_count for task in table.scan().plan_files()] == [3, 1]
    assert_all_is_well(feed)


def test_both_halves_of_an_update_come_back_together(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", old_values=True)
    sink.table(T)
    good = sink.update(T, 110, (1, "eins"), (1, "uno"))
    halves = sink.update(T, 120, (2, "zwei"), (2, "due"))
    sink.file(T, 1, [*good, halves[0].replace(b'zwei"', b"zwei"), halves[1], *sink.update(T, 130, (3, "a"), (3, "b"))])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert [record.line for record in feed.quarantined()] == [2, 3]

    report = again(feed, corrected={(FILE, 2): halves[0]})

    assert resolutions(report) == [(2, "replayed"), (3, "replayed")]
    assert_all_is_well(feed)


def test_a_bad_value_in_an_update_is_corrected_with_its_two_lines(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", old_values=True)
    sink.table(T)
    good = sink.update(T, 110, (1, "eins"), (1, "uno"))
    halves = sink.update(T, 120, (2, "zwei"), (2, "due"))
    sink.file(T, 1, [*good, halves[0], halves[1].replace(b"true,2,", b'true,"zwei",')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, corrected={(FILE, 3): b"".join(halves).rstrip(b"\r\n") + b"\n"})

    assert resolutions(report) == [(3, "replayed")]
    assert_all_is_well(feed)


def test_a_line_of_canal_json_is_corrected_likewise(tmp_path: Path):
    sink = JsonSink(tmp_path / "bucket")
    sink.table(T)
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b'"id":"7"', b'"id":"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    [bad] = feed.quarantined()

    report = again(feed, corrected={bad.position: corrected.rstrip()})

    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_without_commit_ts_a_record_comes_back_at_its_place(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", commit_ts=False)
    sink.table(T)
    corrected = sink.insert(T, 0, 7, "b")
    sink.file(T, 1, [sink.insert(T, 0, 1, "eins"), corrected.replace(b',7,"b"', b',"sieben","b"')])
    sink.file(T, 2, [sink.insert(T, 0, 8, "acht")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    again(feed, corrected={(FILE, 1): corrected})

    assert_all_is_well(feed)
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["_ticdc_seq"])
    assert [row["id"] for row in rows] == [1, 7, 8]
    sink.file(T, 3, [sink.insert(T, 0, 9, "neun")])
    later = sink.feed(tmp_path / "lake")
    later.run()
    assert later.found() == later.expected()
