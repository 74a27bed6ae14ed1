"""An inspection of a bucket names what is wrong with it, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets_tests.sources.inspection.inspected import inspected


def data_files(bucket: Path) -> list[Path]:
    return sorted(bucket.rglob("CDC*.csv"))


def test_a_file_that_the_index_names_and_that_is_missing_is_reported(bucket: Path):
    last = bucket / "shop/users"
    file = max(last.rglob("CDC*.csv"))
    file.unlink()

    found = inspected(bucket)

    assert [(p.expected, p.found) for p in found.problems.values()] == [
        ("the file that the index names", "no such file")
    ]
    assert str(file) in next(iter(found.problems.values())).where
    assert ("App_DB", "counters") in found.tables


def test_an_empty_file_and_a_missing_number_are_reported(bucket: Path):
    empty, hole = (max(bucket.glob(f"{table}/*/*/CDC*1.csv")) for table in ("App_DB/counters", "shop/users"))
    empty.write_bytes(b"")
    hole.unlink()

    found = {p.found for p in inspected(bucket).problems.values()}

    assert found == {"an empty file", "no such file"}


def test_missing_metadata_is_reported_and_the_rest_is_counted(bucket: Path):
    whole = inspected(bucket).counts
    (bucket / "metadata").unlink()

    found = inspected(bucket)

    assert [p.expected for p in found.problems.values()] == ["the checkpoint's file"]
    assert found.counts == whole
    assert found.events.watermark is None


def test_a_file_that_is_cut_says_at_which_record(bucket: Path):
    file = max(data_files(bucket), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[:-5])

    problems = list(inspected(bucket).problems.values())

    assert len(problems) == 1
    assert problems[0].found == "the end of the file inside it"
    assert problems[0].where.startswith(f"{file}, record ")


def test_the_folder_above_a_root_is_an_error_that_names_the_root(bucket: Path):
    with pytest.raises(SourceError, match=f"Name {bucket} instead"):
        inspected(bucket.parent)

    (bucket.parent / "far" / "below").mkdir(parents=True)
    moved = bucket.rename(bucket.parent / "far" / "below" / "bucket")
    with pytest.raises(SourceError, match=f"Name {moved} instead"):
        inspected(bucket.parent / "far")


def test_foreign_files_do_not_hide_a_table(bucket: Path):
    (bucket / "shop" / "README.txt").write_text("mine")

    found = inspected(bucket)

    assert any("README.txt" in note for note in found.notes)
    assert not found.problems
