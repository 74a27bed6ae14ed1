"""Mirrors after late rows: as if nothing had ever been late, wherever a run ended in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.run.mirrors import MirrorReport
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.pipeline.two_tables import shown
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.spark

LATER = [ID, NAME, column("n", "INT", ColumnNullable="false", ColumnDefault="5")]
NAMES = ("plain", "later", "gone", "was", "left")


def run(feed: Feed) -> MirrorReport:
    report = feed.lake.run()
    assert report is not None
    assert report.errors == {}
    return report


def test_mirrors_end_as_if_no_row_had_been_late(tmp_path: Path):
    """`later` went through ADD COLUMN with a default, `gone` through TRUNCATE, `was` through RENAME; of `left` the late
    rows move keys: a delete and an insert of one commit, of which one came in time."""
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    for table in NAMES:
        name = ("s", table)
        sink.table(name)
        sink.file(name, 1, [
            sink.line(name, "I", 110, 1, "first"), sink.line(name, "I", 130, 3, "stays"),
            sink.line(name, "I", 150, 4, "newer"), sink.line(name, "I", 150, 5, "moved here"),
        ])  # fmt: skip
    feed = sink.feed(tmp_path / "lake")
    run(feed)
    added = "ALTER TABLE `later` ADD COLUMN `n` INT NOT NULL DEFAULT 5"
    sink.alter(("s", "later"), 1100, added, LATER)
    sink.bucket.schema("s", "gone", 1100, [ID, NAME], "TRUNCATE TABLE `gone`", type_=11)
    sink.bucket.schema("s", "is", 1100, [ID, NAME], "RENAME TABLE `was` TO `is`", type_=14)
    sink.bucket.checkpoint(2000)
    run(feed)

    for table in NAMES:
        name = ("s", table)
        sink.file(name, 2, [
            sink.line(name, "I", 120, 2, "late insert"), sink.line(name, "U", 140, 1, "late update"),
            sink.line(name, "U", 145, 4, "late, and overtaken"), sink.line(name, "D", 150, 5, "moved away"),
            sink.line(name, "D", 160, 3, "late delete"),
        ])  # fmt: skip

    def killed() -> None:
        raise BrokenRunError

    with at(Failpoint.AFTER_CURSOR, killed), pytest.raises(BrokenRunError):
        feed.lake.run()
    mirrors = feed.lake.mirrors("after")

    assert mirrors is not None
    assert mirrors.errors == {}
    assert mirrors.record.complete
    rows = [(1, "late update"), (2, "late insert"), (4, "newer"), (5, "moved here")]
    assert [shown(feed, ("s", name)) for name in ("plain", "is", "left")] == [rows] * 3
    assert shown(feed, ("s", "later")) == [(*row, 5) for row in rows]
    assert shown(feed, ("s", "gone")) == []
    snapshots = feed.lake.snapshots()
    assert feed.lake.run() is None
    assert feed.lake.snapshots() == snapshots
