"""Roots: the same promises for a local folder and for a store that is reached through pyarrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from ticdc_assets.errors import NotYetError, SourceError
from ticdc_assets.sources.filesystem import Entry, OutsideError, RemoteRoot, Root, open_root
from ticdc_assets.sources.storage.scan import Cursor, scan
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.pipeline.faults.scarce import without_rights
from ticdc_assets_tests.sources.storage.bucket import NONE, Bucket

NAMES = ["plain", "a b", "50%25", "naïve", "數據", "q'u\"o", "x#y?z=1&w", "a\\b", "[*]", "+"]


def write_local(base: Path) -> None:
    for number, name in enumerate(NAMES):
        (base / name).mkdir(parents=True)
        (base / name / f"{name}.csv").write_bytes(b"x" * (number + 1))


@pytest.fixture(params=["folder", "file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Root]:
    base = tmp_path / "a b%20c"
    write_local(base)
    if request.param == "folder":
        yield open_root(str(base))
    elif request.param == "file":
        yield open_root(f"file://{tmp_path}/a%20b%2520c?protocol=csv")
    else:
        fsspec = pytest.importorskip("fsspec")
        store = fsspec.filesystem("memory")
        store.put(str(base), "/bucket/prefix", recursive=True)
        yield open_root("memory://bucket/prefix")
        store.rm("/bucket", recursive=True)


def test_names_have_no_special_characters(root: Root) -> None:
    assert {entry.name for entry in root.list_dir("")} == set(NAMES)
    for number, name in enumerate(NAMES):
        path = f"{name}/{name}.csv"
        assert root.list_dir(name) == [Entry(f"{name}.csv", is_dir=False, size=number + 1)]
        assert root.read_bytes(path) == b"x" * (number + 1)
        assert root.sizes([path]) == {path: number + 1}


def test_a_pickled_root_reads_on(root: Root) -> None:
    assert pickle.loads(pickle.dumps(root)).read_bytes("plain/plain.csv") == b"x"


def test_listings_are_in_order_and_tell_folders(root: Root) -> None:
    entries = root.list_dir("")

    assert [entry.name for entry in entries] == sorted(NAMES)
    assert all(entry.is_dir and entry.size == 0 for entry in entries)


def test_what_is_not_there_is_awaited(root: Root, tmp_path: Path) -> None:
    for path in ("none", "plain/none", "none/none"):
        with pytest.raises(NotYetError):
            root.read_bytes(path)
        with pytest.raises(NotYetError):
            root.fetch_to(path, tmp_path / "copy")
    with pytest.raises(NotYetError):
        root.list_dir("none")
    assert root.sizes(["none", "plain", "plain/none"]) == {"none": None, "plain": None, "plain/none": None}


@pytest.mark.parametrize("path", ["..", "../x", "plain/../../x", "/etc/passwd", "a//b", "./a", "a/.", "a\0b", "a/"])
def test_nothing_above_the_root_can_be_named(root: Root, path: str, tmp_path: Path) -> None:
    for ask in (root.read_bytes, root.list_dir, lambda p: root.sizes([p]), lambda p: root.fetch_to(p, tmp_path / "c")):
        with pytest.raises(OutsideError):
            ask(path)


def test_an_object_can_be_copied(root: Root, tmp_path: Path) -> None:
    root.fetch_to("a b/a b.csv", tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == b"xx"
    local = root.local_path("a b/a b.csv")
    assert local is None if root.remote else local.read_bytes() == b"xx"


def test_an_object_larger_than_it_may_be_is_refused(root: Root) -> None:
    assert root.read_bytes("a b/a b.csv", 2) == b"xx"
    with pytest.raises(SourceError):
        root.read_bytes("a b/a b.csv", 1)


def test_work_keeps_its_order_and_its_errors(root: Root) -> None:
    assert root.map(lambda n: n * 2, range(100)) == [n * 2 for n in range(100)]
    with pytest.raises(NotYetError):
        root.map(root.read_bytes, ["plain/plain.csv", "none"])


def test_links_inside_the_root_are_followed_and_others_refused(tmp_path: Path) -> None:
    outside, base = tmp_path / "outside", tmp_path / "base"
    write_local(base)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (base / "inner").symlink_to(base / "plain")
    (base / "outer").symlink_to(outside)
    (base / "broken").symlink_to(base / "nowhere")
    root = open_root(str(base))

    entries = {entry.name: entry for entry in root.list_dir("")}
    assert entries["inner"].is_dir
    assert entries["outer"] == Entry("outer", is_dir=False, size=0, outside=True)
    assert "broken" not in entries
    assert root.read_bytes("inner/plain.csv") == b"x"
    for ask in (root.read_bytes, root.local_path, lambda p: root.sizes([p])):
        with pytest.raises(OutsideError):
            ask("outer/secret")


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    write_local(tmp_path / "base")
    (tmp_path / "link").symlink_to(tmp_path / "base")

    assert open_root(str(tmp_path / "link")).read_bytes("plain/plain.csv") == b"x"


@pytest.mark.parametrize("uri", ["{}/none", "file://{}/none", "memory://none-of-that"])
def test_a_missing_root_is_named(uri: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        open_root(uri.format(tmp_path))

    assert "none" in caught.value.where


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SourceError):
        open_root(str(tmp_path / "file"))


def fault_of_listing(base: Path) -> str:
    """What is said of a folder that this process may not read."""
    without_rights()
    with pytest.raises(SourceError) as raised:
        open_root(str(base)).list_dir("plain")
    return str(raised.value)


def test_a_closed_folder_is_a_fault_of_the_source(tmp_path: Path) -> None:
    write_local(tmp_path / "base")
    (tmp_path / "base" / "plain").chmod(0)

    assert "permission" in apart(fault_of_listing, tmp_path / "base")


@pytest.mark.parametrize("uri", ["file://host/x", "nosuch://bucket/x"])
def test_what_cannot_be_opened_says_what_can(uri: str) -> None:
    with pytest.raises(SourceError):
        open_root(uri)


S3 = "s3://AKIA:hush@bucket/a%20b/c?protocol=csv&access-key=AKIA&secret-access-key=hush&endpoint=http://127.0.0.1:9/&region=x"


def test_credentials_of_a_sink_uri_reach_the_store_and_no_text() -> None:
    root = RemoteRoot(S3)

    assert root.name == "s3://bucket/a%20b/c"
    assert root._base == "bucket/a b/c"
    for text in (repr(root), root.where("x"), root.name):
        assert "hush" not in text
        assert "AKIA" not in text
    assert pickle.loads(pickle.dumps(root)).name == root.name


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("azure://lake/a/b?account-name=shop&account-key=aGlkZGVu", "lake/a/b"),
        ("abfss://lake@shop.dfs.core.windows.net/a/b?account-name=shop&account-key=aGlkZGVu", "lake/a/b"),
        ("gs://lake/a/b?endpoint=http://127.0.0.1:9", "lake/a/b"),
    ],
)
def test_a_container_is_the_first_folder_of_its_store(uri: str, inside: str) -> None:
    assert RemoteRoot(uri)._base == inside


def test_a_pyarrow_without_the_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(**options: str) -> None:
        raise ImportError("not built with support for it")

    monkeypatch.setattr(pafs, "AzureFileSystem", without)

    with pytest.raises(SourceError, match="a pyarrow with this store, found one without"):
        open_root("azure://lake/a?account-name=shop")


def test_a_store_that_does_not_answer_is_a_fault_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with pytest.raises(SourceError) as caught:
        open_root("s3://bucket/x?access-key=AKIA&secret-access-key=hush&endpoint=http://127.0.0.1:9&region=x")
    assert "hush" not in str(caught.value)


def test_a_remote_bucket_is_scanned_like_a_local_one(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    bucket = Bucket(tmp_path / "b")
    for table in ("t1", "50%25", "a/b"):
        bucket.schema("shop", table, 100)
        bucket.files(f"shop/{table}/100", 1, 2)
    local = bucket.scan()
    fsspec.filesystem("memory").put(str(bucket.base), "/scanned", recursive=True)

    remote = scan(open_root("memory://scanned"), NONE, Cursor.empty())

    assert (remote.data, remote.schema_files, remote.problems) == (local.data, local.schema_files, ())
    assert len(remote.data) == 6
