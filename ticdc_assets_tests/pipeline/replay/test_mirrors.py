"""A mirror after a replay: as if no record had ever been bad, and readable as it was at every earlier TSO."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.replay.run import ReplayRequest, replay
from ticdc_assets.pipeline.run.mirrors import MirrorReport
from ticdc_assets.tables import changelog
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild
from ticdc_assets_tests.pipeline.small_feeds import ID, NAME, Feed, Sink, column

pytestmark = pytest.mark.spark

FILE = "s/{}/{}/CDC00000000000000000001.csv"
LATER = [ID, NAME, column("n", "INT", ColumnNullable="false", ColumnDefault="5")]


def bad(line: bytes) -> bytes:
    """The record with an id that is no number."""
    fields = line.split(b",")
    return b",".join([*fields[:4], b'"x"', *fields[5:]])


def run(feed: Feed) -> MirrorReport:
    report = feed.lake.run()
    assert report is not None
    assert report.errors == {}
    return report


def rows(feed: Feed, table: str, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
    mirror = feed.lake.lake.catalog.load_table(("s", table))
    listed = mirror.scan(snapshot_id=snapshot_id).to_arrow().drop_columns(["_ticdc_commit_ts"]).to_pylist()
    return sorted(tuple(row.values()) for row in listed)


def test_mirrors_end_as_if_the_replayed_records_had_never_been_bad(tmp_path: Path):
    """`plain` is merged once more; `later` went through ADD COLUMN with a default and is made again; a TRUNCATE came
    after the bad record of `gone`. The replayed records are an insert, an update and a delete that newer changes
    partly overtook."""
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    for table in ("plain", "later", "gone"):
        sink.table(("s", table))
    lost: dict[tuple[str, int], bytes] = {}
    for table in ("plain", "later", "gone"):
        name = ("s", table)
        lines = [
            sink.line(name, "I", 110, 1, "first"),
            sink.line(name, "I", 120, 2, "lost insert"),
            sink.line(name, "I", 130, 3, "stays"),
            sink.line(name, "U", 140, 1, "lost update"),
            sink.line(name, "I", 150, 4, "newer"),
            sink.line(name, "D", 160, 3, "lost delete"),
            sink.line(name, "U", 145, 4, "lost, and overtaken"),
        ]
        places = {1, 3, 5, 6}
        lost |= {(FILE.format(table, 100), n): lines[n] for n in places}
        sink.file(name, 1, [bad(line) if n in places else line for n, line in enumerate(lines)])
    feed = sink.feed(tmp_path / "lake")
    run(feed)
    early = feed.lake.lake.control.newest(complete=True)
    assert early is not None
    assert rows(feed, "plain") == [(1, "first"), (3, "stays"), (4, "newer")]
    added = "ALTER TABLE `later` ADD COLUMN `n` INT NOT NULL DEFAULT 5"
    sink.alter(("s", "later"), 1100, added, LATER)
    sink.bucket.schema("s", "gone", 1100, [ID, NAME], "TRUNCATE TABLE `gone`", type_=11)
    sink.file(("s", "later"), 1, [sink.line(("s", "later"), "I", 1110, 9, "new", 7)], version=1100)
    sink.file(("s", "gone"), 1, [sink.line(("s", "gone"), "I", 1110, 9, "new")], version=1100)
    sink.bucket.checkpoint(2000)
    run(feed)

    report = replay(feed.lake.lake, ReplayRequest(corrected=lost))
    assert report.is_clean, [outcome.reason for outcome in report.outcomes]
    mirrors = feed.lake.mirrors(report.run_id)

    assert mirrors is not None
    assert mirrors.errors == {}
    assert mirrors.record.complete
    assert rows(feed, "plain") == [(1, "lost update"), (2, "lost insert"), (4, "newer")]
    assert rows(feed, "later") == [(1, "lost update", 5), (2, "lost insert", 5), (4, "newer", 5), (9, "new", 7)]
    assert rows(feed, "gone") == [(9, "new")]
    recorded = {record.table: record for record in early.tables}
    assert rows(feed, "plain", recorded["plain"].mirror_snapshot_id) == [(1, "first"), (3, "stays"), (4, "newer")]
    snapshots = feed.lake.snapshots()
    assert replay(feed.lake.lake, ReplayRequest()).outcomes == []
    again = feed.lake.mirrors("again")
    assert again is not None
    assert again.merged == []
    assert feed.lake.snapshots() == snapshots
    assert not [t for t in feed.lake.lake.catalog.list_tables(("ticdc_feed",)) if t[-1].startswith("rebuilt")]


@pytest.mark.variants(1)
@pytest.mark.parametrize("commit_ts", [True, False])
def test_mirrors_get_the_records_of_a_first_run_that_could_read_none(tmp_path: Path, commit_ts: bool):
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    for table in ("one", "two"):
        sink.table(("s", table))
        for number in (1, 2):
            sink.file(("s", table), number, [sink.insert(("s", table), 110 + number, number, "eins")])
    csv = {"delimiter": "|", "include-commit-ts": commit_ts}
    config = {"sink": {"date-separator": "none", "csv": csv}}
    run(sink.feed(tmp_path / "lake", config=config, on_bad_message="quarantine_all"))
    feed = sink.feed(tmp_path / "lake")

    report = replay(feed.lake.lake, ReplayRequest())
    mirrors = feed.lake.mirrors(report.run_id)

    assert report.is_clean, [outcome.reason for outcome in report.outcomes]
    assert mirrors is not None
    assert mirrors.record.complete
    assert rows(feed, "one") == rows(feed, "two") == [(1, "eins"), (2, "eins")]
    assert rebuild(feed.lake, "s.one").errors == {}
    assert rows(feed, "one") == [(1, "eins"), (2, "eins")]


@pytest.mark.long
def test_a_rebuild_reads_what_an_earlier_release_replayed_at_the_watermark_0(tmp_path: Path, monkeypatch: Any):
    """The mirror had passed it by then, so that a run alone does not bring it."""
    sink = Sink(tmp_path / "bucket")
    sink.table(("s", "t"))
    sink.file(("s", "t"), 1, [sink.insert(("s", "t"), 110, 1, "eins"), sink.insert(("s", "t"), 120, 2, "zwei")])
    csv = {"delimiter": "|", "include-commit-ts": True}
    config = {"sink": {"date-separator": "none", "csv": csv}}
    run(sink.feed(tmp_path / "lake", config=config, on_bad_message="quarantine_all"))
    feed = sink.feed(tmp_path / "lake")
    publish = changelog.publish

    def published(table: Any, name: str, files: Any, parent: Any, progress: Progress, *more: Any) -> Any:
        return publish(table, name, files, parent, replace(progress, watermark=0), *more)

    with monkeypatch.context() as patch:
        patch.setattr(changelog, "publish", published)
        replay(feed.lake.lake, ReplayRequest())

    assert rebuild(feed.lake, "s.t").errors == {}
    assert rows(feed, "t") == [(1, "eins"), (2, "zwei")]
    sink.file(("s", "t"), 2, [sink.insert(("s", "t"), 1110, 3, "drei")])
    sink.bucket.checkpoint(2000)
    run(feed)
    assert rows(feed, "t") == [(1, "eins"), (2, "zwei"), (3, "drei")]
