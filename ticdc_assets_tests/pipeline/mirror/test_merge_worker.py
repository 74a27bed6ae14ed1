"""The merge of a segment by a worker, with Parquet files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ticdc_assets.changes import layout
from ticdc_assets.changes.rows_by_key import newest_of_each
from ticdc_assets.pipeline.mirror.merge import worker
from ticdc_assets.pipeline.mirror.merge.task import (
    LiveFile,
    MergeReport,
    MergeTask,
    MirrorColumn,
    SegmentChanges,
    VectorPosition,
)
from ticdc_assets.pipeline.mirror.merge.worker import merge
from ticdc_assets.tables.iceberg import parquet
from ticdc_assets.tables.iceberg.deletion_vectors import blob_of, positions_of
from ticdc_assets.tables.iceberg.types import field_id

ID = pa.field("id", pa.int64(), nullable=False, metadata=field_id(1))
NAME = pa.field("name", pa.string(), metadata=field_id(2))
COMMIT_TS = pa.field(layout.COMMIT_TS, pa.int64(), metadata=field_id(3))
COLUMNS = (MirrorColumn(ID, 11), MirrorColumn(NAME, 12), MirrorColumn(COMMIT_TS, 2))
SYSTEM = [
    pa.field(layout.OP, pa.string(), metadata=field_id(1)),
    pa.field(layout.COMMIT_TS, pa.int64(), metadata=field_id(2)),
    pa.field(layout.SEQ, pa.int64(), metadata=field_id(4)),
    pa.field(layout.TABLE_VERSION, pa.int64(), metadata=field_id(5)),
]

Change = tuple[str, int, int, str | None]  # op, commit_ts, id, name


class Stretch:
    """Files of a changelog and of a mirror in a folder, and the task that brings one to the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changelog: list[str] = []
        self.live: list[LiveFile] = []

    def changes(self, *changes: Change, key: pa.Field | None = None, version: int = 1) -> None:
        """Another file of the changelog; an update keeps its place among the changes as its order."""
        fields = [*SYSTEM, key or pa.field("id", pa.int64(), metadata=field_id(11)),
                  pa.field("name", pa.string(), metadata=field_id(12))]  # fmt: skip
        seq = range(len(self.changelog) * 100, len(self.changelog) * 100 + len(changes))
        columns: list[list[Any]] = [
            [c[0] for c in changes], [c[1] for c in changes], list(seq), [version] * len(changes),
            [c[2] for c in changes], [c[3] for c in changes],
        ]  # fmt: skip
        arrays = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
        self.changelog.append(self._write(pa.table(arrays, schema=pa.schema(fields))))

    def rows(self, *rows: tuple[int, str], gone: tuple[int, ...] = (), schema: pa.Schema | None = None) -> str:
        """Another data file of the mirror, of which the rows at `gone` are gone already."""
        schema = schema or pa.schema([ID, NAME, COMMIT_TS])
        table = pa.Table.from_pylist([dict(zip(schema.names, (*row, 0), strict=False)) for row in rows], schema)
        uri, vector = self._write(table), None
        if gone:
            blob = blob_of(gone)
            (self.folder / "v.puffin").write_bytes(b"PFA1" + blob)
            vector = VectorPosition(f"file://{self.folder}/v.puffin", 4, len(blob))
        self.live.append(LiveFile(uri, len(rows), vector))
        return uri

    def _write(self, table: pa.Table) -> str:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(table, path, row_group_size=2, store_schema=False)
        return f"file://{path}"

    def merge(self, low: int = 0, high: int = 1000, by_arrival: bool = False, **share: int) -> MergeReport:
        changelog, live = tuple(self.changelog), tuple(self.live)
        prefix = f"file://{self.folder}/new"
        changes = SegmentChanges(changelog, low, high, by_arrival, 1)
        return merge(MergeTask("t", COLUMNS, ("id",), changes, live, prefix, **share))


@pytest.fixture
def stretch(tmp_path: Path) -> Stretch:
    return Stretch(tmp_path)


def new_rows(*reports: MergeReport) -> list[tuple[Any, ...]]:
    assert [report.unfit for report in reports] == ["" for _ in reports]
    tables = [pq.read_table(file.uri.removeprefix("file://")) for report in reports for file in report.written]
    assert sum(f.footer.num_rows for r in reports for f in r.written) == sum(len(table) for table in tables)
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def gone(report: MergeReport) -> dict[str, set[int]]:
    return {found.data_uri: set(positions_of(found.blob)) for found in report.gone}


