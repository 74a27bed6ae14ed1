"""The kept files are those of the table's present snapshot, and their number is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ticdc_assets.tables.iceberg.row_delta import LiveDataFile
from ticdc_assets.tables.mirror.kept_files import KeptFiles

FILES = tuple(LiveDataFile(f"{number}.parquet", 1, None, True) for number in range(3))


def at(table: int, snapshot_id: int | None) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(table_uuid=UUID(int=table), current_snapshot_id=snapshot_id))


def test_the_files_of_another_snapshot_or_table_are_not_given():
    kept = KeptFiles()
    kept.keep(at(1, 10), 11, FILES)

    assert kept.get(at(1, 11)) == FILES
    assert [kept.get(at(1, 10)), kept.get(at(1, 12)), kept.get(at(1, None)), kept.get(at(2, 11))] == [None] * 4
    kept.keep(at(1, 11), 12, FILES[:1])
    assert [kept.get(at(1, 11)), kept.get(at(1, 12))] == [None, FILES[:1]]


def test_the_tables_that_were_written_longest_ago_are_forgotten():
    kept = KeptFiles(files_max=6)
    for table in (1, 2, 1, 3):
        kept.keep(at(table, 10), 11, FILES)

    assert [kept.get(at(table, 11)) is not None for table in (1, 2, 3)] == [True, False, True]
    kept.keep(at(1, 11), 12, FILES * 3)
    assert [kept.get(at(1, 11)), kept.get(at(1, 12)), kept.get(at(3, 11))] == [None, None, FILES]
    kept.keep(at(4, 10), 11, FILES)
    assert kept.get(at(3, 11)) == FILES
