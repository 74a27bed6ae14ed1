"""Maintenance: unneeded records and snapshots are removed, and runs continue during it and after it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets import spark
from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.maintenance import Policy, maintain
from ticdc_assets.tables.control.retention import pin_record, unpin
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.maintenance import compaction
from ticdc_assets.tables.maintenance import orphan_files as leftovers
from ticdc_assets.tables.maintenance.snapshot_expiry import expiry_of
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay, expected_changes
from ticdc_assets_tests.pipeline.maintenance.maintained import (
    LATER,
    T,
    contents,
    maintained,
    more,
    recorded,
    rows,
    tables,
    tsos,
    written,
)


def test_the_last_record_of_an_old_day_stays_readable(tmp_path: Path):
    sink, feed = written(tmp_path, files=1)
    begin = LATER.replace(hour=1) - timedelta(days=40)
    shown: dict[int, dict[str, Counter[str]]] = {}
    for number, (day, hour) in enumerate([(0, 1), (11, 1), (11, 9), (20, 2), (40, 0)], start=2):
        feed.run()
        tso = recorded(feed.lake, begin + timedelta(days=day, hours=hour))
        shown[tso] = contents(feed.lake)
        more(sink, number)
    kept = list(shown)[2:]

    report = maintained(feed.lake)

    assert tsos(feed.lake) == kept
    assert report.records >= 2
    assert report.snapshots > 0
    for tso in kept:
        record = feed.lake.lake.control.at(tso)
        assert record is not None
        for table in record.tables:
            changelog = feed.lake.lake.catalog.load_table(tuple(table.changelog or ()))
            found = rows(changelog, table.changelog_snapshot_id)
            assert found == shown[tso][str(changelog.name())]
    feed.run()
    assert feed.found() == Counter(sink.rows)


def test_a_pinned_record_stays_until_it_is_unpinned(tmp_path: Path):
    sink, feed = written(tmp_path, files=1)
    feed.run()
    pinned = recorded(feed.lake, LATER - timedelta(days=45))
    more(sink, 2)
    feed.run()
    newest = recorded(feed.lake, LATER)

    assert pin_record(feed.lake.lake.control, pinned) == (pinned,)
    maintained(feed.lake)
    assert tsos(feed.lake) == [pinned, newest]
    record = feed.lake.lake.control.at(pinned)
    assert record is not None
    assert [
        sum(rows(feed.lake.lake.catalog.load_table(tuple(t.changelog or ())), t.changelog_snapshot_id).values())
        for t in record.tables
    ] == [1, 1]

    unpin(feed.lake.lake.control, pinned)
    maintained(feed.lake)
    assert tsos(feed.lake) == [newest]
    with pytest.raises(NotYetError, match="a pinned TSO"):
        unpin(feed.lake.lake.control, pinned)


def test_progress_is_found_below_snapshots_that_others_made(tmp_path: Path):
    sink, feed = written(tmp_path)
    feed.run()
    for table in tables(feed.lake):
        if table.name()[0] == "s__changes":
            for _ in range(3):
                table.append(pa.Table.from_batches([], schema=table.schema().as_arrow()))
    before = {t.name(): progress_of(t) for t in tables(feed.lake)}

    maintained(feed.lake)

    assert {t.name(): progress_of(t) for t in tables(feed.lake)} == before
    more(sink, 3)
    feed.run()
    assert feed.found() == Counter(sink.rows)


def test_branches_of_killed_runs_go_and_those_of_users_stay(tmp_path: Path):
    sink, feed = written(tmp_path, files=1)
    feed.run()
    changelog = tuple(feed.record(T).changelog or ())
    table = feed.lake.lake.catalog.load_table(changelog)
    head = table.current_snapshot()
    assert head is not None
    with table.manage_snapshots() as manage:
        manage.create_branch(head.snapshot_id, "ticdc_run_killed").create_branch(head.snapshot_id, "audit")
    table.append(table.scan().to_arrow().slice(0, 0), branch="ticdc_run_killed")
    more(sink, 2)
    feed.run()
    metadata = feed.lake.lake.catalog.load_table(changelog).metadata
    assert not expiry_of(metadata, (), datetime.now(UTC) - timedelta(hours=1))

    report = maintained(feed.lake)

    assert report.branches == 1
    assert feed.lake.lake.catalog.load_table(changelog).refs().keys() == {"main", "audit"}
    assert feed.found() == Counter(sink.rows)


def test_maintenance_between_runs_changes_nothing_of_what_comes_out(tmp_path: Path):
    [workload] = [w for w in workloads(seed="seed1") if w.root.parent.name == "storage-csv-special"]
    replay = Replay(workload, tmp_path / "bucket")
    lake: FeedLake | None = None
    while not replay.is_over:
        replay.write(150)
        if replay.checkpoint:
            lake = lake or FeedLake(workload, tmp_path / "lake", replay.folder)
            lake.publish()
            before = contents(lake)
            maintained(lake)
            assert contents(lake) == before
    assert lake is not None
    lake.publish()

    assert lake.changes() == expected_changes(workload, old_values=False)
    assert lake.publish() is None


@pytest.mark.spark
def test_a_mirror_with_deletion_vectors_reads_the_same_after_maintenance_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sink, feed = written(tmp_path, files=1)
    sink.file(T, 1, [sink.insert(T, 120, number, "first") for number in range(1, 6)])
    for number in range(2, 5):
        feed.lake.run()
        sink.file(T, number, [sink.line(T, "U", 110 + 10 * number, 1, f"again {number}")])
        sink.bucket.checkpoint(115 + 10 * number)
    session = spark.session(feed.lake.config)
    jvm = JvmCatalog(session, feed.lake.catalog_name)
    mirror = tuple(feed.record(T).mirror or ())
    table = feed.lake.lake.catalog.load_table(mirror)
    jvm.load(mirror).start_branch("ticdc_run_killed", table.snapshots()[1].snapshot_id)
    jvm.load(mirror).append_nothing({}, "ticdc_run_killed")
    head, progress, before = table.current_snapshot(), progress_of(table), rows(table)
    assert head is not None
    assert any(name.endswith(".puffin") for name in leftovers.References().of_snapshot(table, head))

    monkeypatch.setattr(compaction, "FILES_MAX", 1)
    report = maintain(feed.lake.lake, Policy(LATER, compact=True), lambda: jvm)

    assert (report.left_alone, report.branches) == ({}, 1)
    assert report.compacted[".".join(mirror)] >= 2
    assert len(report.expired[".".join(mirror)].snapshot_ids) >= 2
    table.refresh()
    assert (rows(table), progress_of(table)) == (before, progress)
    assert rows(table, head.snapshot_id) == before, "the recorded snapshot can be read"
    assert session.table(f"{feed.lake.catalog_name}.{'.'.join(mirror)}").count() == 5

    feed.lake.run()
    merged = rows(table.refresh())
    report = maintain(feed.lake.lake, Policy(LATER), lambda: jvm)

    gone = {leftover.uri for leftover in report.leftovers}
    assert any("/mirror/data/" in uri and uri.endswith(".puffin") for uri in gone)
    assert any("/mirror/data/" in uri and uri.endswith(".parquet") for uri in gone)
    assert rows(table.refresh()) == merged != before
    assert progress_of(table).watermark == 155
    assert feed.record(T).rows == 5
