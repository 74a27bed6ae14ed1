"""`rebuild --from source` reads files that were restored: their records are not in quarantine any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.assets.checks.results import nothing_quarantined
from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild
from ticdc_assets_tests.pipeline.small_feeds import Sink

pytestmark = pytest.mark.spark

T, U = ("s", "t"), ("s", "u")


@pytest.mark.long
def test_records_that_were_read_again_are_resolved_and_those_that_are_still_bad_are_not(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    whole = {}
    for name in (T, U):
        sink.table(name)
        whole[name] = sink.insert(name, 120, 2, "zwei")
        sink.file(name, 1, [sink.insert(name, 110, 1, "eins"), whole[name].replace(b"120,2", b'120,"zwei"')])
    sink.file(T, 2, [sink.insert(T, 130, 3, "drei"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.lake.run()
    assert feed.record(T).quarantined == 2
    sink.file(T, 1, [sink.line(T, "I", 110, 1, "eins"), whole[T]])

    assert rebuild(feed.lake, "s.t", from_source=True).errors == {}

    assert feed.found(T) == feed.expected(T)
    listed = {(r.table, r.line): r.resolution for r in feed.lake.lake.control.ever_quarantined()}
    paths = {r.path: r.resolution for r in feed.lake.lake.control.ever_quarantined() if r.table == "t"}
    assert sorted(map(str, paths.values())) == ["None", "read again"]
    assert listed["u", 1] is None
    assert (feed.record(T).quarantined, feed.record(U).quarantined) == (1, 1)
    assert not nothing_quarantined(feed.quarantined(), "").passed
