"""Small lakes for tests of maintenance, and their content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

from ticdc_assets import failpoints as moments
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.maintenance import MaintenanceReport, Policy, maintain
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink

T, U = ("s", "t"), ("s", "u")
LATER = datetime.now(UTC) + timedelta(days=50)
"""When everything that a test has written is old."""


def maintained(feed: FeedLake, now: datetime = LATER, **policy: object) -> MaintenanceReport:
    return maintain(feed.lake, Policy(now, **policy), lambda: pytest.fail("a JVM was asked for"))  # type: ignore[arg-type]


@contextmanager
def interrupted_at(moment: Failpoint) -> Iterator[None]:
    """Runs break where they reach the moment, and leave what they wrote."""

    def listen(hit: Failpoint) -> None:
        if hit is moment:
            raise BrokenRunError

    moments.LISTENERS.append(listen)
    try:
        with pytest.raises(BrokenRunError):
            yield
    finally:
        moments.LISTENERS.remove(listen)


def tables(feed: FeedLake) -> list[Table]:
    catalog = feed.lake.catalog
    return [catalog.load_table(t) for n in catalog.list_namespaces() for t in catalog.list_tables(n)]


def rows(table: Table, snapshot_id: int | None = None) -> Counter[str]:
    return Counter(map(str, table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()))


def contents(feed: FeedLake) -> dict[str, Counter[str]]:
    """Every row of every table but the records, which are thinned on purpose."""
    return {str(t.name()): rows(t) for t in tables(feed) if t.name()[-1] != "watermarks"}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(folder: Path, files: int = 2) -> tuple[Sink, Feed]:
    sink = Sink(folder / "bucket")
    for name in (T, U):
        sink.table(name)
    for number in range(1, files + 1):
        more(sink, number)
    return sink, sink.feed(folder / "lake")


def more(sink: Sink, number: int) -> None:
    for name in (T, U):
        sink.file(name, number, [sink.insert(name, 110 + 10 * number, number, f"row {number}")])
    sink.bucket.checkpoint(115 + 10 * number)


def recorded(feed: FeedLake, at: datetime) -> int:
    """Record the present state as complete at some time; its TSO."""
    newest = feed.lake.control.newest()
    assert newest is not None
    feed.lake.control.record(replace(newest, complete=True, recorded_at=at))
    return newest.tso


def tsos(feed: FeedLake) -> list[int]:
    table = feed.lake.control.watermarks()
    return [] if table is None else sorted(table.scan(row_filter="complete = true").to_arrow()["tso"].to_pylist())
