"""Maintenance: what nothing needs goes, what anybody needs stays, and runs go on beside it and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from ticdc_assets import moments, spark
from ticdc_assets.errors import NotYetError
from ticdc_assets.moments import Moment
from ticdc_assets.pipeline.maintenance_run import MaintenanceReport, Policy, maintain
from ticdc_assets.tables import compaction, leftovers
from ticdc_assets.tables.expiry import expiry_of
from ticdc_assets.tables.iceberg_jvm import JvmCatalog
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tables.retention import pin, unpin
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay, expected_changes
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink

T, U = ("s", "t"), ("s", "u")
LATER = datetime.now(UTC) + timedelta(days=50)
"""When everything that a test has written is old."""


def maintained(feed: FeedLake, now: datetime = LATER, **policy: object) -> MaintenanceReport:
    return maintain(feed.lake, Policy(now, **policy), lambda: pytest.fail("a JVM was asked for"))  # type: ignore[arg-type]


@contextmanager
def interrupted_at(moment: Moment) -> Iterator[None]:
    """Runs break where they reach the moment, and leave what they wrote."""

    def listen(reached: Moment) -> None:
        if reached is moment:
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


# -- leftovers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [Moment.DECODED, Moment.BEFORE_CHANGELOG_COMMIT])
def test_parts_of_a_killed_run_are_found_and_removed_and_the_next_run_is_exact(moment: Moment, tmp_path: Path):
    sink, feed = written(tmp_path)
    with interrupted_at(moment):
        feed.run()
    feed.run()
    before = contents(feed.lake)

    report = maintained(feed.lake)

    assert any("/changelog/data/" in leftover.uri for leftover in report.leftovers)
    assert not [leftover.uri for leftover in report.leftovers if Path(leftover.uri.removeprefix("file://")).exists()]
    assert report.left_alone == {}
    assert contents(feed.lake) == before
    more(sink, 3)
    feed.run()
    assert feed.found() == Counter(sink.rows)
    assert feed.quarantined() == []


def test_a_second_maintenance_finds_nothing(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    assert maintained(feed.lake).leftovers

    again = maintained(feed.lake)

    assert (again.records, again.expired, again.leftovers, again.left_alone) == (0, {}, [], {})


def test_files_of_a_run_that_is_going_on_stay(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()

    report = maintained(feed.lake, datetime.now(UTC))

    assert (report.records, report.expired, report.leftovers) == (0, {}, [])


def test_a_dry_run_tells_what_would_go_and_touches_nothing(tmp_path: Path):
    sink, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    recorded(feed.lake, datetime.now(UTC))
    more(sink, 3)
    feed.run()
    recorded(feed.lake, LATER)
    before = files(tmp_path)

    told = maintained(feed.lake, dry_run=True)

    assert files(tmp_path) == before
    done = maintained(feed.lake)
    assert told.leftovers
    assert {leftover.uri for leftover in told.leftovers} <= {leftover.uri for leftover in done.leftovers}
    assert (told.records, told.expired.keys()) == (done.records, done.expired.keys())


def test_files_that_another_table_of_the_catalog_names_stay(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    [orphan, *_] = [x.uri for x in maintained(feed.lake, dry_run=True).leftovers if x.uri.endswith(".parquet")]
    recorded_changelog = feed.record(T).changelog
    assert recorded_changelog is not None
    schema = feed.lake.lake.catalog.load_table(tuple(recorded_changelog)).schema()
    location = orphan.partition("/data/")[0] + "/data/inside"
    friend = feed.lake.lake.catalog.create_table("s__changes.friend", schema, location)
    friend.add_files([orphan], check_duplicate_files=False)

    report = maintained(feed.lake)

    assert orphan not in {leftover.uri for leftover in report.leftovers}
    assert friend.scan().to_arrow().num_rows > 0


def test_a_folder_that_another_catalog_uses_too_is_left_alone(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    changelog = feed.record(T).changelog
    assert changelog is not None
    feed.lake.lake.catalog.drop_table(tuple(changelog))
    feed.run()
    (tmp_path / "lake" / "catalog.db").rename(tmp_path / "other.db")
    (tmp_path / "lake" / "catalog.db").touch()  # one that is missing would be asked for
    feed = Feed(FeedLake(feed.lake.workload, tmp_path / "lake", feed.bucket), feed.bucket, feed.truth)
    feed.run()
    parts = {name for name in files(tmp_path) if name.endswith(".parquet") and "/changelog/" in name}

    report = maintained(feed.lake)

    assert set(report.left_alone.values()) == {"it also holds metadata of a table that is not in this catalog"}
    assert parts <= files(tmp_path).keys()


def test_a_commit_that_lands_between_the_look_and_the_removal_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sink, feed = written(tmp_path)
    feed.run()
    with interrupted_at(Moment.BEFORE_CHANGELOG_COMMIT):
        more(sink, 3)
        feed.run()
    changelog = feed.record(T).changelog
    assert changelog is not None
    catalog, name = feed.lake.lake.catalog, tuple(changelog)
    [orphan, *_] = [x.uri for x in maintained(feed.lake, dry_run=True).leftovers if x.uri.endswith(".parquet")]
    unnamed, landed = leftovers._unnamed, []

    def lands(*arguments: object) -> dict[str, object]:
        found = unnamed(*arguments)  # type: ignore[arg-type]
        if not landed and any(orphan.endswith(key) for key in found):
            landed.append(orphan)
            table = catalog.load_table(name)
            if not orphan.startswith(table.location()):
                table = next(t for t in tables(feed.lake) if orphan.startswith(t.location()))
            table.add_files([orphan], check_duplicate_files=False)
        return found

    monkeypatch.setattr(leftovers, "_unnamed", lands)
    report = maintained(feed.lake)

    assert landed
    assert orphan not in {leftover.uri for leftover in report.leftovers}
    assert all(rows(table) for table in tables(feed.lake) if orphan.startswith(table.location()))


def test_names_that_the_listing_does_not_show_leave_a_location_alone(tmp_path: Path):
    _, feed = written(tmp_path)
    feed.run()
    table = next(t for t in tables(feed.lake) if t.name() == tuple(feed.record(T).changelog or ()))
    data = Path(table.location().removeprefix("file://")) / "data"
    before = files(data)
    elsewhere = tmp_path / "elsewhere"
    data.rename(elsewhere)

    report = maintained(feed.lake)

    assert report.left_alone == {table.location(): "files that its table names are not listed there"}
    assert files(elsewhere) == before


def test_tables_read_through_fsspec_are_swept_the_same(tmp_path: Path):
    pytest.importorskip("fsspec")
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    wanted = maintained(feed.lake, dry_run=True).leftovers
    own = feed.lake.lake.catalog
    catalog = load_catalog(own.name, **{**own.properties, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"})
    before = contents(feed.lake)

    others = leftovers.neighbours(catalog)
    swept = [leftovers.sweep(catalog, other.table, others, LATER, {}, remove=True) for other in others]

    assert {type(other.table.io).__name__ for other in others} == {"FsspecFileIO"}
    assert {leftover.uri for one in swept for leftover in one.leftovers} == {leftover.uri for leftover in wanted}
    assert {one.left_alone for one in swept} == {""}
    assert contents(feed.lake) == before
    assert maintained(feed.lake).leftovers == []


def test_files_whose_age_is_not_told_leave_a_location_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, feed = written(tmp_path)
    with interrupted_at(Moment.DECODED):
        feed.run()
    feed.run()
    listed = leftovers._listed

    def without_ages(table: Table, location: str) -> object:
        files, filesystem = listed(table, location)
        for key, info in files.items():
            files[key] = pafs.FileInfo(info.path, info.type, size=info.size)
        return files, filesystem

    monkeypatch.setattr(leftovers, "_listed", without_ages)
    report = maintained(feed.lake)

    assert report.leftovers == []
    assert set(report.left_alone.values()) == {"its store does not tell how old files are"}


def test_spellings_of_one_file_are_one_name():
    spelled = ("file:/a/b c", "file:///a/b c", "/a/b c", "/a//b c")
    assert {leftovers.name_of(uri) for uri in spelled} == {"a/b c"}
    assert leftovers.name_of("s3a://bucket/k:1") == leftovers.name_of("s3://bucket/k:1") == "bucket/k:1"


# -- records and snapshots ---------------------------------------------------------------------------------------------


def test_of_old_days_the_last_record_stays_and_can_be_read_as_it_was(tmp_path: Path):
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

    assert pin(feed.lake.lake.control, pinned) == pinned
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
