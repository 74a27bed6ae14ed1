"""Maintenance: unreferenced files are removed, and all files that a table may need stay."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from ticdc_assets.failpoints import Failpoint
from ticdc_assets.tables.maintenance import orphan_files as leftovers
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.maintenance.maintained import (
    LATER,
    T,
    contents,
    files,
    interrupted_at,
    maintained,
    more,
    recorded,
    rows,
    tables,
    written,
)
from ticdc_assets_tests.pipeline.small_feeds import Feed


@pytest.mark.parametrize("moment", [Failpoint.DECODED, Failpoint.BEFORE_CHANGELOG_COMMIT])
def test_parts_of_a_killed_run_are_found_and_removed_and_the_next_run_is_exact(moment: Failpoint, tmp_path: Path):
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
    with interrupted_at(Failpoint.DECODED):
        feed.run()
    feed.run()
    assert maintained(feed.lake).leftovers

    again = maintained(feed.lake)

    assert (again.records, again.expired, again.leftovers, again.left_alone) == (0, {}, [], {})


def test_files_of_a_run_that_is_going_on_stay(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Failpoint.DECODED):
        feed.run()

    report = maintained(feed.lake, datetime.now(UTC))

    assert (report.records, report.expired, report.leftovers) == (0, {}, [])


def test_a_dry_run_tells_what_would_go_and_touches_nothing(tmp_path: Path):
    sink, feed = written(tmp_path)
    with interrupted_at(Failpoint.DECODED):
        feed.run()
    feed.run()
    recorded(feed.lake, datetime.now(UTC))
    more(sink, 3)
    feed.run()
    recorded(feed.lake, LATER)
    before = files(tmp_path)

    planned = maintained(feed.lake, dry_run=True)

    assert files(tmp_path) == before
    done = maintained(feed.lake)
    assert planned.leftovers
    assert {leftover.uri for leftover in planned.leftovers} <= {leftover.uri for leftover in done.leftovers}
    assert (planned.records, planned.expired.keys()) == (done.records, done.expired.keys())


def test_files_that_another_table_of_the_catalog_names_stay(tmp_path: Path):
    _, feed = written(tmp_path)
    with interrupted_at(Failpoint.DECODED):
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
    with interrupted_at(Failpoint.DECODED):
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
    with interrupted_at(Failpoint.BEFORE_CHANGELOG_COMMIT):
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
    with interrupted_at(Failpoint.DECODED):
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


def test_files_of_unknown_age_keep_a_location_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, feed = written(tmp_path)
    with interrupted_at(Failpoint.DECODED):
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
    assert set(report.left_alone.values()) == {"its store does not show how old files are"}


def test_a_store_that_lets_nothing_be_removed_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, feed = written(tmp_path)
    with interrupted_at(Failpoint.DECODED):
        feed.run()
    feed.run()

    def refuse(filesystem: pafs.FileSystem, path: str) -> None:
        raise OSError(f"When deleting key '{path}': AWS Error ACCESS_DENIED during DeleteObject operation")

    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "_delete", refuse)
        report = maintained(feed.lake)

    assert set(report.left_alone.values()) == {
        "reading it or removing files ended with ACCESS_DENIED. Let the credentials read, write, list and "
        "delete there. Then run maintain again"
    }
    assert maintained(feed.lake).leftovers


def test_spellings_of_one_file_are_one_name():
    spelled = ("file:/a/b c", "file:///a/b c", "/a/b c", "/a//b c")
    assert {leftovers.name_of(uri) for uri in spelled} == {"a/b c"}
    assert leftovers.name_of("s3a://bucket/k:1") == leftovers.name_of("s3://bucket/k:1") == "bucket/k:1"
