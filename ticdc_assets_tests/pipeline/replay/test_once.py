"""A change that is replayed is in its changelog once, wherever a replay ends and whatever is sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from ticdc_assets.errors import NotYetError, StaleRunError
from ticdc_assets.pipeline.replay import run as replay_module
from ticdc_assets_tests.pipeline.replay.replays import FILE, T, again, assert_all_is_well, resolutions
from ticdc_assets_tests.pipeline.small_feeds import Sink


def test_a_replay_that_ended_before_it_could_say_so_adds_nothing_the_second_time(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    request = {"corrected": {(FILE, 1): corrected}}
    with monkeypatch.context() as killed:
        killed.setattr(replay_module, "_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            again(feed, **request)
    assert len(feed.quarantined()) == 1

    report = again(feed, **request)

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_replay_that_ended_after_it_resolved_its_record_is_repeated_with_the_same_bytes_alone(
    sink: Sink, tmp_path: Path
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    only = frozenset({(FILE, 1)})
    again(feed, only=only, corrected={(FILE, 1): corrected})
    snapshots = feed.lake.snapshots()

    report = again(feed, only=only, corrected={(FILE, 1): corrected})

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    for other in (corrected.replace(b'"b"', b'"c"'), b"rubbish"):
        with pytest.raises(NotYetError, match="one that was replayed before"):
            again(feed, only=only, corrected={(FILE, 1): other})
    assert feed.lake.snapshots() == snapshots
    assert_all_is_well(feed)


def test_a_replay_whose_answer_was_lost_before_another_run_went_on_keeps_what_it_brought_back(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    sink.feed(tmp_path / "lake").run()
    sink.file(T, 2, [sink.insert(T, 1100, 8, "acht")])
    feed = sink.feed(tmp_path / "lake")
    commit = SqlCatalog.commit_table

    def loses_the_answer(*arguments: Any) -> None:
        commit(*arguments)
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        sink.bucket.checkpoint(2000)
        sink.feed(tmp_path / "lake").run()
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", loses_the_answer)
    request = {"corrected": {(FILE, 1): corrected}}

    with pytest.raises(StaleRunError):
        again(feed, **request)

    report = again(feed, **request)
    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_change_that_was_sent_again_meanwhile_is_not_added(sink: Sink, tmp_path: Path):
    whole = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), whole.replace(b"115,7", b'115,"sieben"')])
    sink.file(T, 2, [whole])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, corrected={(FILE, 1): whole})

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_table_without_a_key_gets_its_row_back_once_among_equal_ones(sink: Sink, tmp_path: Path):
    name = ("s", "k")
    sink.table(name, query="CREATE TABLE `k` (`id` INT,`name` VARCHAR(200))")
    rows = [sink.insert(name, 110, 1, "gleich") for _ in range(3)]
    sink.file(name, 1, [rows[0], rows[1].replace(b"110,1,", b'110,"eins",'), rows[2]])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    path = FILE.replace("/t/", "/k/")

    again(feed, corrected={(path, 1): rows[1]})

    assert_all_is_well(feed)


def test_equal_rows_of_a_table_without_a_key_come_back_each_once(sink: Sink, tmp_path: Path):
    name = ("s", "k")
    sink.table(name, query="CREATE TABLE `k` (`id` INT,`name` VARCHAR(200))")
    rows = [sink.insert(name, 110, 1, "gleich") for _ in range(4)]
    bad = rows[0].replace(b"110,1,", b'110,"eins",')
    sink.file(name, 1, [rows[0], bad, rows[2], bad])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    path = FILE.replace("/t/", "/k/")
    corrected = {(path, 1): rows[1], (path, 3): rows[3]}

    first = again(feed, corrected=corrected)
    second = again(feed, only=frozenset(corrected), corrected=corrected)

    assert (sum(first.added.values()), sum(second.added.values())) == (2, 0)
    assert_all_is_well(feed)
