"""Index files and data files: gaps, lost and half-written indexes, files that change, numbers of any width."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.sources.storage.cursor import TableCursor, VersionState
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor, scan
from ticdc_assets.sources.storage.scan_result import Done
from ticdc_assets_tests.sources.storage.bucket import NONE, T1, Bucket, CountingRoot, after, kinds, paths


def test_files_right_behind_the_one_that_the_index_names_are_offered(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2)
    files += [bucket.data(f"{T1}/100", 3), bucket.data(f"{T1}/100", 4)]
    bucket.data(f"{T1}/100", 5, b"")

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


def test_an_index_that_fell_back_stops_the_table_where_repeats_cannot_be_recognised(bucket: Bucket) -> None:
    bucket.files(f"{T1}/100", 1, 2, 3)
    cursor = after(bucket.scan())
    bucket.index(f"{T1}/100", 1)

    assert kinds(bucket.scan(cursor)) == [("stopped", "t1")]


def test_with_commit_ts_all_files_are_read_again_whose_index_fell_back(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2, 3)
    cursor = after(bucket.scan(recognises_repeats=True))
    bucket.index(f"{T1}/100", 2)
    bucket.remove(files[2])

    found = bucket.scan(cursor, recognises_repeats=True)

    assert (paths(found), found.seen) == (files[:2], frozenset())
    bucket.files(f"{T1}/100", 3)
    assert paths(bucket.scan(after(found, cursor), recognises_repeats=True)) == files[2:]


@pytest.mark.parametrize(("size", "again"), [(2, [1, 2, 3]), (4, [3])])
def test_the_files_before_the_last_one_are_read_again_if_it_shrank(bucket: Bucket, size: int, again: list[int]) -> None:
    bucket.files(f"{T1}/100", 1, 2, 3)
    cursor = after(bucket.scan(recognises_repeats=True))
    bucket.data(f"{T1}/100", 3, b"r" * size)

    assert [file.number for file in bucket.scan(cursor, recognises_repeats=True).data] == again


def test_an_index_that_is_skipped_leaves_the_files_of_its_dispatcher_to_be_listed(bucket: Bucket) -> None:
    sound = bucket.files(f"{T1}/100", 1, 2, dispatcher="a")
    bucket.index(f"{T1}/100", 7, dispatcher="b")
    listed = bucket.data(f"{T1}/100", 1, dispatcher="b")

    assert kinds(bucket.scan()) == [("waiting", "t1")]
    assert sorted(paths(bucket.scan(skip_files=["*/CDC_b.index"]))) == sorted([*sound, listed])


@pytest.mark.parametrize("skipped", ["CDC000002.csv", "CDC00000000000000000002.csv"])
def test_a_file_is_read_although_another_of_its_number_is_skipped(bucket: Bucket, skipped: str) -> None:
    one, two = bucket.data(f"{T1}/100", 1), bucket.data(f"{T1}/100", 2)
    other = bucket.data(f"{T1}/100", 2, digits=6)

    assert kinds(bucket.scan()) == [("stopped", "t1")]
    kept = two if other.endswith(skipped) else other
    assert paths(bucket.scan(skip_files=[f"*/{skipped}"])) == [one, kept]


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


def test_an_index_with_a_huge_number_ends_at_the_first_missing_file(bucket: Bucket) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.write(f"{T1}/100/meta/CDC.index", b"CDC99999999999999999999.csv\n")

    assert kinds(bucket.scan()) == [("waiting", "t1")]


@pytest.mark.parametrize("digits", [6, 8, 20])
def test_file_numbers_may_be_of_any_width(tmp_path: Path, digits: int) -> None:
    bucket = Bucket(tmp_path, Layout("none", index_digits=digits))
    bucket.schema("shop", "t1", 100)
    files = bucket.files(f"{T1}/100", 1, 2, 3, digits=digits)

    assert paths(bucket.scan()) == files


def test_a_width_that_changed_and_is_not_configured_is_found_by_listing(bucket: Bucket) -> None:
    files = bucket.files(f"{T1}/100", 1, 2, digits=6)
    cursor = after(bucket.scan())
    third = bucket.data(f"{T1}/100", 3, digits=6)
    [fourth] = bucket.files(f"{T1}/100", 4)

    assert paths(bucket.scan()) == [*files, third, fourth]
    assert paths(bucket.scan(cursor)) == [third, fourth]


@pytest.mark.parametrize("digits", [6, 20])
def test_numbers_may_outgrow_their_width(tmp_path: Path, digits: int) -> None:
    bucket = Bucket(tmp_path, Layout("none", index_digits=digits))
    bucket.schema("shop", "t1", 100)
    folder = f"{T1}/100"
    bucket.files(folder, 999_998, digits=6)
    done = TableCursor("shop", "t1", {100: ("1",)}, open={100: VersionState({("", None): Done(999_998, 3)})})
    cursor = Cursor(bucket.layout.token, {T1: done})
    ninth = bucket.data(folder, 999_999, digits=6)
    [wide] = bucket.files(folder, 1_000_000, digits=6)

    assert wide.endswith("/CDC1000000.csv")
    assert paths(bucket.scan(cursor)) == [ninth, wide]


def test_one_number_under_two_names_stops_the_table(bucket: Bucket) -> None:
    bucket.data(f"{T1}/100", 1)
    bucket.data(f"{T1}/100", 1, digits=6)

    assert kinds(bucket.scan()) == [("stopped", "t1")]


@pytest.mark.parametrize(("consumed", "lists"), [(400, 1), (1000, 0)])
def test_many_new_files_are_listed_and_few_are_not(bucket: Bucket, consumed: int, lists: int) -> None:
    bucket.files(f"{T1}/100", *range(1, consumed + 1))
    first = CountingRoot(bucket.root)
    cursor = after(scan(first, NONE, Cursor.empty()))
    bucket.files(f"{T1}/100", *range(consumed + 1, consumed + 11))
    second = CountingRoot(bucket.root)

    assert [f.number for f in scan(second, NONE, cursor).data] == list(range(consumed + 1, consumed + 11))
    assert sum(first.measured.values()) == 1
    # a folder that one request lists is looked at for folders of another layout, a larger one is not
    assert second.lists[f"{T1}/100"] == lists
    assert sum(n for path, n in second.measured.items() if path.startswith(T1)) == 12
    assert second.requests_below(T1) == 16 + lists


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
