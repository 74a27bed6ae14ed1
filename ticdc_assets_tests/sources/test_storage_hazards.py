"""What a bucket may look like besides the ordinary: each case by hand, each table apart from the others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ticdc_assets.errors import ConfigError, NotYetError, SourceError
from ticdc_assets.sources.filesystem import Entry, open_root
from ticdc_assets.sources.storage import Cursor, Scan, peek, read_checkpoint, scan, tables
from ticdc_assets.sources.storage_cursor import Done, TableState, VersionState
from ticdc_assets.sources.storage_paths import Layout, joined
from ticdc_assets_tests.sources.storage_bucket import ID, NAME, NONE, Bucket, CountingRoot, paths, schema_document

DAY = Layout()
T1 = "shop/t1"
PHYSICAL_DAY = 86_400_000 << 18
JULY_31 = 459802240407830531  # a TSO of 2025-07-31


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Tables t1 and t2 of schema shop, each with version 100."""
    bucket = Bucket(tmp_path)
    bucket.schema("shop", "t1", 100)
    bucket.schema("shop", "t2", 100)
    return bucket


def dated(base: Path, separator: str = "day") -> Bucket:
    return Bucket(base, Layout(separator), JULY_31 + PHYSICAL_DAY)


def after(found: Scan, cursor: Cursor | None = None) -> Cursor:
    """The cursor when everything offered was consumed, through its text."""
    return Cursor.from_json((cursor or Cursor.empty()).advance(found, found.data).to_json())


def kinds(found: Scan) -> list[tuple[str, str]]:
    return [(problem.kind.value, problem.table) for problem in found.problems]


# the checkpoint


def test_without_metadata_there_is_nothing_to_do_yet(bucket: Bucket) -> None:
    bucket.remove("metadata")

    found = bucket.scan()

    assert read_checkpoint(bucket.root) is None
    assert (found.checkpoint_ts, found.data, found.schema_files) == (None, (), ())
    assert Cursor.empty().advance(found, ()) == Cursor.empty()


@pytest.mark.parametrize("cut", range(len(b'{"checkpoint-ts":459802240407830531}')))
def test_half_written_metadata_is_awaited(bucket: Bucket, cut: int) -> None:
    bucket.write("metadata", b'{"checkpoint-ts":459802240407830531}'[:cut])

    with pytest.raises(NotYetError):
        read_checkpoint(bucket.root)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b'"x"', b"7", b'{"checkpoint-ts":"7"}', b'{"checkpoint-ts":true}', b'{"checkpoint-ts":1.5}'],
)
def test_metadata_of_something_else_is_refused(bucket: Bucket, content: bytes) -> None:
    bucket.write("metadata", content)

    with pytest.raises(SourceError):
        read_checkpoint(bucket.root)


def test_versions_above_the_checkpoint_wait_with_their_rows(bucket: Bucket) -> None:
    later = bucket.schema("shop", "t1", 1001)
    bucket.files(f"{T1}/1001", 1)
    [file] = bucket.files(f"{T1}/100", 1)

    found = bucket.scan()
    bucket.checkpoint(1001)
    next_found = bucket.scan(after(found))

    assert paths(found) == [file]
    assert later not in {f.where for f in found.schema_files}
    assert [f.where for f in next_found.schema_files] == [later]
    assert [f.version for f in next_found.data] == [1001]


# index files and data files


def test_files_above_the_index_are_not_visible_yet(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2)
    bucket.data(f"{T1}/100", 3)

    assert paths(bucket.scan()) == files


@pytest.mark.parametrize("content", [None, b""])
def test_an_index_that_comes_before_its_file_holds_that_table_only(bucket: Bucket, content: bytes | None) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.index(f"{T1}/100", 2)
    other = bucket.files("shop/t2/100", 1)
    if content is not None:
        bucket.data(f"{T1}/100", 2, content)

    held = bucket.scan()
    cursor = after(held)
    bucket.data(f"{T1}/100", 2)
    free = bucket.scan(cursor)

    assert kinds(held) == [("waiting", "t1")]
    assert paths(held) == other
    assert [f.number for f in free.data] == [1, 2]
    assert free.problems == ()
    assert {f.table for f in free.schema_files} == {"t1"}


