"""What is not TiCDC's, or leads out of a bucket, is noted and disturbs no table but its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.sources.filesystem import Entry
from ticdc_assets.sources.storage.scan import Cursor, scan
from ticdc_assets_tests.sources.storage.bucket import NONE, T1, Bucket, CountingRoot, kinds, paths


def test_what_is_not_ticdcs_is_noted_and_disturbs_nothing(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2)
    strays = [
        "README.md", "shop/notes.txt", "shop/_tmp/x/y/z.parquet", f"{T1}/part-0.parquet", f"{T1}/100/_SUCCESS",
        f"{T1}/100/tmp/a", f"{T1}/0100/CDC00000000000000000001.csv", "shop/t2/100/CDC1.csv", "shop/meta/readme",
    ]  # fmt: skip
    for stray in strays:
        bucket.write(stray, b"x")
    (bucket.base / f"{T1}/100/CDC00000000000000000003.csv").mkdir()

    found = bucket.scan()

    assert paths(found) == files
    assert found.problems == ()
    assert any("README.md" in note for note in found.notes)
    assert any("notes.txt" in note for note in found.notes)
    assert any("_SUCCESS" in note for note in found.notes)


def test_names_that_are_not_utf8_are_noted(bucket: Bucket) -> None:
    (bucket.base / b"shop/caf\xe9".decode(errors="surrogateescape")).mkdir()

    assert any("caf" in note for note in bucket.scan().notes)


@pytest.mark.parametrize("name", ["..", "."])
def test_keys_that_no_path_can_name_are_noted(bucket: Bucket, name: str) -> None:
    files = bucket.files(f"{T1}/100", 1)
    root = CountingRoot(bucket.root)
    listed = root.list_dir
    root.list_dir = lambda path: [*listed(path), Entry(name, is_dir=True, size=0)]  # type: ignore[method-assign]

    found = scan(root, NONE, Cursor.empty())

    assert paths(found) == files
    assert any(note.startswith(f"'{root.name}/{name}'") for note in found.notes)


def test_a_folder_called_like_a_file_is_not_read(bucket: Bucket) -> None:
    bucket.index(f"{T1}/100", 1)
    (bucket.base / f"{T1}/100/CDC00000000000000000001.csv").mkdir()

    assert kinds(bucket.scan()) == [("waiting", "t1")]


@pytest.mark.parametrize(
    "link", [f"{T1}/100", f"{T1}/100/115", f"{T1}/100/CDC00000000000000000001.csv", f"{T1}/100/meta/CDC.index"]
)
def test_a_link_out_of_the_root_holds_its_table(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    secret = Bucket(outside)
    secret.files("", 1)
    bucket = Bucket(tmp_path / "bucket")
    bucket.schema("shop", "t1", 100)
    bucket.schema("shop", "t2", 100)
    other = bucket.files("shop/t2/100", 1)
    target = bucket.base / link
    target.parent.mkdir(parents=True, exist_ok=True)
    source = outside / "meta/CDC.index" if link.endswith("index") else outside / target.name
    target.symlink_to(source if target.suffix else outside)
    if link.endswith(".csv"):
        bucket.index(f"{T1}/100", 1)

    found = bucket.scan()

    assert kinds(found) == [("stopped", "t1")]
    assert "link" in found.problems[0].sentence
    assert paths(found) == other


def test_a_linked_schema_folder_is_noted(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    bucket = Bucket(tmp_path / "bucket")
    (bucket.base / "evil").symlink_to(tmp_path / "outside")

    assert any("evil" in note and "link" in note for note in bucket.scan().notes)
