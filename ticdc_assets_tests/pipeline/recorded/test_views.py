"""Views of mirrors show the newest complete record, whatever runs, statements and commands do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.errors import ConfigError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance import Policy, maintain
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.pipeline.recorded import views
from ticdc_assets.pipeline.recorded.lake import RecordedLake
from ticdc_assets.pipeline.recorded.views import views_are_behind
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.views import RECORDED_TIME, RECORDED_TSO
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.spark

VIEWS = "{schema}__recorded.{table}"
A, B = ("s", "a"), ("s", "b")
Rows = list[tuple[Any, ...]]


def made(folder: Path, **settings: Any) -> tuple[Sink, Feed]:
    sink = Sink(folder / "bucket", checkpoint=1000)
    for name in (A, B):
        sink.table(name)
        sink.file(name, 1, [sink.line(name, "I", 110, 1, "first"), sink.line(name, "I", 120, 2, "second")])
    return sink, sink.feed(folder / "lake", **{"views": VIEWS, **settings})


def query(feed: Feed, text: str) -> Rows:
    session = spark.session(feed.lake.config)
    return [tuple(row) for row in session.sql(text.format(lake=feed.lake.catalog_name)).collect()]


def shown(feed: Feed, table: str) -> Rows:
    """The ids, names and TSOs of a view."""
    rows = query(feed, f"SELECT id, name, {RECORDED_TSO} FROM {{lake}}.s__recorded.{table} ORDER BY id")
    return [(int(number), *rest) for number, *rest in rows]


def names_of_views(feed: Feed) -> list[str]:
    return sorted(name for _, name, _ in query(feed, "SHOW VIEWS IN {lake}.s__recorded"))


def newest(feed: Feed) -> RecordedLake:
    record = feed.lake.lake.control.newest(complete=True)
    assert record is not None
    return RecordedLake(feed.lake.lake, record)


def assert_views_show_the_newest_record(feed: Feed) -> None:
    lake = newest(feed)
    assert names_of_views(feed) == [name.partition(".")[2] for name in lake.tables]
    for name in lake.tables:
        rows = lake.mirror(name).to_arrow().select(["id", "name"]).to_pylist()
        wanted = sorted((int(row["id"]), row["name"]) for row in rows)
        assert [row[:2] for row in shown(feed, name.partition(".")[2])] == wanted, name
    assert not views_are_behind(feed.lake.lake, feed.lake.lake.history())


def killed_at(feed: Feed, moment: Failpoint) -> None:
    def killed() -> None:
        raise BrokenRunError

    with at(moment, killed), pytest.raises(BrokenRunError):
        feed.lake.run()


def jvm(feed: Feed) -> JvmCatalog:
    return JvmCatalog(spark.session(feed.lake.config), feed.lake.catalog_name)


def test_all_views_show_one_record_while_a_run_publishes_the_next_one(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    tso = newest(feed).tso
    first = [(1, "first", tso), (2, "second", tso)]
    [row] = query(feed, f"SELECT DISTINCT {RECORDED_TSO}, {RECORDED_TIME} FROM {{lake}}.s__recorded.a")
    assert (row[0], row[1].astimezone(UTC)) == (tso, to_datetime(tso))

    for name in (A, B):
        sink.file(name, 2, [sink.line(name, "U", 1100, 1, "third")])
    sink.bucket.checkpoint(2000)
    seen: list[Rows] = []
    with at(Failpoint.BEFORE_RECORD, lambda: seen.extend([shown(feed, "a"), shown(feed, "b")])):
        feed.lake.run()

    assert seen == [first, first], "the mirrors have the new rows, and no record has"
    after = newest(feed).tso
    assert after > tso
    assert shown(feed, "a") == shown(feed, "b") == [(1, "third", after), (2, "second", after)]


def test_a_run_without_changes_replaces_no_view_and_needs_no_jvm(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    tso, before = newest(feed).tso, feed.lake.lake.control.views()
    sink.bucket.checkpoint(2000)
    feed.lake.publish()

    def no_jvm() -> JvmCatalog:
        raise AssertionError("Java is not needed")

    report = recorded_views_run(feed, no_jvm)

    assert report.complete
    assert newest(feed).tso > tso
    assert feed.lake.lake.control.views() == before
    assert shown(feed, "a") == [(1, "first", tso), (2, "second", tso)]


def recorded_views_run(feed: Feed, jvm: Any) -> Any:
    from ticdc_assets.pipeline.run.mirrors import run_mirrors

    report = run_mirrors(Lake(feed.lake.config, feed.lake.lake.changefeed), "again", jvm)
    assert report is not None
    return report.record


@pytest.mark.long
@pytest.mark.parametrize("moment", [Failpoint.AFTER_RECORD, Failpoint.VIEWS_REPLACED])
def test_views_of_a_killed_run_are_made_by_the_next_one(tmp_path: Path, moment: Failpoint):
    sink, feed = made(tmp_path)
    killed_at(feed, moment)
    assert views_are_behind(feed.lake.lake, feed.lake.lake.history())
    feed.lake.mirrors("second")
    assert_views_show_the_newest_record(feed)

    sink.file(A, 2, [sink.line(A, "D", 1100, 1, "first")])
    sink.bucket.checkpoint(2000)
    killed_at(feed, moment)
    feed.lake.mirrors("third")
    assert_views_show_the_newest_record(feed)
    assert [row[0] for row in shown(feed, "a")] == [2]


@pytest.mark.long
def test_a_view_that_a_killed_run_has_made_is_dropped_when_its_table_has_another_name(tmp_path: Path):
    sink, feed = made(tmp_path)
    killed_at(feed, Failpoint.VIEWS_REPLACED)
    sink.bucket.schema("s", "c", 1100, [ID, NAME], "RENAME TABLE `a` TO `c`", type_=14)
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    assert_views_show_the_newest_record(feed)
    assert names_of_views(feed) == ["b", "c"]


@pytest.mark.long
def test_a_run_that_is_overtaken_between_its_record_and_its_views_leaves_those_of_the_newest_record(tmp_path: Path):
    sink, feed = made(tmp_path)

    def other_run() -> None:
        sink.file(A, 2, [sink.line(A, "U", 1100, 1, "newer")])
        sink.bucket.checkpoint(2000)
        feed.lake.run()

    with at(Failpoint.VIEWS_REPLACED, other_run):
        feed.lake.run()

    assert_views_show_the_newest_record(feed)
    assert shown(feed, "a")[0][1] == "newer"


def test_views_follow_renames_drops_and_new_tables(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    sink.bucket.schema("s", "c", 1100, [ID, NAME], "RENAME TABLE `a` TO `c`", type_=14)
    sink.bucket.schema("s", "b", 1200, [], "DROP TABLE `b`", type_=4)
    sink.table(("s", "d"), 1300)
    sink.file(("s", "d"), 1, [sink.line(("s", "d"), "I", 1400, 9, "new")], 1300)
    sink.bucket.checkpoint(2000)
    feed.lake.run()

    assert_views_show_the_newest_record(feed)
    assert names_of_views(feed) == ["c", "d"]
    assert [row[:2] for row in shown(feed, "c")] == [(1, "first"), (2, "second")]


@pytest.mark.long
def test_two_tables_that_swap_names_have_views_of_their_own_rows_while_the_run_is_on_its_way(tmp_path: Path):
    sink, feed = made(tmp_path)
    sink.file(B, 2, [sink.line(B, "U", 130, 1, "of b")])
    feed.lake.run()
    query_names = "RENAME TABLE `a` TO `x`", "RENAME TABLE `b` TO `a`", "RENAME TABLE `x` TO `b`"
    for number, (new, text) in enumerate(zip(("x", "a", "b"), query_names, strict=True)):
        sink.bucket.schema("s", new, 1100 + number, [ID, NAME], text, type_=14)
    sink.file(("s", "a"), 2, [sink.line(("s", "a"), "I", 1200, 3, "later")])
    sink.bucket.checkpoint(2000)
    seen: list[Rows] = []
    with at(Failpoint.BEFORE_MIRROR_COMMIT, lambda: seen.extend([shown(feed, "a"), shown(feed, "b")])):
        feed.lake.run()

    assert [[row[1] for row in rows] for rows in seen[:2]] == [["first", "second"], ["of b", "second"]]
    assert_views_show_the_newest_record(feed)
    assert [row[1] for row in shown(feed, "a")] == ["of b", "second", "later"]


@pytest.mark.long
def test_a_dropped_mirror_has_no_view_also_while_another_table_is_held(tmp_path: Path):
    sink, feed = made(tmp_path, on_drop="drop")
    feed.lake.run()
    sink.bucket.schema("s", "b", 1200, [], "DROP TABLE `b`", type_=4)
    sink.alter(A, 1100, "ALTER TABLE `a` DO SOMETHING UNKNOWN")
    sink.bucket.checkpoint(2000)
    report = feed.lake.run()

    assert report is not None
    assert not report.record.complete
    assert names_of_views(feed) == ["a"]
    assert [row[1] for row in shown(feed, "a")] == ["first", "second"]


@pytest.mark.long
def test_views_stay_readable_after_a_rebuild_and_maintenance(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    for number in range(3):
        sink.file(A, 2 + number, [sink.line(A, "U", 1100 + number, 1, f"text {number}")])
        sink.bucket.checkpoint(2000 + number)
        feed.lake.run()
    lake = feed.lake.lake
    report = rebuild_tables(lake, lambda: jvm(feed), RebuildRequest(("s.a",)))
    assert report.errors == {}
    assert_views_show_the_newest_record(feed)

    done = maintain(lake, Policy(datetime.now(UTC) + timedelta(days=60)), lambda: jvm(feed))
    assert done.snapshots > 0
    assert done.left_alone == {}
    assert_views_show_the_newest_record(feed)


@pytest.mark.long
def test_maintenance_keeps_the_record_that_views_show_where_no_run_has_replaced_them(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    first = shown(feed, "a")
    for number in range(2):
        sink.file(A, 2 + number, [sink.line(A, "U", 1100 + number, 1, f"text {number}")])
        sink.bucket.checkpoint(2000 + number)
        if number == 0:
            killed_at(feed, Failpoint.AFTER_RECORD)
        else:
            feed.lake.publish()
    maintain(feed.lake.lake, Policy(datetime.now(UTC) + timedelta(days=60)), lambda: jvm(feed))
    assert shown(feed, "a") == first


@pytest.mark.long
def test_views_go_when_the_config_asks_for_none_and_move_when_the_template_changes(tmp_path: Path):
    sink, feed = made(tmp_path)
    feed.lake.run()
    moved = sink.feed(tmp_path / "lake", views="{schema}.{table}_now")
    moved.lake.mirrors("second")
    assert names_of_views(feed) == []
    assert [name for _, name, _ in query(moved, "SHOW VIEWS IN {lake}.s")] == ["a_now", "b_now"]
    without = sink.feed(tmp_path / "lake")
    without.lake.mirrors("third")
    assert query(without, "SHOW VIEWS IN {lake}.s") == []
    assert without.lake.lake.control.views() == []


def test_a_view_never_takes_the_name_of_a_table(tmp_path: Path):
    """The template is one that mirrors of other databases may have, too."""
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    for name in (A, ("s__recorded", "a")):
        sink.table(name)
        sink.file(name, 1, [sink.line(name, "I", 110, 1, name[0])])
    feed = sink.feed(tmp_path / "lake", views=VIEWS)
    feed.lake.run()
    [view] = names_of_views(feed)
    assert view.startswith("a_")
    assert query(feed, f"SELECT name FROM {{lake}}.s__recorded.{view}") == [("s",)]
    assert query(feed, "SELECT name FROM {lake}.s__recorded.a") == [("s__recorded",)]


def test_a_name_of_another_writers_table_is_refused_and_left_alone(tmp_path: Path):
    _, feed = made(tmp_path)
    query(feed, "CREATE NAMESPACE {lake}.s__recorded")
    query(feed, "CREATE VIEW {lake}.s__recorded.a AS SELECT 5 AS mine")
    with pytest.raises(ConfigError, match=r"s__recorded\.a: expected no table or view.*Give `views`"):
        feed.lake.run()
    assert query(feed, "SELECT * FROM {lake}.s__recorded.a") == [(5,)]
    assert newest(feed).tables == ("s.a", "s.b"), "the record is there"

    query(feed, "DROP VIEW {lake}.s__recorded.a")
    query(feed, "CREATE TABLE {lake}.s__recorded.a (mine INT) USING iceberg")
    with pytest.raises(ConfigError, match=r"s__recorded\.a: expected no table or view.*found a table"):
        feed.lake.mirrors("second")
    query(feed, "DROP TABLE {lake}.s__recorded.a")
    feed.lake.mirrors("third")
    assert_views_show_the_newest_record(feed)


@pytest.mark.long
def test_metadata_files_of_earlier_texts_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sink, feed = made(tmp_path)
    feed.lake.run()
    monkeypatch.setattr(views, "REPLACED_KEPT", timedelta(0))
    for number in range(3):
        sink.file(A, 2 + number, [sink.line(A, "U", 1100 + number, 1, f"text {number}")])
        sink.bucket.checkpoint(2000 + number)
        feed.lake.run()
    files = sorted(path.name for path in (tmp_path / "lake").rglob("view/metadata/*") if path.suffix != ".crc")
    assert len(files) == 4, "the present one of each view, and the one before"
    assert len(list((tmp_path / "lake").rglob("view/metadata/.*.crc"))) <= len(files)
    assert_views_show_the_newest_record(feed)
