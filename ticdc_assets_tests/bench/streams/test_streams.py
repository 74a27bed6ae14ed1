"""Streams made from the recorded ones decode to the rows that are then true."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.children import many_tables
from ticdc_assets_tests.bench.children.incremental import Amounts, Stages
from ticdc_assets_tests.bench.streams import buckets, captures, copies
from ticdc_assets_tests.bench.streams.buckets import Bucket
from ticdc_assets_tests.bench.streams.changes import Log
from ticdc_assets_tests.bench.streams.recorded import FORMS, KEY, TABLE, Form, unpacked
from ticdc_assets_tests.fixtures import CORPUS

RECORDED = CORPUS / "bench"
SHIFTS = [copies.shift(copy) for copy in range(3)]

storage_forms = pytest.mark.parametrize("form", [f for f in FORMS.values() if f.is_storage], ids=lambda f: f.name)
message_forms = pytest.mark.parametrize("form", [f for f in FORMS.values() if not f.is_storage], ids=lambda f: f.name)


@pytest.fixture(scope="module")
def log() -> Log:
    return Log(unpacked(RECORDED, "log", Path()))


@storage_forms
def test_a_multiplied_bucket_decodes_to_the_multiplied_truth(form: Form, log: Log, tmp_path: Path) -> None:
    buckets.multiply(_bucket(form), tmp_path / "bucket", SHIFTS)
    wanted = copies.shifted_rows(copies.true_rows(log.folder), SHIFTS)
    assert copies.fault(_rows(form, tmp_path / "bucket", tmp_path), wanted) == ""


@message_forms
def test_a_multiplied_capture_decodes_to_the_multiplied_truth(form: Form, log: Log, tmp_path: Path) -> None:
    captures.multiply(form.name, unpacked(RECORDED, form.name, tmp_path), tmp_path / "capture", SHIFTS)
    wanted = copies.shifted_rows(copies.true_rows(log.folder), SHIFTS)
    assert copies.fault(_rows(form, tmp_path / "capture", tmp_path), wanted) == ""


@message_forms
def test_one_copy_at_no_distance_has_the_recorded_bytes_of_every_row(form: Form, tmp_path: Path) -> None:
    recorded = unpacked(RECORDED, form.name, tmp_path)
    captures.multiply(form.name, recorded, tmp_path / "capture", SHIFTS[:1])
    for path in recorded.glob("*.bin"):
        assert sorted((tmp_path / "capture" / path.name).read_bytes()) == sorted(path.read_bytes())


@storage_forms
def test_many_tables_have_the_same_rows_and_schema_files_with_right_checksums(
    form: Form, log: Log, tmp_path: Path
) -> None:
    commit_ts = many_tables.spread(_bucket(form), tmp_path / "bucket", 3, changes=5)
    for table in many_tables.tables_of(3):
        (schema_file,) = (tmp_path / "bucket" / "bench" / table / "meta").iterdir()
        assert parse_schema_file(schema_file.read_bytes(), f"meta/{schema_file.name}").checksum_ok
        rows = _rows(form, tmp_path / "bucket", tmp_path / table, table)
        assert copies.fault(rows, log.rows_after(commit_ts)) == ""


@storage_forms
def test_a_round_changes_rows_of_the_base_and_leaves_the_others(form: Form, log: Log, tmp_path: Path) -> None:
    stages = Stages(_bucket(form), log, tmp_path / "stages", 4 * 17)
    rounds = [stages.add_round(Amounts(update=7, insert=4, delete=3)) for _ in range(2)]
    assert [len(changed) for changed in rounds] == [14, 14]
    bucket = tmp_path / "bucket"
    for folder in stages.folders:
        _join(Path(folder), bucket)
    found = _rows(form, bucket, tmp_path)
    changed = {row[KEY] for one in rounds for row in one}
    is_changed = pa.array([key in changed for key in found[KEY].to_pylist()])
    assert copies.fault(found.filter(is_changed), stages.true_rows(rounds)) == ""
    assert len(found) == stages.rows + 2 * 4 - 2 * 3


def _bucket(form: Form) -> Bucket:
    return Bucket(unpacked(RECORDED, form.name, Path()))


def _join(folder: Path, bucket: Path) -> None:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        target = bucket / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())


def _rows(form: Form, source: Path, scratch: Path, table: str = TABLE) -> pa.Table:
    """The rows that a stream's changelog adds up to: the last change of every key, unless it is a delete."""
    run = ours.run(form, source, scratch / "lake", LocalWorkers(), with_mirrors=False)
    newest = run.lake.control.newest()
    assert newest is not None
    record = next(r for r in newest.tables if r.table == table)
    assert record.changelog is not None
    changes = run.lake.catalog.load_table(tuple(record.changelog)).scan().to_arrow()
    order = [] if run.lake.by_arrival else [("_ticdc_commit_ts", "ascending")]
    ordered = changes.sort_by([*order, ("_ticdc_seq", "ascending")])
    last = {key: row for row, key in enumerate(ordered[KEY].to_pylist())}
    ops = ordered["_ticdc_op"].to_pylist()
    return ordered.take(pa.array(sorted(row for row in last.values() if ops[row] != "D"), pa.int64()))
