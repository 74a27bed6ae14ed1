"""A changefeed of two tables for runs that race, sleep or are cut off, and what must be true of it afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.tables.progress import WATERMARK
from ticdc_assets_tests.pipeline.small_feeds import Feed, Name, Sink

T, U = ("s", "t"), ("s", "u")


def sink(folder: Path, commit_ts: bool = True) -> Sink:
    """Two tables of two files, and a record that cannot be read."""
    made = Sink(folder / "bucket", commit_ts=commit_ts)
    for name in (T, U):
        made.table(name)
        made.file(name, 1, [made.insert(name, 110, 1, "one"), made.insert(name, 120, 2, "two")])
        made.file(name, 2, [made.insert(name, 130, 3, "three"), made.line(name, "I", 140, None, "no key")])
    return made


def more(made: Sink) -> None:
    """What comes later, and brings the changefeed on."""
    for name in (T, U):
        made.file(name, 3, [made.insert(name, 1100, 4, "four")])
    made.bucket.checkpoint(2000)


def changelogs(feed: Feed) -> dict[Any, Table]:
    return {name: feed.lake.lake.catalog.load_table(tuple(feed.record(name).changelog or ())) for name in (T, U)}


def publications(table: Table) -> list[int]:
    """The watermark of each snapshot that published rows."""
    summaries = [snapshot.summary.additional_properties for snapshot in table.snapshots() if snapshot.summary]
    return [
        int(summary[WATERMARK])
        for summary in summaries
        if WATERMARK in summary and int(summary.get("added-records", 0))
    ]


def assert_once(feed: Feed, publications_each: int | None = 1) -> None:
    """Every change, record and statement is there once, each from a commit of its own, and nothing went back."""
    assert feed.found() == feed.expected()
    assert sorted((bad.path.split("/")[1], bad.line) for bad in feed.lake.lake.control.ever_quarantined()) == [
        ("t", 1),
        ("u", 1),
    ]
    for table in changelogs(feed).values():
        published = publications(table)
        assert publications_each in (len(published), None)
        assert published == sorted(set(published))
    kept = feed.lake.lake.control.ddl_events()
    assert len({event.where for event in kept}) == len(kept)


def mirrored(feed: Feed) -> dict[Any, list[tuple[Any, ...]]]:
    """The rows of each mirror."""
    return {name: shown(feed, name) for name in (T, U)}


def shown(feed: Feed, name: Name) -> list[tuple[Any, ...]]:
    """The rows of a mirror."""
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
    rows = table.scan().to_arrow().drop_columns([layout.COMMIT_TS]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)
