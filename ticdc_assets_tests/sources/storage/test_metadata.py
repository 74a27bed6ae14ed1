"""The checkpoint and the schema files of a bucket: half-written ones are awaited, wrong ones stop their table alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets.errors import NotYetError, SourceError
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor, peek, read_checkpoint, scan
from ticdc_assets_tests.sources.storage.bucket import ID, T1, Bucket, after, kinds, paths, schema_document

# the checkpoint


def test_without_metadata_there_is_nothing_to_do_yet(bucket: Bucket) -> None:
    bucket.remove("metadata")

    found = bucket.scan()

    assert read_checkpoint(bucket.root) is None
    assert (found.checkpoint_ts, found.data, found.schema_files) == (None, (), ())
    assert Cursor.empty().advance(found, ()) == Cursor.empty()


@pytest.mark.parametrize("read", [scan, peek])
def test_a_path_above_or_below_the_folder_of_metadata_is_refused_and_told(tmp_path: Path, read: Callable) -> None:
    bucket = Bucket(tmp_path / "prefix")
    bucket.schema("shop", "", 5)
    bucket.schema("shop", "t1", 10)

    with pytest.raises(SourceError, match=r"metadata: expected .* found it one level below, in prefix\."):
        read(open_root(str(tmp_path)), bucket.layout, *([Cursor.empty()] if read is scan else ()))
    with pytest.raises(SourceError, match=r"shop/t1: expected the folder of a database, found a table of .* shop\."):
        read(open_root(str(tmp_path / "prefix/shop")), bucket.layout, *([Cursor.empty()] if read is scan else ()))


@pytest.mark.parametrize("layout", [Layout("none"), Layout("none", table_id_as_path=True)])
def test_tables_before_the_first_checkpoint_are_no_fault(tmp_path: Path, layout: Layout) -> None:
    bucket = Bucket(tmp_path, layout)
    bucket.schema("shop", "t1", 10, folder="112" if layout.table_id_as_path else None)
    bucket.remove("metadata")

    assert bucket.scan().checkpoint_ts is None


@pytest.mark.parametrize("cut", range(len(b'{"checkpoint-ts":459802240407830531}')))
def test_half_written_metadata_is_awaited(bucket: Bucket, cut: int) -> None:
    bucket.write("metadata", b'{"checkpoint-ts":459802240407830531}'[:cut])

    with pytest.raises(NotYetError):
        read_checkpoint(bucket.root)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b'"x"', b"7", b'{"checkpoint-ts":"7"}', b'{"checkpoint-ts":true}', b'{"checkpoint-ts":1.5}'],
)
def test_metadata_of_something_else_is_refused(bucket: Bucket, content: bytes) -> None:
    bucket.write("metadata", content)

    with pytest.raises(SourceError):
        read_checkpoint(bucket.root)


def test_a_database_of_the_name_of_the_checkpoints_file_is_named(bucket: Bucket) -> None:
    bucket.remove("metadata")
    bucket.schema("metadata", "t1", 100)

    with pytest.raises(SourceError, match="database named metadata"):
        read_checkpoint(bucket.root)


def test_versions_above_the_checkpoint_wait_with_their_rows(bucket: Bucket) -> None:
    later = bucket.schema("shop", "t1", 1001)
    bucket.files(f"{T1}/1001", 1)
    [file] = bucket.files(f"{T1}/100", 1)

    found = bucket.scan()
    bucket.checkpoint(1001)
    next_found = bucket.scan(after(found))

    assert paths(found) == [file]
    assert later not in {f.where for f in found.schema_files}
    assert [f.where for f in next_found.schema_files] == [later]
    assert [f.version for f in next_found.data] == [1001]


# schema files


def test_rows_without_a_schema_file_are_awaited(bucket: Bucket) -> None:
    schema = bucket.schema("shop", "late", 300)
    [file] = bucket.files("shop/late/300", 1)
    content = (bucket.base / schema).read_bytes()
    bucket.remove(schema)
    bucket.files(f"{T1}/100", 1)

    held = bucket.scan()
    bucket.write(schema, content)

    assert kinds(held) == [("waiting", "late")]
    assert {f.table for f in held.data} == {"t1"}
    assert paths(bucket.scan(after(held))) == [file]
    assert bucket.scan(skip_files=["shop/late/300/*"]).problems == ()


def test_a_version_without_a_schema_file_among_others_is_awaited(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.files(f"{T1}/150", 1)

    found = bucket.scan()

    assert kinds(found) == [("waiting", "t1")]
    assert found.data == ()


def test_a_truncated_schema_file_is_awaited_and_holds_its_table_only(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    path = bucket.schema("shop", "t2", 200)
    whole = (bucket.base / path).read_bytes()
    bucket.write(path, whole[:-40])

    held = bucket.scan()
    bucket.write(path, whole)
    free = bucket.scan(after(held))

    assert kinds(held) == [("waiting", "t2")]
    assert {f.table for f in held.data} == {"t1"}
    assert [f.version for f in free.schema_files] == [100, 200]


def test_an_unknown_column_type_stops_its_table_and_names_the_column(bucket: Bucket) -> None:
    bucket.schema("shop", "t2", 200, [ID, {"ColumnName": "where", "ColumnType": "GEOMETRY"}])
    bucket.files(f"{T1}/100", 1)

    found = bucket.scan()
    [problem] = found.problems

    assert (problem.kind, problem.table) == ("stopped", "t2")
    assert "'where'" in problem.sentence
    assert "GEOMETRY" in problem.sentence
    assert len(found.data) == 1


def test_a_checksum_that_differs_is_only_noted(bucket: Bucket) -> None:
    path = bucket.write("shop/t3/meta/schema_100_0000000007.json", schema_document("shop", "t3", 100, [ID]))
    [file] = bucket.files("shop/t3/100", 1)

    found = bucket.scan()

    assert paths(found) == [file]
    assert [f.checksum_ok for f in found.schema_files if f.table == "t3"] == [False]
    assert any(path in note for note in found.notes)


def test_a_schema_file_in_another_tables_folder_stops_that_folder(bucket: Bucket) -> None:
    bucket.schema("shop", "other", 200, folder=T1)
    bucket.files(f"{T1}/100", 1)

    found = bucket.scan()

    assert kinds(found) == [("stopped", "t1")]
    assert found.data == ()


def test_two_tables_whose_slashes_share_a_folder_are_refused(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path)
    bucket.schema("a", "b/c", 100)
    cursor = after(bucket.scan())
    bucket.schema("a/b", "c", 200)

    assert [problem.kind for problem in bucket.scan(cursor).problems] == ["stopped"]
    assert [problem.kind for problem in bucket.scan().problems] == ["stopped"]


def test_a_held_table_gets_its_schema_files_and_files_again(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.files("shop/t2/100", 1)
    first = bucket.scan()

    cursor = Cursor.empty().advance(first, first.data, {("shop", "t1")})
    second = bucket.scan(cursor)

    assert {f.table for f in second.schema_files} == {"t1"}
    assert {f.table for f in second.data} == {"t1"}


def test_statements_of_databases_come_with_no_table(bucket: Bucket) -> None:
    path = bucket.schema("shop", "", 90, None, "CREATE DATABASE `shop`", 1)

    found = bucket.scan()
    cursor = after(found)

    assert [(f.where, f.to_ddl_event().after) for f in found.schema_files if not f.table] == [(path, None)]
    assert bucket.scan(cursor).schema_files == ()
