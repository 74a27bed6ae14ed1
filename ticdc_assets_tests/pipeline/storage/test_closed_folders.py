"""What is recorded of folders that a cursor closes, and the cursor that opens them again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ticdc_assets.pipeline.storage.late_files import is_closed, last_files, newly_closed, reopened
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.paths import Layout, SourceFile
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Scan, TableScan
from ticdc_assets.tables.control.records import ClosedFolder

PAST = PastDates().with_date("2025-08-01").with_date("2025-08-02")
OPEN, CLOSED = "2025-08-03", "2025-08-02"


def table(opened: dict[int, VersionState], closed_below: int = 0, **more: Any) -> TableCursor:
    return replace(TableCursor("s", "t", {}, closed_below, open=opened), **more)


def cursor(state: TableCursor) -> Cursor:
    return Cursor("layout", {"s/t": state})


@pytest.mark.parametrize(
    ("version", "place", "closed"),
    [
        (5, "", True),  # below the first version that can get files
        (9, CLOSED, True),
        (9, OPEN, False),
        (9, f"3/{CLOSED}", False),  # of another partition
        (10, CLOSED, False),  # a version that no run has seen
    ],
)
def test_a_folder_is_closed_with_its_version_or_its_date(version: int, place: str, closed: bool):
    state = table({9: VersionState(over={"": PAST})}, closed_below=9)

    assert is_closed(state, version, place) is closed


def test_a_version_whose_schema_is_kept_is_not_closed():
    assert not is_closed(table({}, 9, schemas={5: ()}), 5, "")


# -- what is kept ------------------------------------------------------------------------------------------------------


def kept(before: Cursor, after: TableCursor, *scanned: FolderScan) -> list[tuple[int, str, str | None, int, int]]:
    scan = Scan(99, Layout(), (TableScan("s/t", "s", "t", versions={5: scanned}),) if scanned else ())
    found = list(newly_closed(before, scan, cursor(after)))
    assert {each.folder for each in found} <= {"s/t"}
    return [(each.version, each.place, each.dispatcher, each.last, each.size_bytes) for each in found]


def test_the_last_file_of_a_folder_is_kept_when_its_version_is_closed():
    before = table({5: VersionState(done={(CLOSED, None): Done(3, 30), (OPEN, "d"): Done(1, 10)}), 9: VersionState()})
    after = table({9: VersionState()}, closed_below=9)

    assert kept(cursor(before), before) == []
    assert kept(cursor(before), after) == [(5, CLOSED, None, 3, 30), (5, OPEN, "d", 1, 10)]
    assert kept(cursor(after), after) == []


def test_the_last_file_of_a_folder_is_kept_when_its_date_is_closed():
    done = {(CLOSED, None): Done(3, 30), (OPEN, None): Done(1, 10)}
    after = table({5: VersionState(done={(OPEN, None): Done(1, 10)}, over={"": PAST})})

    assert kept(cursor(table({5: VersionState(done=done)})), after) == [(5, CLOSED, None, 3, 30)]


def test_a_folder_that_a_run_finds_and_closes_is_kept_with_the_last_file_that_it_found():
    files = tuple(SourceFile(f"s/t/5/{CLOSED}/CDC{n}.csv", 10 * n, "s", "t", 5, None, CLOSED, None, n) for n in (1, 2))
    scanned = FolderScan((CLOSED, None), "", CLOSED, Done(0, 0), 2, files)
    empty = FolderScan((f"1/{CLOSED}", None), "1", CLOSED, Done(0, 0), 0)

    assert kept(Cursor.empty(), table({}, closed_below=9), scanned, empty) == [(5, CLOSED, None, 2, 20)]
    assert kept(Cursor.empty(), table({5: VersionState()}), scanned, empty) == []


def test_the_last_closing_of_a_folder_counts():
    rows = [
        ClosedFolder(datetime(2025, 8, day, tzinfo=UTC), "s/t", 5, CLOSED, dispatcher, last, 10 * last)
        for day, dispatcher, last in ((2, None, 7), (3, None, 9), (1, None, 8), (1, "d", 4))
    ]

    assert last_files(rows) == {("s/t", 5): {(CLOSED, None): Done(9, 90), (CLOSED, "d"): Done(4, 40)}}


# -- folders that are opened again -------------------------------------------------------------------------------------


def test_a_date_is_opened_behind_the_last_file_that_it_had():
    """Folders of other dates stay closed, and those that are open stay as they are."""
    over = {"": PAST, "1": PAST}
    before = table({5: VersionState(done={(OPEN, None): Done(1, 10)}, over=over), 9: VersionState()})
    known = {(CLOSED, None): Done(3, 30), (CLOSED, "d"): Done(4, 40), ("2025-08-01", None): Done(2, 20)}

    found = reopened(cursor(before), {("s/t", 5): [(CLOSED, None), (CLOSED, "e")]}, {("s/t", 5): known}, {})

    assert found.tables["s/t"].open == {
        5: VersionState(
            done={
                (OPEN, None): Done(1, 10),
                (CLOSED, None): Done(3, 30),
                (CLOSED, "e"): Done(0, 0),
                (CLOSED, "d"): Done(4, 40),
            },
            over={"": PAST.without(CLOSED), "1": PAST},
        ),
        9: VersionState(),
    }


def test_a_date_of_a_partition_without_closed_dates_is_listed():
    before = table({5: VersionState(over={"": PAST})})

    opened = reopened(cursor(before), {("s/t", 5): [(f"7/{CLOSED}", None)]}, {}, {}).tables["s/t"].open[5]

    assert opened.done == {(f"7/{CLOSED}", None): Done(0, 0)}
    assert CLOSED in opened.over[""]
    assert CLOSED not in opened.over["7"]


@pytest.mark.parametrize(
    ("name", "renamed"),
    [(("s", "old"), {5: ("s", "old"), 7: ("s", "u")}), (("s", "t"), {7: ("s", "u")}), (None, {7: ("s", "u")})],
)
def test_a_version_is_opened_with_all_folders_that_it_had(
    name: tuple[str, str] | None, renamed: dict[int, tuple[str, str]]
):
    """Its rows have the name that the table had then."""
    before = table({9: VersionState()}, 9, schemas={9: ("sum",)}, renamed={7: ("s", "u")})
    known = {(CLOSED, None): Done(3, 30), (OPEN, None): Done(1, 10)}
    names = {("s/t", 5): name} if name is not None else {}

    found = reopened(cursor(before), {("s/t", 5): [(CLOSED, "e")]}, {("s/t", 5): known}, names).tables["s/t"]

    assert found.open == {9: VersionState(), 5: VersionState(done={(CLOSED, "e"): Done(0, 0), **known})}
    assert (found.schemas, found.renamed, found.closed_below) == ({9: ("sum",), 5: ()}, renamed, 9)
    assert found.is_open(5)
