"""Files without commit_ts: each new file is ordered after all earlier ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.changes.typed import next_position
from ticdc_assets.pipeline.storage.plan import (
    files_with,
    has_file,
    next_ordinal,
    ordinals_by_path,
    series_of,
    source_table_of_file,
)
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.paths import SourceFile
from ticdc_assets.sources.storage.scan_result import Done
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.schema.history.histories import event

T = ("s", "t")


def test_a_file_of_one_row_is_before_the_file_that_comes_next(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", commit_ts=False)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 0, 1, "first")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.file(T, 2, [sink.insert(T, 0, 1, "second")])
    feed.run()

    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    rows = {row["_ticdc_seq"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    assert [rows[seq] for seq in sorted(rows)] == ["first", "second"]


def test_the_next_ordinal_is_behind_every_position_that_was_taken():
    assert next_ordinal(Progress()) == 0
    for ordinal in (0, 1, 7):
        begin, end = next_position(ordinal), next_position(ordinal + 1)
        assert [next_ordinal(Progress(position=place)) for place in (begin, end - 1)] == [ordinal + 1] * 2


# -- the files that a table's newest snapshot names -------------------------------------------------------------------

FILE = SourceFile("shop/t/100/CDC000003.csv", 9, "shop", "t", 100, None, None, None, 3)


@pytest.mark.parametrize(
    ("file", "series"),
    [
        (FILE, "shop/t//100////"),
        (replace(FILE, path="shop/t/100/7/CDC000003.csv", partition_id=7), "shop/t//100//7//"),
        (replace(FILE, path="shop/t/100/2025-08-01/CDC000003.csv", date="2025-08-01"), "shop/t//100//2025-08-01//"),
        (
            replace(FILE, path="a/shop/t/100/7/2025/CDC_d1_000003.csv", partition_id=7, date="2025", dispatcher="d1"),
            "a/shop/t//100//7/2025//d1",
        ),
        (replace(FILE, path="81/100/CDC000003.csv"), "81//100////"),
    ],
)
def test_numbers_of_files_are_compared_within_one_folder_version_date_and_dispatcher(file: SourceFile, series: str):
    assert series_of(file) == series


def test_a_table_has_the_files_up_to_the_last_one_that_its_snapshot_names():
    progress = Progress(files=((series_of(FILE), 3),))

    assert [has_file(progress, replace(FILE, number=n)) for n in (1, 3, 4)] == [True, True, False]
    assert not has_file(Progress(), replace(FILE, number=1))
    assert not has_file(progress, replace(FILE, version=200, path="shop/t/200/CDC000001.csv", number=1))


def test_the_next_snapshot_names_the_last_file_of_each_sequence_that_is_read_now():
    second = replace(FILE, path="shop/t/200/CDC000001.csv", version=200, number=1)
    read = [FILE, replace(FILE, number=5), replace(FILE, number=4), second]

    assert files_with(Progress(), read, Cursor.empty()) == ((series_of(FILE), 5), (series_of(second), 1))
    assert files_with(Progress(files=((series_of(FILE), 7),)), read, Cursor.empty())[0] == (series_of(FILE), 7)


def cursor(**state: Any) -> Cursor:
    return Cursor("", {"shop/t": replace(TableCursor("shop", "t", {}), **state)})


def consumed(number: int, dispatcher: str | None = None) -> Cursor:
    return cursor(open={100: VersionState({("", dispatcher): Done(number, 9)})})


PLAIN, SENT, DATED = "shop/t//100////", "shop/t//100////d1", "shop/t//100//7/2025-08-01//"
ELSEWHERE, NEXT_DAY = DATED.replace("7/", "8/"), DATED.replace("-01/", "-02/")
OVER = cursor(open={100: VersionState(over={"7": PastDates().with_date("2025-08-01")})})
KEPT: list[tuple[str, str, Cursor, bool]] = [
    ("no cursor", PLAIN, Cursor.empty(), True),
    ("another folder", "shop/u//100////", cursor(closed_below=500), True),
    ("a version that is closed", PLAIN, cursor(closed_below=101), False),
    ("the first version that is not", PLAIN, cursor(closed_below=100), True),
    ("a version that has no file yet", PLAIN, cursor(open={200: VersionState()}), True),
    ("the file itself", PLAIN, consumed(3), False),
    ("the file before", PLAIN, consumed(2), True),
    ("the file after", PLAIN, consumed(4), False),
    ("another dispatcher", SENT, consumed(9), True),
    ("its dispatcher", SENT, consumed(3, "d1"), False),
    ("a closed date", DATED, OVER, False),
    ("another date", NEXT_DAY, OVER, True),
    ("another partition", ELSEWHERE, OVER, True),
]


@pytest.mark.parametrize(("_what", "series", "known", "is_kept"), KEPT, ids=[case[0] for case in KEPT])
def test_a_snapshot_names_a_file_until_the_recorded_cursor_has_passed_it(
    _what: str, series: str, known: Cursor, is_kept: bool
):
    """Otherwise a run that could not record would read the file twice, or the names would grow for ever."""
    assert files_with(Progress(files=((series, 3),)), (), known) == (((series, 3),) if is_kept else ())


# -- whose rows a file has --------------------------------------------------------------------------------------------


def test_the_rows_of_a_file_are_of_the_table_that_had_the_name_at_the_version_of_its_folder():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "u", "RENAME TABLE `t` TO `u`"),
        event(30, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
    ])  # fmt: skip
    first, second = (table.id for table in history.source_tables)
    found = [source_table_of_file(history.timelines(), replace(FILE, version=v)) for v in (9, 10, 19, 20, 29, 30, 40)]

    assert found == [None, first, first, None, None, second, second]
    assert source_table_of_file(history.timelines(), replace(FILE, schema="SHOP", table="U", version=20)) == first
    assert source_table_of_file(history.timelines(), replace(FILE, table="v")) is None


def test_files_are_numbered_in_the_order_of_consumption():
    files = [replace(FILE, path=f"{v}-{n}", version=v, number=n) for v, n in ((200, 1), (100, 2), (100, 1))]

    assert ordinals_by_path(files, 5) == {"100-1": 5, "100-2": 6, "200-1": 7}