def test_the_newest_change_of_every_key_is_the_row(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"), ("I", 10, 2, "b"), ("U", 20, 1, "c"))
    stretch.changes(("U", 30, 2, None), ("I", 30, 3, "d"), ("D", 40, 3, "d"))

    assert new_rows(stretch.merge()) == [(1, "c", 20), (2, None, 30)]


def test_files_may_come_in_any_order(stretch: Stretch):
    stretch.changes(("U", 30, 1, "new"))
    stretch.changes(("I", 10, 1, "old"))

    assert new_rows(stretch.merge()) == [(1, "new", 30)]


def test_only_changes_of_the_stretch_are_taken(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"), ("I", 20, 2, "b"), ("I", 30, 3, "c"), ("I", 40, 4, "d"))

    assert new_rows(stretch.merge(low=10, high=30)) == [(2, "b", 20), (3, "c", 30)]


def test_by_arrival_the_order_is_by_place_and_of_one_version(stretch: Stretch):
    stretch.changes(("I", 50, 1, "first"), ("U", 10, 1, "second"))
    stretch.changes(("U", 60, 1, "of another version"), version=2)

    assert new_rows(stretch.merge(low=-1, high=1000, by_arrival=True)) == [(1, "second", 10)]


def test_rows_that_are_replaced_or_deleted_are_gone(stretch: Stretch):
    stretch.changes(("U", 10, 3, "c"), ("D", 10, 5, "x"), ("I", 10, 9, "new"))
    first = stretch.rows((1, "a"), (2, "b"), (3, "old"), (4, "d"))
    second = stretch.rows((5, "x"), (6, "y"))
    stretch.rows((7, "z"))

    report = stretch.merge()

    assert new_rows(report) == [(3, "c", 10), (9, "new", 10)]
    assert gone(report) == {first: {2}, second: {0}}


def test_rows_that_were_gone_before_stay_gone(stretch: Stretch):
    """Their keys may be back in another file."""
    stretch.changes(("U", 10, 2, "again"))
    first = stretch.rows((1, "a"), (2, "b"), (3, "c"), gone=(0,))
    stretch.rows((1, "a2"))

    assert gone(stretch.merge()) == {first: {0, 1}}


def test_a_vector_that_would_say_the_same_is_not_written_again(stretch: Stretch):
    stretch.changes(("U", 10, 2, "again"))
    stretch.rows((1, "a"), (2, "b"), gone=(1,))

    assert gone(stretch.merge()) == {}


def test_shares_make_the_whole_together(stretch: Stretch):
    for number in range(5):
        stretch.changes(("I", 10 + number, number, "a"), ("U", 20 + number, 0, str(number)), ("D", 30, 4, "gone"))

    alone = new_rows(stretch.merge())
    shared = new_rows(*(stretch.merge(share=share, shares=2) for share in (0, 1)))

    assert shared == alone
    assert len(alone) == 4


def test_buckets_of_keys_make_the_whole_together(stretch: Stretch):
    stretch.changes(*(("I", 10, number, "old") for number in range(7)), ("U", 20, 3, "new"), ("D", 20, 4, "old"))
    stretch.changes(("U", 30, 5, "newest"), ("I", 30, 9, "other"))
    data = stretch.rows((3, "x"), (4, "y"), (8, "z"), (9, "w"))

    at_once, in_buckets = stretch.merge(), stretch.merge(buckets=3)

    assert new_rows(in_buckets) == new_rows(at_once)
    assert len(new_rows(at_once)) == 7
    assert gone(in_buckets) == gone(at_once) == {data: {0, 1, 3}}


def test_a_worker_compares_the_keys_of_one_bucket_at_once(stretch: Stretch, monkeypatch: pytest.MonkeyPatch):
    compared: list[int] = []

    def noted(keys: list[pa.ChunkedArray], order: list[pa.ChunkedArray]) -> Any:
        compared.append(len(keys[0]))
        return newest_of_each(keys, order)

    monkeypatch.setattr(worker, "newest_of_each", noted)
    stretch.changes(*(("I", 10, number, "a") for number in range(90)))
    stretch.merge(buckets=3)

    assert sum(compared) == 90
    assert max(compared) < 60


def test_many_rows_become_several_data_files(stretch: Stretch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "FILE_BYTES", 1)
    monkeypatch.setattr(parquet, "_GATHERED_BYTES", 1)
    stretch.changes(*(("I", 10, number, "a") for number in range(6)))

    report = stretch.merge()

    assert [file.footer.num_rows for file in report.written] == [2, 2, 2]
    assert [row[0] for row in new_rows(report)] == [*range(6)]


def test_a_column_that_a_file_does_not_have_is_null(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"))
    path = stretch.changelog[0].removeprefix("file://")
    pq.write_table(pq.read_table(path).drop_columns(["name"]), path, store_schema=False)

    assert new_rows(stretch.merge()) == [(1, None, 10)]


def test_a_narrower_type_of_an_older_file_is_widened(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"), key=pa.field("id", pa.int32(), metadata=field_id(11)))
    narrow = pa.schema([pa.field("id", pa.int32(), metadata=field_id(1)), NAME])
    first = stretch.rows((1, "old"), schema=narrow)

    report = stretch.merge()

    assert new_rows(report) == [(1, "a", 10)]
    assert gone(report) == {first: {0}}


def test_files_that_workers_cannot_merge_are_left_to_spark_without_new_files(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"))
    stretch.rows((1, "old"), schema=pa.schema([pa.field("other", pa.int64(), metadata=field_id(77)), NAME]))
    before = sorted(stretch.folder.iterdir())

    report = stretch.merge()

    assert report == MergeReport("t", unfit="UnfitError")
    assert sorted(stretch.folder.iterdir()) == before


def test_a_file_that_is_missing_is_left_to_spark_which_says_so(stretch: Stretch):
    stretch.changes(("I", 10, 1, "a"))
    stretch.changelog.append(f"file://{stretch.folder}/missing.parquet")

    assert stretch.merge().unfit == "FileNotFoundError"
