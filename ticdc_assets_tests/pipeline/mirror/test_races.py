"""Mirrors that are merged at the same time, by runs that slept, or whose answers are lost: nothing is merged twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from ticdc_assets import failpoints as moments
from ticdc_assets import spark
from ticdc_assets.errors import StaleRunError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import redacted_error
from ticdc_assets.pipeline.mirror import segments
from ticdc_assets.pipeline.mirror.rounds import catch_up
from ticdc_assets.pipeline.replay.run import ReplayRequest, replay
from ticdc_assets.pipeline.run import mirrors as mirror_run
from ticdc_assets.tables.iceberg.jvm import JvmCatalog, JvmTable
from ticdc_assets.tables.mirror import writer as mirror
from ticdc_assets.tables.mirror.branch import MirrorBranch
from ticdc_assets.tables.mirror.versions import VersionSteps
from ticdc_assets.tables.progress import WATERMARK, progress_of, source_table_of
from ticdc_assets_tests.pipeline.faults.raced import OVERTAKEN, PUBLISHED, Meeting, at, races
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink, column
from ticdc_assets_tests.pipeline.two_tables import T, U, mirrored, more, publications, shown, sink
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.spark

N = column("n", "INT", ColumnDefault="5", ColumnNullable="false")


@pytest.mark.parametrize("is_new", [False, pytest.param(True, marks=pytest.mark.matrix)], ids=["there", "new"])
def test_one_of_two_merges_at_once_publishes(tmp_path: Path, is_new: bool):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    if not is_new:
        made.feed(tmp_path / "lake").lake.mirrors("first")
        more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    spark.session(feed.lake.config)  # one of two threads would start a second
    meeting = Meeting(Failpoint.BEFORE_MIRROR_COMMIT, threading.Barrier(2), each=threading.get_ident)

    feeds = {run_id: made.feed(tmp_path / "lake") for run_id in ("one", "other")}

    def merge(run_id: str) -> str:
        try:
            feeds[run_id].lake.mirrors(run_id)
        except StaleRunError:
            return OVERTAKEN
        except Exception as error:  # noqa: BLE001
            return f"{redacted_error(error)}"
        return PUBLISHED

    moments.LISTENERS.append(meeting)
    try:
        with ThreadPoolExecutor(2) as pool:
            outcomes = sorted(pool.map(merge, feeds))
    finally:
        moments.LISTENERS.remove(meeting)

    # Of several tables each may have its own winner: then both runs report that they were overtaken.
    assert outcomes in ([OVERTAKEN, PUBLISHED], [OVERTAKEN, OVERTAKEN])
    feed.lake.mirrors("last")
    assert_merged(feed, made)


def assert_merged(feed: Feed, made: Sink) -> None:
    """Each mirror is the fold of its changelog, and no watermark was published twice with rows."""
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
    for name, rows in mirrored(feed).items():
        wanted = [dict(change.new) for change in made.rows if change[:2] == name]
        assert rows == sorted((row["id"], row["name"]) for row in wanted)
        table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
        published = publications(table)
        assert published == sorted(set(published))
        assert progress_of(table).watermark == newest.tso


@pytest.mark.long
@pytest.mark.matrix
def test_one_of_two_processes_that_merge_at_once_publishes(tmp_path: Path):
    rounds, sinks = [], []
    for number in range(10):
        made = sink(tmp_path / str(number))
        sinks.append(made)
        feed = made.feed(tmp_path / str(number) / "lake")
        feed.run()
        if number % 2:
            feed.lake.mirrors("first")
            more(made)
            made.feed(tmp_path / str(number) / "lake").run()
        rounds.append((tmp_path / str(number) / "lake" / "changefeeds.yaml", Failpoint.BEFORE_MIRROR_COMMIT))

    outcomes = races(rounds, mirrors=True)

    for number, (made, outcome) in enumerate(zip(sinks, outcomes, strict=True)):
        assert set(outcome) <= {PUBLISHED, OVERTAKEN}
        feed = made.feed(tmp_path / str(number) / "lake")
        feed.lake.mirrors("last")
        assert_merged(feed, made)
    assert any(OVERTAKEN in outcome for outcome in outcomes)


@pytest.mark.long
def test_a_merge_that_is_overtaken_as_it_opens_its_mirror_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    pending = [made.feed(tmp_path / "lake").lake]

    def looked_at(table: Table) -> str | None:
        if pending:
            pending.pop().mirrors("other")
        return source_table_of(table)

    monkeypatch.setattr(mirror, "source_table_of", looked_at)

    with pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    assert_merged(feed, made)


@pytest.mark.long
def test_a_merge_that_is_overtaken_between_two_parts_publishes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 1)
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    other = made.feed(tmp_path / "lake").lake

    with at(Failpoint.AFTER_MIRROR_COMMIT, lambda: other.mirrors("other")), pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    assert_merged(feed, made)


STATEMENTS = {
    "TRUNCATE": (lambda t: f"TRUNCATE TABLE `{t}`", [ID, NAME], []),
    "ADD COLUMN": (lambda t: f"ALTER TABLE `{t}` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N], [1, 2, 3]),
}


@pytest.mark.long
@pytest.mark.parametrize(("query", "columns", "left"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_merge_that_is_overtaken_inside_a_statement_publishes_no_more(
    tmp_path: Path, query: Callable[[str], str], columns: list[dict[str, str]], left: list[int]
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    for name in (T, U):
        made.alter(name, 1100, query(name[1]), columns)
        made.file(name, 1, [made.line(name, "I", 1110, 4, "four", *[7] * (len(columns) - 2))], version=1100)
    made.bucket.checkpoint(2000)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    other = made.feed(tmp_path / "lake").lake

    with at(Failpoint.AFTER_MIRROR_COMMIT, lambda: other.mirrors("other")), pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    for name, rows in mirrored(feed).items():
        assert [row[0] for row in rows] == [*left, 4]
        table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
        published = [s.summary.additional_properties.get(WATERMARK) for s in table.snapshots() if s.summary]
        watermarks = [int(watermark) for watermark in published if watermark]
        assert watermarks == sorted(watermarks)
        assert set(watermarks) == {1000, 1100, 2000}


@pytest.mark.long
@pytest.mark.parametrize("step", ["_applied_aside", "_finish"])
def test_an_overtaken_merge_does_not_apply_a_step_of_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    """The other one has taken it already, and a TRUNCATE and rows after it."""
    made = Sink(tmp_path / "bucket")
    made.table(T)
    made.file(T, 1, [made.line(T, "I", 110, 1, "one")])
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    made.alter(T, 1100, "ALTER TABLE `t` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N])
    made.alter(T, 1200, "TRUNCATE TABLE `t`", [ID, NAME, N])
    made.file(T, 1, [made.line(T, "I", 1210, 2, "two", 7)], version=1200)
    made.bucket.checkpoint(2000)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    others = [made.feed(tmp_path / "lake").lake]
    awake = getattr(VersionSteps, step)

    def asleep(steps: VersionSteps, *arguments: Any) -> Any:
        if others:
            others.pop().mirrors("other")
        return awake(steps, *arguments)

    monkeypatch.setattr(VersionSteps, step, asleep)

    with pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    made.file(T, 2, [made.line(T, "I", 2010, 3, "three", 8)], version=1200)
    made.bucket.checkpoint(3000)
    made.feed(tmp_path / "lake").run()
    feed.lake.mirrors("last")
    assert shown(feed, T) == [(2, "two", 7), (3, "three", 8)]


@pytest.mark.long
def test_a_merge_that_follows_a_replay_takes_no_row_back_that_another_has_brought_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = Sink(tmp_path / "bucket")
    made.table(T)
    lost = made.line(T, "I", 110, 1, "lost")
    made.file(T, 1, [lost.replace(b"110,1,", b'110,"x",'), made.line(T, "U", 120, 2, "old")])
    feed = made.feed(tmp_path / "lake")
    feed.run()
    feed.lake.mirrors("first")
    [bad] = feed.quarantined()
    assert replay(feed.lake.lake, ReplayRequest(corrected={bad.position: lost})).is_clean
    others = [made.feed(tmp_path / "lake")]

    def overtaken(*arguments: Any) -> Any:
        mirrors = catch_up(*arguments)
        if others:
            made.file(T, 2, [made.line(T, "U", 1100, 2, "new")])
            made.bucket.checkpoint(2000)
            other = others.pop()
            other.run()
            other.lake.mirrors("other")
        return mirrors

    monkeypatch.setattr(mirror_run, "catch_up", overtaken)

    with pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    assert shown(feed, T) == [(1, "lost"), (2, "new")]
    assert feed.lake.mirrors("last").merged == []


@pytest.mark.long
def test_a_merge_that_landed_and_was_answered_with_a_conflict_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    swap = JvmTable._swap

    def asked_again(table: JvmTable, base: Any, fresh: Any) -> None:
        swap(table, base, fresh)
        swap(table, base, fresh)

    monkeypatch.setattr(JvmTable, "_swap", asked_again)

    feed.lake.mirrors("one")

    assert_merged(feed, made)


@pytest.mark.long
def test_a_commit_at_the_moment_of_a_statement_of_spark_is_that_of_a_run_that_was_first(tmp_path: Path):
    """A raw CommitFailedException would hold the table, and end a rebuild that is to be tried again."""
    made = sink(tmp_path)
    feed = made.feed(tmp_path / "lake")
    feed.lake.run()
    jvm = JvmCatalog(spark.session(feed.lake.config), feed.lake.catalog_name)
    identifier = tuple(feed.record(T).mirror or ())
    over, found = threading.Event(), list[StaleRunError | None]()

    def commit_on_and_on() -> None:
        while not over.is_set():
            with suppress(Exception):
                jvm.load(identifier).java.updateProperties().set("touched", str(time.time())).commit()

    other = threading.Thread(target=commit_on_and_on)
    other.start()
    try:
        while len(found) < 12 and not any(found):
            branch = MirrorBranch(jvm, identifier, "feed", f"run{len(found)}")
            table = feed.lake.lake.catalog.load_table(identifier)
            try:
                branch.publish(
                    table, progress_of(table), progress_of(table), [f"DELETE FROM {branch.target} WHERE id > 5"]
                )
            except StaleRunError as error:
                found.append(error)
            else:
                found.append(None)
    finally:
        over.set()
        other.join()

    assert any(found)
    assert shown(feed, T) == [(1, "one"), (2, "two"), (3, "three")]
