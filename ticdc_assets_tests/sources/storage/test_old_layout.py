"""Buckets of the old layout, whose tables keep their schema in the folder of their rows."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import peek, tables
from ticdc_assets_tests.sources.storage.bucket import Bucket, after, paths

OLD_EXAMPLE = b"""{
"Table":"test",
"Schema":"tbl_1",
"Version": 1,
"TableVersion":437752935075545091,
"Query": "create table tbl_1 (Id int primary key, LastName char(20), HireDate datetime, OfficeLocation Blob(20))",
"TableColumns":[
{"ColumnName":"Id","ColumnType":"INT","ColumnNullable":"false","ColumnIsPk":"true"},
{"ColumnName":"LastName","ColumnType":"CHAR","ColumnLength":"20"},
{"ColumnName":"FirstName","ColumnType":"VARCHAR","ColumnLength":"30"},
{"ColumnName":"HireDate","ColumnType":"DATETIME"},
{"ColumnName":"OfficeLocation","ColumnType":"BLOB","ColumnLength":"20"}
],
"TableColumnsTotal":"5"
}"""


def old_bucket(base: Path) -> Bucket:
    bucket = Bucket(base, Layout("none", "json"), 437752935075546092)
    bucket.write("test/tbl_1/437752935075545091/schema.json", OLD_EXAMPLE)
    bucket.data("test/tbl_1/437752935075545091", 1, digits=6)
    return bucket


def test_the_documents_own_example_is_read(tmp_path: Path) -> None:
    found = old_bucket(tmp_path).scan()
    [file] = found.schema_files

    assert (file.schema, file.table, file.version, file.key) == ("test", "tbl_1", 437752935075545091, ("Id",))
    assert [(c.name, c.type.kind, c.type.length) for c in file.columns][:3] == [
        ("Id", "INT", None),
        ("LastName", "CHAR", 20),
        ("FirstName", "VARCHAR", 30),
    ]
    assert [(f.path, f.schema, f.table) for f in found.data] == [
        ("test/tbl_1/437752935075545091/CDC000001.json", "test", "tbl_1")
    ]
    assert found.problems == ()
    assert found.notes == ()


def test_the_old_layout_goes_on_from_version_to_version(tmp_path: Path) -> None:
    bucket = old_bucket(tmp_path)
    cursor = after(bucket.scan())
    second = bucket.data("test/tbl_1/437752935075545091", 2, digits=6)
    bucket.write("test/tbl_1/437752935075545091/CDC.index", b"CDC000002.json\n")
    newer = OLD_EXAMPLE.replace(b"437752935075545091", b"437752935075546092")
    bucket.write("test/tbl_1/437752935075546092/schema.json", newer)
    third = bucket.data("test/tbl_1/437752935075546092", 1, digits=6)

    found = bucket.scan(cursor)
    done = after(found, cursor)

    assert paths(found) == [second, third]
    assert [f.version for f in found.schema_files] == [437752935075546092]
    again = bucket.scan(done)
    assert (again.data, again.schema_files) == ((), ())
    # no index says that a folder is whole: it is over once a scan finds nothing new in it
    assert set(done.tables["test/tbl_1"].open) == {437752935075545091, 437752935075546092}
    assert set(after(again, done).tables["test/tbl_1"].open) == {437752935075546092}
    assert tables(bucket.root, bucket.layout) == [("test", "tbl_1")]
    assert peek(bucket.root, bucket.layout)[1] != peek(old_bucket(tmp_path / "other").root, bucket.layout)[1]


def test_a_cluster_upgraded_from_the_old_layout_has_both(tmp_path: Path) -> None:
    bucket = old_bucket(tmp_path)
    bucket.schema("test", "tbl_1", 437752935075546000)
    [file] = bucket.files("test/tbl_1/437752935075546000", 1)

    found = bucket.scan()

    assert [f.version for f in found.schema_files] == [437752935075545091, 437752935075546000]
    assert paths(found)[-1] == file
    assert len(found.data) == 2


def test_the_old_layout_is_read_with_dates(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path, Layout("day", "json"), 437752935075546092)
    bucket.write("test/tbl_1/437752935075545091/schema.json", OLD_EXAMPLE)
    file = bucket.data("test/tbl_1/437752935075545091/2022-11-30", 1, digits=6)

    assert paths(bucket.scan()) == [file]
