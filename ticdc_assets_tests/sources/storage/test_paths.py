"""The levels of a path are distinguished: partitions, dates and names that look like either."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.sources.storage.paths import Layout, go_path_join
from ticdc_assets.sources.storage.scan import Cursor, peek, scan, tables
from ticdc_assets_tests.sources.storage.bucket import (
    JULY_31,
    NONE,
    PHYSICAL_DAY,
    T1,
    Bucket,
    after,
    dated,
    kinds,
    paths,
)

DAY = Layout()


@pytest.mark.parametrize(
    ("separator", "dates"),
    [("year", ["2025", "2026"]), ("month", ["2025-07", "2025-08"]), ("day", ["2025-07-31", "2025-08-01"])],
)
@pytest.mark.parametrize("partitions", [[], ["115", "116"], ["1994", "2024"]])
def test_every_combination_of_partitions_and_dates_is_recognised(
    tmp_path: Path, separator: str, dates: list[str], partitions: list[str]
) -> None:
    bucket = dated(tmp_path, separator)
    bucket.schema("shop", "t1", 100)
    folders = [
        "/".join(filter(None, (T1, "100", partition, date))) for partition in partitions or [""] for date in dates
    ]
    files = [path for folder in folders for path in bucket.files(folder, 1, 2)]

    found = bucket.scan()
    cursor = after(found)
    more = [path for folder in folders for path in bucket.files(folder, 3)]

    assert paths(found) == files
    assert {f.date for f in found.data} == set(dates)
    assert {f.partition_id for f in found.data} == ({int(p) for p in partitions} or {None})
    assert paths(bucket.scan(cursor)) == more


def test_paths_with_partitions_are_distinguished_from_paths_without(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100/115", 1) + bucket.files(f"{T1}/100/1116", 1)
    plain = bucket.files("shop/t2/100", 1)
    cursor = after(bucket.scan())
    more = bucket.files(f"{T1}/100/2117", 1)

    assert sorted(paths(bucket.scan())) == sorted(files + more + plain)
    assert [f.partition_id for f in bucket.scan(cursor).data] == [2117]


@pytest.mark.parametrize(
    ("layout", "folder"),
    [(NONE, "2025-07-31"), (DAY, ""), (DAY, "2025-07"), (DAY, "2025"), (Layout("month"), "2025-07-31")],
)
def test_files_of_another_date_separator_stop_the_table_and_are_not_passed_over(
    tmp_path: Path, layout: Layout, folder: str
) -> None:
    bucket = Bucket(tmp_path, layout, JULY_31 + PHYSICAL_DAY)
    bucket.schema("shop", "t1", 100)
    bucket.files(f"{T1}/100/{folder}".rstrip("/"), 1)

    found = bucket.scan()

    assert kinds(found) == [("stopped", "t1")]
    assert "date-separator" in found.problems[0].sentence


def test_a_partition_separator_switched_on_later_is_seen_once_the_configuration_says_so(bucket: Bucket) -> None:
    whole = Layout("none", partition_separator=False)
    bucket.files(f"{T1}/100", 1)
    cursor = after(scan(bucket.root, whole, Cursor.empty()))
    [file] = bucket.files(f"{T1}/100/115", 1)

    assert paths(bucket.scan(cursor)) == [file]


WEIRD = [
    "meta",
    "2024",
    "459802238374641668",
    "a b",
    "a.b",
    "50%25",
    "naïve",
    "q'u\"o",
    "[x]*?",
    "數據",
    "a/b",
    "a/meta",
    "a\\b",
    "\u3000",
]


@pytest.mark.parametrize("schema", ["meta", "shop", "2024", "a b", "a/b"])
def test_names_that_look_like_other_levels_keep_their_rows_apart(tmp_path: Path, schema: str) -> None:
    bucket = Bucket(tmp_path)
    bucket.schema(schema, "", 50, None, "CREATE DATABASE x", 1)
    expected = {}
    for number, table in enumerate(WEIRD):
        bucket.schema(schema, table, 100 + number)
        for path in bucket.files(f"{schema}/{table}/{100 + number}", 1, 2):
            expected[path] = (schema, table, 100 + number)

    found = bucket.scan()

    assert {f.path: (f.schema, f.table, f.version) for f in found.data} == expected
    assert found.problems == ()
    assert found.notes == ()
    assert set(tables(bucket.root)) == {(schema, table) for table in WEIRD}
    assert bucket.scan(after(found)).data == ()


def test_a_table_below_another_ones_folder_is_found_when_it_comes_later(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    cursor = after(bucket.scan())
    bucket.schema("shop", "t1/x", 300)
    bucket.schema("shop", "t1/555", 300)
    files = bucket.files("shop/t1/x/300", 1) + bucket.files("shop/t1/555/300", 1)

    found = bucket.scan(cursor)

    assert sorted(paths(found)) == sorted(files)
    assert {f.table for f in found.data} == {"t1/x", "t1/555"}


def test_tables_by_id_take_their_names_from_the_schema_files(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path, Layout("none", table_id_as_path=True))
    bucket.schema("shop", "old", 100, folder="104")
    bucket.files("104/100", 1)
    bucket.schema("shop", "new", 200, folder="104")
    bucket.files("104/200", 1)
    first = bucket.scan()
    cursor = Cursor.from_json(Cursor.empty().advance(first, first.data[1:]).to_json())

    assert [(f.table, f.version) for f in first.data] == [("old", 100), ("new", 200)]
    assert [(f.table, f.version) for f in bucket.scan(cursor).data] == [("old", 100)]
    assert peek(bucket.root, bucket.layout)[0] == 1000
    assert tables(bucket.root, bucket.layout) == [("shop", "new")]


@pytest.mark.parametrize("wrong", [{"date_separator": "week"}, {"extension": "avro"}, {"index_digits": 5}])
def test_a_layout_that_ticdc_would_not_take_is_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError):
        Layout(**wrong)


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (("a", "b"), "a/b"), (("a", "b/c"), "a/b/c"), (("a", "../b"), "b"), (("a", ".."), ""), (("a", "."), "a"),
        (("a", "b//c"), "a/b/c"), (("/a", "b/"), "a/b"), (("a", ""), "a"), (("..", "a"), "a"),
    ],
)  # fmt: skip
def test_names_join_as_in_go(names: tuple[str, str], folder: str) -> None:
    assert go_path_join(*names) == folder
