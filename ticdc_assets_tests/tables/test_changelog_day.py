"""New files of one commit day replace those of a changelog, and other days stay."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ticdc_assets.errors import StaleRunError
from ticdc_assets.tables.changelog_day import files_of, replace_day, require_unchanged
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

PLAIN = ("s", "plain")
DAY = date(2026, 1, 5)


def ts(day: int) -> int:
    return from_physical_ms(int(datetime(2026, 1, day, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000)


def made(folder: Path, *ids: int) -> tuple[Sink, Feed]:
    """A changelog with a row on the day before, the given rows on the day, and a row on the day after."""
    sink = Sink(folder / "bucket")
    sink.table(PLAIN)
    sink.file(PLAIN, 1, [sink.insert(PLAIN, ts(4), 1, "x"), *(sink.insert(PLAIN, ts(5), i, "x") for i in ids)])
    sink.file(PLAIN, 2, [sink.insert(PLAIN, ts(6), 2, "x")])
    sink.bucket.checkpoint(ts(7))
    feed = sink.feed(folder)
    feed.run()
    return sink, feed


def test_a_day_is_replaced_on_the_newest_snapshot_and_only_where_it_has_not_changed(tmp_path: Path):
    for folder in ("lacking", "whole"):
        (tmp_path / folder).mkdir()
    (sink, feed), (_, whole) = made(tmp_path / "lacking", 5), made(tmp_path / "whole", 5, 6)
    table, other = (f.lake.lake.catalog.load_table(("s__changes", "plain")) for f in (feed, whole))
    old, fresh = files_of(table, DAY), files_of(other, DAY)
    assert (len(old), len(fresh)) == (1, 1)
    assert files_of(table, date(2026, 1, 7)) == {}
    sink.file(PLAIN, 3, [sink.insert(PLAIN, ts(8), 3, "x")])
    sink.bucket.checkpoint(ts(9))
    feed.run()

    replaced = replace_day(table, DAY, old, fresh, {"ticdc.test": "yes"})

    assert sorted(replaced.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 5, 6]
    assert files_of(replaced, DAY).keys() == fresh.keys()
    assert replaced.properties["ticdc.test"] == "yes"
    assert progress_of(replaced).watermark == ts(9)
    snapshots = len(replaced.snapshots())
    assert len(replace_day(replaced, DAY, old, fresh, {}).snapshots()) == snapshots  # done before, its answer lost
    with pytest.raises(StaleRunError, match="the files of 2026-01-05 that this rebuild was planned on"):
        replace_day(replaced, DAY, old, {}, {})
    with pytest.raises(StaleRunError):
        require_unchanged(replaced, DAY, old)
