"""`rebuild --from source --day`: the changes of one day are read again and replaced in one commit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.rebuild import changelog as rebuild_changelog
from ticdc_assets.tables.changelog_day import files_of
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.pipeline.rebuild.rebuilt import clones, rebuild, shown, sql
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink

pytestmark = [pytest.mark.spark, pytest.mark.matrix]  # the default tests have it without Java

PLAIN = ("s", "plain")
DAY = date(2026, 1, 5)


def ts(day: int, second: int = 0) -> int:
    return from_physical_ms(int(datetime(2026, 1, day, 12, 0, second, tzinfo=UTC).timestamp()) * 1000)


def changes(feed: Feed) -> list[int]:
    """The ids in the changelog, in the order of days."""
    rows = feed.lake.lake.catalog.load_table(("s__changes", "plain")).scan().to_arrow()
    return rows.sort_by("_ticdc_commit_ts").column("id").to_pylist()


def paths(feed: Feed, day: date | None = None) -> set[str]:
    table = feed.lake.lake.catalog.load_table(("s__changes", "plain"))
    return {task.file.file_path for task in table.scan().plan_files()} if day is None else set(files_of(table, day))


def recorded_snapshot(feed: Feed) -> int | None:
    return feed.record(PLAIN).changelog_snapshot_id


def current_snapshot(feed: Feed) -> int | None:
    return feed.lake.lake.catalog.load_table(("s__changes", "plain")).metadata.current_snapshot_id


def location(feed: Feed) -> str:
    return feed.lake.lake.catalog.load_table(("s__changes", "plain")).metadata_location


def test_a_day_is_read_again_while_runs_append_other_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In one lake: refusals, a killed attempt, a run in between, and other days that the source no longer has."""
    sink = Sink(tmp_path / "bucket")
    sink.table(PLAIN)
    for number, day in enumerate((4, 5, 6), start=1):
        rows = [sink.insert(PLAIN, ts(day, n), 10 * day + n, f"{day}") for n in (1, 2)]
        sink.file(PLAIN, number, rows)
    sink.bucket.checkpoint(ts(7))
    feed = sink.feed(tmp_path)
    feed.lake.run()
    whole, rows = changes(feed), shown(feed, "plain")
    assert whole == [41, 42, 51, 52, 61, 62]
    of_other_days = paths(feed) - paths(feed, DAY)
    assert len(of_other_days) >= 2
    sql(feed, "DELETE FROM {}__changes.plain WHERE id = 52")
    sql(feed, "DELETE FROM {}.plain WHERE id = 52")
    # -- what cannot be meant
    for wish in ({"day": DAY}, {"day": DAY, "from_source": True, "at": ts(6)}):
        with pytest.raises(ConfigError, match="day: expected a rebuild from the source"):
            rebuild(feed.lake, "s.plain", **wish)
    # -- an attempt that is killed before its commit
    at = location(feed)
    with monkeypatch.context() as patch:
        patch.setattr(rebuild_changelog, "replace_day", _broken)
        with pytest.raises(BrokenRunError):
            rebuild(feed.lake, "s.plain", from_source=True, day=DAY)
    assert location(feed) == at
    # -- a run appends the next day while the rebuild is between its read and its commit
    replace_day = rebuild_changelog.replace_day

    def after_a_run(*arguments: Any) -> Any:
        sink.file(PLAIN, 4, [sink.insert(PLAIN, ts(7, 1), 71, "7")])
        sink.bucket.checkpoint(ts(8))
        feed.lake.publish()
        return replace_day(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(rebuild_changelog, "replace_day", after_a_run)
        assert rebuild(feed.lake, "s.plain", from_source=True, day=DAY).errors == {}
    assert changes(feed) == [*whole, 71]
    assert of_other_days <= paths(feed)
    assert recorded_snapshot(feed) == current_snapshot(feed)
    feed.lake.run()
    assert [row[0] for row in shown(feed, "plain")] == [*(row[0] for row in rows), 71]
    assert feed.lake.publish() is None
    assert clones(feed) == []
    # -- the source has lost a row of another day: of no consequence for this day, and refused for that one
    sink.file(PLAIN, 1, [sink.insert(PLAIN, ts(4, 1), 41, "4")])
    sql(feed, "DELETE FROM {}__changes.plain WHERE id = 51")
    [error] = rebuild(feed.lake, "s.plain", from_source=True, day=date(2026, 1, 4)).errors.values()
    assert "found fewer at 1 of them" in error
    assert rebuild(feed.lake, "s.plain", from_source=True, day=DAY).errors == {}
    assert changes(feed) == [*whole, 71]
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
    assert recorded_snapshot(feed) == current_snapshot(feed)


def _broken(*_: Any) -> None:
    raise BrokenRunError
