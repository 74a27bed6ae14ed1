"""Records that a replay does not take in, each with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.replay.run import Resolution
from ticdc_assets_tests.pipeline.replay.replays import FILE, T, again, assert_all_is_well, resolutions
from ticdc_assets_tests.pipeline.small_feeds import Sink


def test_a_corrected_record_above_the_checkpoint_waits_for_it(sink: Sink, tmp_path: Path):
    late = sink.insert(T, 1200, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n", sink.insert(T, 1100, 4, "vier")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    early = again(feed, corrected={(FILE, 1): late})
    sink.bucket.checkpoint(2000)
    feed.run()
    report = again(feed, corrected={(FILE, 1): late})

    assert early.outcomes[0].resolution is Resolution.STILL_BAD
    assert "It waits" in early.outcomes[0].reason
    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_a_discarded_record_stays_listed_and_the_check_is_green(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, only=frozenset(), discarded=frozenset({(FILE, 1)}))

    assert resolutions(report) == [(1, "discarded")]
    assert [r.resolution for r in feed.lake.lake.control.ever_quarantined()] == ["discarded"]
    assert_all_is_well(feed)


@pytest.mark.parametrize("bad", [b"", b'"I","t","r",115,7,"x"\r\n', b'"I","t","s",115,x,"x"\r\n'])
def test_bytes_that_are_no_record_of_the_table_change_nothing(sink: Sink, tmp_path: Path, bad: bytes):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    snapshots = feed.lake.snapshots()

    report = again(feed, corrected={(FILE, 1): bad})

    assert resolutions(report) == [(1, "still bad")]
    assert report.outcomes[0].reason.startswith(f"{FILE}, record 1")
    assert feed.lake.snapshots() == snapshots


def test_a_record_that_is_not_in_the_quarantine_is_refused(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    with pytest.raises(NotYetError, match="a record of the quarantine"):
        again(feed, discarded=frozenset({(FILE, 2)}))


def test_a_record_of_a_held_table_says_why_the_table_is_held(sink: Sink, tmp_path: Path):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    sink.feed(tmp_path / "lake").run()
    held = sink.feed(tmp_path / "lake", keys={"s.t": ["nothing"]})

    report = again(held, corrected={(FILE, 1): corrected})
    sound = sink.feed(tmp_path / "lake")
    again(sound, corrected={(FILE, 1): corrected})

    assert resolutions(report) == [(1, "still bad")]
    assert report.outcomes[0].reason.startswith(f"{FILE}, record 1: its table s.t is held: s.t: ")
    assert "Change the config back" in report.outcomes[0].reason
    assert_all_is_well(sound)