def test_a_file_that_comes_while_the_scan_runs_does_not_hold_the_table(bucket: Bucket) -> None:
    bucket.index(f"{T1}/100", 1)
    root = CountingRoot(bucket.root)
    measure = root.sizes
    root.sizes = lambda names: (measure(names), bucket.data(f"{T1}/100", 1))[0]  # type: ignore[method-assign]

    found = scan(root, NONE, Cursor.empty())

    assert found.problems == ()
    assert [f.number for f in found.data] == [1]


@pytest.mark.parametrize("content", [None, b""])
def test_a_gap_stops_the_table_and_says_what_to_do(bucket: Bucket, content: bytes | None) -> None:
    bucket.files(f"{T1}/100", 1, 3)
    if content is not None:
        bucket.data(f"{T1}/100", 2, content)
    other = bucket.files("shop/t2/100", 1)

    found = bucket.scan()
    [problem] = found.problems

    assert (problem.kind, problem.schema, problem.table) == ("stopped", "shop", "t1")
    assert "CDC00000000000000000002.csv" in problem.sentence
    assert "number 3" in problem.sentence
    assert "skip_files" in problem.sentence
    assert paths(found) == other


def test_skip_files_let_a_table_go_on_past_what_is_lost(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 3)
    bucket.index(f"{T1}/100", 4)

    found = bucket.scan(skip_files=["shop/t1/100/CDC*2.csv", "*/CDC*4.csv"])
    cursor = after(found)

    assert [f.number for f in found.data] == [1, 3]
    assert cursor.tables[T1].open[100].done["", None] == Done(4, 0)
    assert bucket.scan(cursor).data == ()


def test_a_gap_in_an_old_version_keeps_the_newer_one_back_too(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 3)
    bucket.schema("shop", "t1", 200)
    bucket.files(f"{T1}/200", 1)

    assert bucket.scan().data == ()


def test_a_consumed_file_that_changed_stops_the_table_and_names_both_sizes(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 2)
    cursor = after(bucket.scan())
    bucket.data(f"{T1}/100", 2, b"row and more")
    bucket.files(f"{T1}/100", 3)

    [problem] = bucket.scan(cursor).problems

    assert problem.kind == "stopped"
    assert "3 bytes" in problem.sentence
    assert "12 bytes" in problem.sentence


