"""A mirror that lacks a data file: the note and the check name `rebuild`, which makes the mirror whole again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.pipeline.two_tables import T, U, shown

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_mirror_without_one_of_its_files_is_held_until_it_is_rebuilt(tmp_path: Path):
    made = Sink(tmp_path / "bucket")
    for name in (T, U):
        made.table(name)
        made.file(name, 1, [made.insert(name, 110, 1, "one"), made.insert(name, 120, 2, "two")])
    feed = made.feed(tmp_path / "lake")
    feed.lake.run()
    mirror = feed.lake.lake.catalog.load_table(tuple(feed.record(T).mirror or ()))
    for task in mirror.scan().plan_files():
        Path(task.file.file_path.removeprefix("file:")).unlink()
    for name in (T, U):
        made.file(name, 2, [made.insert(name, 1100, 1, "uno")])
    made.bucket.checkpoint(2000)

    feed.lake.run()

    assert (feed.state(T), feed.state(U)) == ("stopped", "live")
    assert "`ticdc-assets rebuild --table s.t`" in feed.note(T)
    assert rebuild(feed.lake, "s.t").errors == {}
    assert (feed.state(T), feed.note(T)) == ("live", "")
    assert shown(feed, T) == shown(feed, U) == [(1, "uno"), (2, "two")]
