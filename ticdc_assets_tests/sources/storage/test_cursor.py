"""The cursor forgets versions and dates that are over, and none that rows may still reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.scan import Cursor, scan
from ticdc_assets_tests.sources.storage.bucket import (
    JULY_31,
    PHYSICAL_DAY,
    T1,
    Bucket,
    CountingRoot,
    after,
    dated,
    paths,
)


def test_an_old_version_is_forgotten_when_a_newer_one_has_rows(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200)
    only_schema = after(bucket.scan())
    [late] = bucket.files(f"{T1}/100", 2)
    still_open = bucket.scan(only_schema)
    bucket.files(f"{T1}/200", 1)
    done = after(bucket.scan(after(still_open, only_schema)), after(still_open, only_schema))

    assert paths(still_open) == [late]
    assert set(done.tables[T1].open) == {200}
    assert set(done.tables[T1].schemas) == {200}


def test_an_old_version_stays_open_while_it_holds_rows_above_the_watermark(bucket: Bucket) -> None:
    first, second = bucket.files(f"{T1}/100", 1, 2)
    bucket.schema("shop", "t1", 200)
    [newer] = bucket.files(f"{T1}/200", 1)
    found = bucket.scan()
    by_path = {file.path: file for file in found.data}

    cursor = Cursor.empty().advance(found, [by_path[first], by_path[newer]])

    assert paths(bucket.scan(cursor)) == [second]
    assert set(cursor.tables[T1].open) == {100, 200}


def test_the_cursor_stays_before_the_first_file_with_rows_above_the_watermark(bucket: Bucket) -> None:
    first, second, third, fourth = bucket.files(f"{T1}/100", 1, 2, 3, 4)
    found = bucket.scan()

    by_path = {file.path: file for file in found.data}

    cursor = Cursor.empty().advance(found, [by_path[first], by_path[third]], seen=[by_path[second]])

    again = bucket.scan(cursor)
    assert paths(again) == [second, third, fourth]
    assert again.seen == {second, third}


def test_a_newer_version_closes_an_old_one_only_by_rows_that_were_consumed(bucket: Bucket) -> None:
    [old] = bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200)
    [newer] = bucket.files(f"{T1}/200", 1)
    found = bucket.scan()

    cursor = Cursor.empty().advance(found, [file for file in found.data if file.path == old])
    [late] = bucket.files(f"{T1}/100", 2)

    assert paths(bucket.scan(cursor)) == [late, newer]


def test_versions_are_finished_only_up_to_the_first_one_that_is_not(bucket: Bucket) -> None:
    """In whatever order runs find them: the older version has no consumed file yet when the newer one has."""
    [old] = bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200)
    [newer] = bucket.files(f"{T1}/200", 1)
    first = bucket.scan()
    cursor = Cursor.empty().advance(first, [file for file in first.data if file.path == newer])

    again = cursor.advance(bucket.scan(cursor), ())

    assert (cursor.tables[T1].closed_below, again.tables[T1].closed_below) == (100, 100)
    assert paths(bucket.scan(again)) == [old]


def test_a_late_file_of_a_version_without_files_opens_no_later_version_again(bucket: Bucket) -> None:
    """While a run leaves the late file, the versions after its own stay finished."""
    bucket.checkpoint(3 * PHYSICAL_DAY)
    for version in (150, 200):
        bucket.schema("shop", "t1", version)
        bucket.files(f"{T1}/{version}", 1)
    grown = after(bucket.scan(recognises_repeats=True))
    cursor = after(bucket.scan(grown, recognises_repeats=True), grown)
    [late] = bucket.files(f"{T1}/100", 1)
    found = bucket.scan(cursor, recognises_repeats=True)

    left = cursor.advance(found, ())

    assert (grown.tables[T1].closed_below, cursor.tables[T1].closed_below) == (150, 200)
    assert left.tables[T1].closed_below == 200
    assert paths(found) == paths(bucket.scan(left, recognises_repeats=True)) == [late]


def test_a_dropped_table_costs_the_cursor_almost_nothing(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200, query="DROP TABLE `shop`.`t1`", type_=4)

    cursor = after(bucket.scan())
    bucket.schema("shop", "t1", 300)
    [again] = bucket.files(f"{T1}/300", 1)
    reborn = bucket.scan(cursor)

    assert cursor.tables[T1].open == {}
    assert [f.version for f in reborn.schema_files] == [300]
    assert paths(reborn) == [again]


def test_a_version_that_rows_reach_after_its_table_was_dropped_is_still_read(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200, query="DROP TABLE `shop`.`t1`", type_=4)
    first = bucket.scan()

    cursor = Cursor.empty().advance(first, ())

    assert bucket.scan(cursor).data == first.data
    assert after(bucket.scan(cursor), cursor).tables[T1].open == {}


def test_the_cursor_does_not_grow_with_dates_versions_or_files(tmp_path: Path) -> None:
    bucket, cursor, sizes = dated(tmp_path), Cursor.empty(), []
    for day in range(1, 29):
        bucket.checkpoint(JULY_31 + (day + 5) * PHYSICAL_DAY)
        if day % 7 == 1:
            version = JULY_31 + day
            bucket.schema("shop", "t1", version)
        bucket.files(f"{T1}/{version}/2025-08-{day:02}", *range(1, 4))
        found = bucket.scan(cursor)
        assert len(found.data) == 3
        cursor = after(found, cursor)
        sizes.append(len(cursor.to_json()))

    assert max(sizes) < sizes[0] + 250
    assert set(next(iter(cursor.tables[T1].open.values())).done) == {("2025-08-28", None)}


def test_folders_that_stay_open_cost_the_same_after_many_dates_and_versions(tmp_path: Path) -> None:
    """Idle scans take as many requests and the cursor is as long, also after a first scan of the whole bucket."""
    bucket, cursor, idle = dated(tmp_path), Cursor.empty(), []
    for day in range(1, 29):
        bucket.checkpoint(JULY_31 + (day + 5) * PHYSICAL_DAY)
        if day % 7 == 1:
            version = JULY_31 + day * PHYSICAL_DAY
            bucket.schema("shop", "t1", version)
        bucket.files(f"{T1}/{version}/2025-08-{day:02}", *range(1, 4))
        cursor = after(bucket.scan(cursor, recognises_repeats=True), cursor)
        idle.append(requests(bucket, cursor))
    at_once = Cursor.empty()
    for _ in range(3):
        at_once = after(bucket.scan(at_once, recognises_repeats=True), at_once)

    assert max(idle) <= min(idle) + 6
    assert idle[-1] == requests(bucket, at_once)
    assert len(at_once.to_json()) == len(cursor.to_json()) < 400


def requests(bucket: Bucket, cursor: Cursor) -> int:
    counting = CountingRoot(bucket.root)
    assert scan(counting, bucket.layout, cursor, recognises_repeats=True).data == ()
    return counting.requests_below(T1)


def test_a_folder_that_has_grown_stays_open_for_one_more_scan(tmp_path: Path) -> None:
    bucket = dated(tmp_path)
    bucket.checkpoint(JULY_31 + 9 * PHYSICAL_DAY)
    bucket.schema("shop", "t1", 100)
    for day in range(1, 6):
        bucket.files(f"{T1}/100/2025-08-0{day}", 1)
    grown = after(bucket.scan(recognises_repeats=True))
    quiet = after(bucket.scan(grown, recognises_repeats=True), grown)
    in_order = after(bucket.scan())

    def closed(cursor: Cursor) -> list[int]:
        return [day for day in range(1, 6) if f"2025-08-0{day}" in cursor.tables[T1].open[100].over[""]]

    assert (closed(grown), closed(quiet), closed(in_order)) == ([1, 2], [1, 2, 3, 4], [1, 2, 3, 4])


@pytest.mark.parametrize(("hours", "open_versions"), [(0, {200, 300, 400}), (23, {200, 300, 400}), (25, {400})])
def test_older_versions_stay_open_for_a_day(bucket: Bucket, hours: int, open_versions: set[int]) -> None:
    begun = {number: JULY_31 + number for number in (100, 200, 300, 400)}
    bucket.checkpoint(JULY_31 + 500)
    for version in begun.values():
        bucket.schema("shop", "t1", version)
        bucket.files(f"{T1}/{version}", 1)
    cursor = after(bucket.scan(recognises_repeats=True))
    bucket.checkpoint(JULY_31 + 500 + hours * PHYSICAL_DAY // 24)
    cursor = after(bucket.scan(cursor, recognises_repeats=True), cursor)

    assert set(cursor.tables[T1].open) == {begun[number] for number in open_versions}
    assert set(after(bucket.scan()).tables[T1].open) == {begun[400]}


def test_a_date_stays_open_until_no_clock_on_earth_can_write_there(tmp_path: Path) -> None:
    bucket = dated(tmp_path)
    bucket.schema("shop", "t1", 100)
    bucket.files(f"{T1}/100/2025-07-31", 1)
    bucket.files(f"{T1}/100/2025-08-01", 1)
    cursor = after(bucket.scan())
    [late] = bucket.files(f"{T1}/100/2025-07-31", 2)
    found = bucket.scan(cursor)
    bucket.checkpoint(JULY_31 + 3 * PHYSICAL_DAY)
    closed = after(bucket.scan(after(found, cursor)), after(found, cursor))

    assert paths(found) == [late]
    assert set(closed.tables[T1].open[100].done) == {("2025-08-01", None)}
    assert closed.tables[T1].open[100].over == {"": PastDates("2025-07-31", 1)}


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"format":3,"layout":"","tables":{}}', '{"format":1,"layout":"","tables":{"x":{}}}']
)
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        Cursor.from_json(text)