def test_a_last_file_that_grows_after_it_was_consumed_is_noticed_with_no_new_file(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    cursor = after(bucket.scan())
    bucket.data(f"{T1}/100", 1, b"row and more")

    assert kinds(bucket.scan(cursor)) == [("stopped", "t1")]


def test_a_file_consumed_in_part_may_grow(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 2)
    first = bucket.scan()
    cursor = Cursor.empty().advance(first, first.data[:1])
    bucket.data(f"{T1}/100", 2, b"row and more")

    second = bucket.scan(cursor)

    assert [(f.number, f.size) for f in second.data] == [(2, 12)]
    assert second.problems == ()


def test_consumed_files_may_be_cleaned_away(bucket: Bucket) -> None:
    first, second = bucket.files(f"{T1}/100", 1, 2)
    cursor = after(bucket.scan())
    bucket.remove(first)
    bucket.remove(second)
    [third] = bucket.files(f"{T1}/100", 3)

    assert paths(bucket.scan(cursor)) == [third]


def test_a_lost_index_leaves_the_files_to_be_listed(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2)
    cursor = after(bucket.scan())
    bucket.remove(f"{T1}/100/meta/CDC.index")
    third = bucket.data(f"{T1}/100", 3)

    assert paths(bucket.scan()) == [*files, third]
    assert paths(bucket.scan(cursor)) == [third]


def test_a_gap_is_seen_without_an_index_too(bucket: Bucket) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.data(f"{T1}/100", 3)

    assert kinds(bucket.scan()) == [("stopped", "t1")]


def test_an_index_that_fell_back_stops_the_table(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 2, 3)
    cursor = after(bucket.scan())
    bucket.index(f"{T1}/100", 1)

    assert kinds(bucket.scan(cursor)) == [("stopped", "t1")]


@pytest.mark.parametrize(
    "content", [b"", b"CDC", b"CDC0000000000000000000", b"CDC00000000000000000001.cs", b"\xff\xfe"]
)
def test_a_half_written_index_is_awaited(bucket: Bucket, content: bytes) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.write(f"{T1}/100/meta/CDC.index", content)

    assert kinds(bucket.scan()) == [("waiting", "t1")]


@pytest.mark.parametrize("name", ["CDC00000000000000000001.json", "CDC_node-1_00000000000000000001.csv"])
def test_an_index_of_other_files_stops_the_table(bucket: Bucket, name: str) -> None:
    bucket.write(f"{T1}/100/meta/CDC.index", f"{name}\n".encode())

    assert kinds(bucket.scan()) == [("stopped", "t1")]


def test_an_index_beyond_all_measure_ends_at_the_first_missing_file(bucket: Bucket) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.write(f"{T1}/100/meta/CDC.index", b"CDC99999999999999999999.csv\n")

    assert kinds(bucket.scan()) == [("waiting", "t1")]


@pytest.mark.parametrize("digits", [6, 8, 20])
def test_file_numbers_may_be_of_any_width(tmp_path: Path, digits: int) -> None:
    bucket = Bucket(tmp_path, Layout("none", index_digits=digits))
    bucket.schema("shop", "t1", 100)
    files = bucket.files(f"{T1}/100", 1, 2, 3, digits=digits)

    assert paths(bucket.scan()) == files


def test_a_width_that_was_changed_and_not_told_is_found_by_listing(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2, digits=6)
    cursor = after(bucket.scan())
    third = bucket.data(f"{T1}/100", 3, digits=6)
    [fourth] = bucket.files(f"{T1}/100", 4)

    assert paths(bucket.scan()) == [*files, third, fourth]
    assert paths(bucket.scan(cursor)) == [third, fourth]


@pytest.mark.parametrize("told", [6, 20])
def test_numbers_may_outgrow_their_width(tmp_path: Path, told: int) -> None:
    bucket = Bucket(tmp_path, Layout("none", index_digits=told))
    bucket.schema("shop", "t1", 100)
    folder = f"{T1}/100"
    bucket.files(folder, 999_998, digits=6)
    done = TableState("shop", "t1", {100: ("1",)}, open={100: VersionState({("", None): Done(999_998, 3)})})
    cursor = Cursor(bucket.layout.token, {T1: done})
    ninth = bucket.data(folder, 999_999, digits=6)
    [wide] = bucket.files(folder, 1_000_000, digits=6)

    assert wide.endswith("/CDC1000000.csv")
    assert paths(bucket.scan(cursor)) == [ninth, wide]


def test_one_number_under_two_names_stops_the_table(bucket: Bucket) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.data(f"{T1}/100", 1, digits=6)

    assert kinds(bucket.scan()) == [("stopped", "t1")]


def test_many_new_files_are_listed_and_few_are_not(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", *range(1, 401))
    first = CountingRoot(bucket.root)
    cursor = after(scan(first, NONE, Cursor.empty()))
    bucket.files(f"{T1}/100", *range(401, 411))
    second = CountingRoot(bucket.root)

    assert [f.number for f in scan(second, NONE, cursor).data] == list(range(401, 411))
    assert sum(first.measured.values()) == 0
    assert second.lists[f"{T1}/100"] == 0
    assert sum(n for path, n in second.measured.items() if path.startswith(T1)) == 11
    assert second.requests_below(T1) == 14


def test_dispatchers_number_their_files_apart(bucket: Bucket) -> None:
    folder = f"{T1}/100"
    files = bucket.files(folder, 1, 2, dispatcher="a-1") + bucket.files(folder, 1, dispatcher="b_2")
    plain = bucket.files(folder, 1)
    first = bucket.scan()
    cursor = after(first)
    more = bucket.files(folder, 2, dispatcher="b_2") + bucket.files(folder, 1, dispatcher="c")

    assert sorted(paths(first)) == sorted(files + plain)
    assert {(f.dispatcher, f.number) for f in first.data} == {("a-1", 1), ("a-1", 2), ("b_2", 1), (None, 1)}
    assert paths(bucket.scan(cursor)) == more
    assert bucket.scan(after(bucket.scan(cursor), cursor)).data == ()


def test_a_dispatcher_that_lost_its_index_is_listed(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, dispatcher="a")
    bucket.files(f"{T1}/100", 1, dispatcher="b")
    cursor = after(bucket.scan())
    bucket.remove(f"{T1}/100/meta/CDC_a.index")
    lost = bucket.data(f"{T1}/100", 2, dispatcher="a")

    assert paths(bucket.scan(cursor)) == [lost]


# schema files


def test_rows_without_a_schema_file_are_awaited(bucket: Bucket) -> None:
    schema = bucket.schema("shop", "late", 300)
    [file] = bucket.files("shop/late/300", 1)
    content = (bucket.base / schema).read_bytes()
    bucket.remove(schema)
    bucket.files(f"{T1}/100", 1)

    held = bucket.scan()
    bucket.write(schema, content)

    assert kinds(held) == [("waiting", "late")]
    assert {f.table for f in held.data} == {"t1"}
    assert paths(bucket.scan(after(held))) == [file]
    assert bucket.scan(skip_files=["shop/late/300/*"]).problems == ()


def test_a_version_without_a_schema_file_beside_others_is_awaited(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.files(f"{T1}/150", 1)

    found = bucket.scan()

    assert kinds(found) == [("waiting", "t1")]
    assert found.data == ()


def test_a_truncated_schema_file_is_awaited_and_holds_its_table_only(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    path = bucket.schema("shop", "t2", 200)
    whole = (bucket.base / path).read_bytes()
    bucket.write(path, whole[:-40])

    held = bucket.scan()
    bucket.write(path, whole)
    free = bucket.scan(after(held))

    assert kinds(held) == [("waiting", "t2")]
    assert {f.table for f in held.data} == {"t1"}
    assert [f.version for f in free.schema_files] == [100, 200]


def test_an_unknown_column_type_stops_its_table_and_names_the_column(bucket: Bucket) -> None:
    bucket.schema("shop", "t2", 200, [ID, {"ColumnName": "where", "ColumnType": "GEOMETRY"}])
    bucket.files(f"{T1}/100", 1)

    found = bucket.scan()
    [problem] = found.problems

    assert (problem.kind, problem.table) == ("stopped", "t2")
    assert "'where'" in problem.sentence
    assert "GEOMETRY" in problem.sentence
    assert len(found.data) == 1


def test_a_checksum_that_differs_is_only_noted(bucket: Bucket) -> None:
    path = bucket.write("shop/t3/meta/schema_100_0000000007.json", schema_document("shop", "t3", 100, [ID]))
    [file] = bucket.files("shop/t3/100", 1)

    found = bucket.scan()

    assert paths(found) == [file]
    assert [f.checksum_ok for f in found.schema_files if f.table == "t3"] == [False]
    assert any(path in note for note in found.notes)


def test_a_schema_file_in_another_tables_folder_stops_that_folder(bucket: Bucket) -> None:
    bucket.schema("shop", "other", 200, folder=T1)
    bucket.files(f"{T1}/100", 1)

    found = bucket.scan()

    assert kinds(found) == [("stopped", "t1")]
    assert found.data == ()


def test_two_tables_whose_slashes_share_a_folder_are_refused(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path)
    bucket.schema("a", "b/c", 100)
    cursor = after(bucket.scan())
    bucket.schema("a/b", "c", 200)

    assert [problem.kind for problem in bucket.scan(cursor).problems] == ["stopped"]
    assert [problem.kind for problem in bucket.scan().problems] == ["stopped"]


def test_a_held_table_gets_its_schema_files_and_files_again(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1)
    bucket.files("shop/t2/100", 1)
    first = bucket.scan()

    cursor = Cursor.empty().advance(first, first.data, {("shop", "t1")})
    second = bucket.scan(cursor)

    assert {f.table for f in second.schema_files} == {"t1"}
    assert {f.table for f in second.data} == {"t1"}


def test_statements_of_databases_come_with_no_table(bucket: Bucket) -> None:
    path = bucket.schema("shop", "", 90, None, "CREATE DATABASE `shop`", 1)

    found = bucket.scan()
    cursor = after(found)

    assert [(f.where, f.to_ddl_event().after) for f in found.schema_files if not f.table] == [(path, None)]
    assert bucket.scan(cursor).schema_files == ()


# versions and dates that are over


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
    assert closed.tables[T1].open[100].over == {"": "2025-07-31"}


# the levels of a path


@pytest.mark.parametrize(
    ("separator", "dates"),
    [("year", ["2025", "2026"]), ("month", ["2025-07", "2025-08"]), ("day", ["2025-07-31", "2025-08-01"])],
)
@pytest.mark.parametrize("partitions", [[], ["115", "116"], ["1994", "2024"]])
def test_every_combination_of_partitions_and_dates_is_told_apart(
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


def test_partitions_without_dates_are_told_from_none(bucket: Bucket) -> None:
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


def test_what_is_not_ticdcs_is_noted_and_disturbs_nothing(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1)
    bucket.data(f"{T1}/100", 2)
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


# the old layout

OLD_EXAMPLE = b"""{
"Table":"test",
"Schema":"tbl_1",
"Version": 1,
"TableVersion":437752935075545091,
"Query": "create table tbl_1 (Id int primary key, LastName char(20), HireDate datetime, OfficeLocation Blob(20))",
"TableColumns":[
{"ColumnName":"Id","ColumnType":"INT","ColumnNullable":"false","ColumnIsPk":"true"},
{"ColumnName":"LastName","ColumnType":"CHAR","ColumnLength":"20"},
{"ColumnName":"FirstName","ColumnType":"VARCHAR","ColumnLength":"30"},
{"ColumnName":"HireDate","ColumnType":"DATETIME"},
{"ColumnName":"OfficeLocation","ColumnType":"BLOB","ColumnLength":"20"}
],
"TableColumnsTotal":"5"
}"""


def old_bucket(base: Path) -> Bucket:
    bucket = Bucket(base, Layout("none", "json"), 437752935075546092)
    bucket.write("test/tbl_1/437752935075545091/schema.json", OLD_EXAMPLE)
    bucket.data("test/tbl_1/437752935075545091", 1, digits=6)
    return bucket


def test_the_documents_own_example_is_read(tmp_path: Path) -> None:
    found = old_bucket(tmp_path).scan()
    [file] = found.schema_files

    assert (file.schema, file.table, file.version, file.key) == ("test", "tbl_1", 437752935075545091, ("Id",))
    assert [(c.name, c.type.kind, c.type.length) for c in file.columns][:3] == [
        ("Id", "INT", None),
        ("LastName", "CHAR", 20),
        ("FirstName", "VARCHAR", 30),
    ]
    assert [(f.path, f.schema, f.table) for f in found.data] == [
        ("test/tbl_1/437752935075545091/CDC000001.json", "test", "tbl_1")
    ]
    assert found.problems == ()
    assert found.notes == ()


def test_the_old_layout_goes_on_from_version_to_version(tmp_path: Path) -> None:
    bucket = old_bucket(tmp_path)
    cursor = after(bucket.scan())
    second = bucket.data("test/tbl_1/437752935075545091", 2, digits=6)
    bucket.write("test/tbl_1/437752935075545091/CDC.index", b"CDC000002.json\n")
    newer = OLD_EXAMPLE.replace(b"437752935075545091", b"437752935075546092")
    bucket.write("test/tbl_1/437752935075546092/schema.json", newer)
    third = bucket.data("test/tbl_1/437752935075546092", 1, digits=6)

    found = bucket.scan(cursor)
    done = after(found, cursor)

    assert paths(found) == [second, third]
    assert [f.version for f in found.schema_files] == [437752935075546092]
    assert set(done.tables["test/tbl_1"].open) == {437752935075546092}
    assert (bucket.scan(done).data, bucket.scan(done).schema_files) == ((), ())
    assert tables(bucket.root, bucket.layout) == [("test", "tbl_1")]
    assert peek(bucket.root, bucket.layout)[1] != peek(old_bucket(tmp_path / "other").root, bucket.layout)[1]


def test_a_cluster_upgraded_from_the_old_layout_has_both(tmp_path: Path) -> None:
    bucket = old_bucket(tmp_path)
    bucket.schema("test", "tbl_1", 437752935075546000)
    [file] = bucket.files("test/tbl_1/437752935075546000", 1)

    found = bucket.scan()

    assert [f.version for f in found.schema_files] == [437752935075545091, 437752935075546000]
    assert paths(found)[-1] == file
    assert len(found.data) == 2


def test_the_old_layout_with_dates(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path, Layout("day", "json"), 437752935075546092)
    bucket.write("test/tbl_1/437752935075545091/schema.json", OLD_EXAMPLE)
    file = bucket.data("test/tbl_1/437752935075545091/2022-11-30", 1, digits=6)

    assert paths(bucket.scan()) == [file]


# the cursor and the layout


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"format":2,"layout":"","tables":{}}', '{"format":1,"layout":"","tables":{"x":{}}}']
)
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        Cursor.from_json(text)


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
    assert joined(*names) == folder


# any history


class Writer:
    """A TiCDC that writes at random: tables, versions, dates, partitions, restarts, with pauses anywhere in between."""

    def __init__(self, base: Path, seed: int) -> None:
        self.random = random.Random(seed)
        separator = self.random.choice(["none", "day", "month", "year"])
        self.layout = Layout(separator, self.random.choice(["csv", "json"]), index_digits=self.random.choice([6, 20]))
        self.bucket = Bucket(base, self.layout, JULY_31)
        self.now = JULY_31
        self.tables = [("shop", "t"), ("shop", "meta"), ("2024", "a/b")]
        self.version: dict[tuple[str, str], int] = {}
        self.numbers: dict[str, int] = {}
        self.written: list[str] = []
        self.schemas: list[str] = []
        self.unfinished: tuple[str, int] | None = None

    def step(self) -> None:
        self.now += self.random.choice([1, 1, PHYSICAL_DAY // 24, PHYSICAL_DAY // 2])
        table = self.random.choice(self.tables)
        if table not in self.version or self.random.random() < 0.1:
            self.version[table] = self.now
            columns = [ID, NAME] if self.random.random() < 0.5 else [ID]
            self.schemas.append(self.bucket.schema(*table, self.now, columns, f"ALTER {self.now}"))
        else:
            self.file(table)
        if self.random.random() < 0.3:
            self.bucket.checkpoint(self.now)

    def file(self, table: tuple[str, str]) -> None:
        parts = ["/".join(table), str(self.version[table])]
        parts += [self.random.choice(["115", "2024"])] if table[1] == "meta" else []
        parts += [self.date()] if self.layout.dated else []
        folder = "/".join(parts)
        number = self.numbers.get(folder, 0) + 1
        self.numbers[folder] = number
        self.bucket.index(folder, number)
        self.unfinished = (folder, number)

    def finish(self) -> None:
        if self.unfinished:
            folder, number = self.unfinished
            self.written.append(self.bucket.data(folder, number, b"x" * self.random.randint(1, 9)))
            self.unfinished = None

    def date(self) -> str:
        from ticdc_assets.sources.storage_paths import DATE_FORMS
        from ticdc_assets.tso import to_datetime

        clock = self.now + self.random.choice([-12, 0, 14]) * PHYSICAL_DAY // 24
        return to_datetime(clock).strftime(DATE_FORMS[self.layout.date_separator])


@pytest.mark.parametrize("seed", range(60))
def test_any_history_gives_every_file_and_schema_file_exactly_once(tmp_path: Path, seed: int) -> None:
    writer, cursor, chance = Writer(tmp_path, seed), Cursor.empty(), random.Random(-seed)
    consumed: list[str] = []
    schemas: list[str] = []
    for _ in range(60):
        writer.step()
        if chance.random() < 0.3:
            cursor = look(writer, cursor, consumed, schemas, chance)
        writer.finish()
    writer.now += 1
    writer.bucket.checkpoint(writer.now)
    for _ in range(2):
        cursor = look(writer, cursor, consumed, schemas, None)

    assert sorted(consumed) == sorted(writer.written)
    assert sorted(schemas) == sorted(writer.schemas)
    assert look(writer, cursor, consumed, schemas, None) == cursor
    assert sorted(consumed) == sorted(writer.written)


def look(
    writer: Writer, cursor: Cursor, consumed: list[str], schemas: list[str], chance: random.Random | None
) -> Cursor:
    """One run: sometimes it consumes only the first files of each folder, sometimes it holds a table."""
    found = scan(open_root(str(writer.bucket.base)), writer.layout, cursor)
    assert all(problem.kind == "waiting" for problem in found.problems)
    held = {writer.tables[0]} if chance and chance.random() < 0.2 else set()
    few = chance.randint(0, 5) if chance and chance.random() < 0.3 else 1000
    fully = [f for f in found.data if f.number <= few]
    consumed += [f.path for f in fully if (f.schema, f.table) not in held]
    free = [t for t in found.tables if not t.problems and (t.schema, t.table) not in held]
    schemas += [file.where for table in free for file in table.schema_files]
    return Cursor.from_json(cursor.advance(found, fully, held).to_json())
