"""A day of a changelog is read again from the source and replaced in one commit.

Without Java: pyiceberg makes the clone, and DuckDB evaluates the query that compares the changes of the day.
"""

from __future__ import annotations

import re
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.expressions import AlwaysTrue

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.rebuild import changelog as rebuild_changelog
from ticdc_assets.pipeline.rebuild.mirror import clone_name, forget_clones
from ticdc_assets.pipeline.rebuild.run import recorded_plan
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.changelog_day import files_of
from ticdc_assets.tables.iceberg.properties import REPLAYED
from ticdc_assets.tables.progress import Progress, progress_of
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink

PLAIN, CHANGES = ("s", "plain"), ("s__changes", "plain")
DAY = date(2026, 1, 5)


def ts(day: int, second: int = 0) -> int:
    return from_physical_ms(int(datetime(2026, 1, day, 12, 0, second, tzinfo=UTC).timestamp()) * 1000)


class CloneWithoutJava:
    """The clone of a changelog, without its rows."""

    def __init__(self, lake: Lake, table: Any, identifier: tuple[str, ...]) -> None:
        self.table, self.identifier = table, identifier
        made = lake.catalog.register_table(identifier, table.metadata_location)
        made.delete(AlwaysTrue(), snapshot_properties=Progress().summary("feed", Progress()))


class JvmOfDuckDB:
    """Evaluates Spark's SQL on the tables that it names."""

    spark = None

    def __init__(self, lake: Lake) -> None:
        self.name, self._catalog = lake.config.catalog.name, lake.catalog

    def thread_session(self) -> JvmOfDuckDB:
        return self

    def sql(self, query: str) -> Any:
        connection = duckdb.connect()
        for number, name in enumerate(dict.fromkeys(re.findall(rf"`{self.name}`((?:\.`[^`]+`)+)", query))):
            rows = self._catalog.load_table(tuple(re.findall(r"`([^`]+)`", name))).scan().to_arrow()
            connection.register(f"table_{number}", rows)
            query = query.replace(f"`{self.name}`{name}", f"table_{number}")
        self._found = connection.sql(query.replace("`", '"'))
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [dict(zip(self._found.columns, row, strict=True)) for row in self._found.fetchall()]


def read_again(feed: Feed, day: date) -> None:
    lake = Lake(feed.lake.config, feed.lake.config.changefeed("feed"))
    plan = recorded_plan(lake)
    record = plan.newest
    [source_table] = [found for found in plan.history.source_tables if found.name == PLAIN]
    run_id = uuid.uuid4().hex
    clone: Any = CloneWithoutJava(lake, changelog(feed), clone_name(lake, source_table, f"c{run_id}"))
    jvm: Any = JvmOfDuckDB(lake)
    try:
        rebuild_changelog.changelog_from_source(lake, jvm, source_table, record, clone, run_id, lambda _: None, day)
    finally:
        forget_clones(lake, source_table)


def changelog(feed: Feed) -> Any:
    return feed.lake.lake.catalog.load_table(CHANGES)


def ids(feed: Feed) -> list[int]:
    return changelog(feed).scan().to_arrow().sort_by("_ticdc_commit_ts")["id"].to_pylist()


def is_recorded(feed: Feed) -> bool:
    return feed.record(PLAIN).changelog_snapshot_id == changelog(feed).metadata.current_snapshot_id


def test_a_day_is_replaced_while_runs_append_other_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rebuild_changelog, "SparkWorkers", lambda _: LocalWorkers())
    sink = Sink(tmp_path / "bucket")
    sink.table(PLAIN)
    for number, day in enumerate((4, 5, 6), start=1):
        sink.file(PLAIN, number, [sink.insert(PLAIN, ts(day, n), 10 * day + n, "x") for n in (1, 2)])
    sink.bucket.checkpoint(ts(7))
    feed = sink.feed(tmp_path)
    feed.run()
    whole = ids(feed)
    assert whole == [41, 42, 51, 52, 61, 62]
    changelog(feed).delete("id > 50 AND id < 60")
    of_other_days = (
        files_of(changelog(feed), date(2026, 1, 4)).keys() | files_of(changelog(feed), date(2026, 1, 6)).keys()
    )

    # -- an attempt that is killed before its commit
    with monkeypatch.context() as patch:
        patch.setattr(rebuild_changelog, "replace_day", _broken)
        with pytest.raises(BrokenRunError):
            read_again(feed, DAY)
    assert ids(feed) == [41, 42, 61, 62]

    # -- a run appends the next day before the commit
    replace_day = rebuild_changelog.replace_day

    def after_a_run(*arguments: Any) -> Any:
        sink.file(PLAIN, 4, [sink.insert(PLAIN, ts(7, 1), 71, "x")])
        sink.bucket.checkpoint(ts(8))
        feed.run()
        return replace_day(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(rebuild_changelog, "replace_day", after_a_run)
        read_again(feed, DAY)
    assert ids(feed) == [*whole, 71]
    assert of_other_days <= {task.file.file_path for task in changelog(feed).scan().plan_files()}
    assert REPLAYED in changelog(feed).properties  # the mirror follows, also if the rebuild ends here
    assert progress_of(changelog(feed)).watermark == ts(8)
    assert is_recorded(feed)
    assert feed.run() is None

    # -- the source has lost a change of another day: refused for that day, of no consequence for this one
    sink.file(PLAIN, 1, [sink.insert(PLAIN, ts(4, 1), 41, "x")])
    with pytest.raises(SourceError, match="found fewer at 1 of them"):
        read_again(feed, date(2026, 1, 4))
    changelog(feed).delete("id > 50 AND id < 60")
    read_again(feed, DAY)
    read_again(feed, date(2026, 2, 1))  # without changes
    assert ids(feed) == [*whole, 71]
    assert is_recorded(feed)


def _broken(*_: Any) -> None:
    raise BrokenRunError
