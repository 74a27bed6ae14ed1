"""The cursor forgets versions and dates that are over, and none that rows may still reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.scan import Cursor
from ticdc_assets_tests.sources.storage.bucket import JULY_31, PHYSICAL_DAY, T1, Bucket, after, dated, paths


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


def test_a_newer_version_closes_an_old_one_only_by_rows_that_were_consumed(bucket: Bucket) -> None:
    [old] = bucket.files(f"{T1}/100", 1)
    bucket.schema("shop", "t1", 200)
    [newer] = bucket.files(f"{T1}/200", 1)
    found = bucket.scan()

    cursor = Cursor.empty().advance(found, [file for file in found.data if file.path == old])
    [late] = bucket.files(f"{T1}/100", 2)

    assert paths(bucket.scan(cursor)) == [late, newer]


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
