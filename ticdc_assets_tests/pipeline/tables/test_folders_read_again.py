"""Which folders of a bucket are read again for a table that is selected only now, and from which version on."""

from __future__ import annotations

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, TableState, with_holds
from ticdc_assets.pipeline.late_tables import (
    LateTables,
    before_late_schemas,
    is_passed,
    late_tables,
    messages_gone,
    not_followed_yet,
    obstacle_by_arrival,
    without_folders,
)
from ticdc_assets.protocols.storage.schema_file import SchemaFile
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan_result import Done, Scan, TableScan
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tso import now

ADVICE = Advice.UNKNOWN_FILES_APART
READ = VersionState(done={("", None): Done(1, 100)})


def table(*periods: tuple[str, int, int | None], dropped: int | None = None) -> SourceTable:
    """A source table of the schema `s` with these names: each after one TSO, up to another."""
    names = tuple(NamePeriod("s", name, after, until) for name, after, until in periods)
    return SourceTable(f"s.{periods[0][0]}@{periods[0][1]}", names, (), dropped)


def folder(name: str, *opened: int, closed_below: int = 0) -> TableCursor:
    return TableCursor("s", name, {}, closed_below, open=dict.fromkeys(opened, READ))


def late(
    source_table: SourceTable, state: TableCursor | None, *, advice: Advice | None = None, whole: bool = False
) -> LateTables:
    cursor = Cursor("layout", {"s/t": state} if state is not None else {})
    return late_tables(cursor, (), [source_table], lambda _: advice, whole=whole)


@pytest.mark.parametrize(
    ("state", "has_passed"),
    [
        (folder("t"), False),
        (folder("t", closed_below=100), False),
        (folder("t", closed_below=101), True),
        (folder("t", 99), False),
        (folder("t", 100), True),
        (folder("t", 199), True),
        (folder("t", 200), False),
    ],
)
def test_an_obstacle_holds_a_table_of_whose_name_files_were_passed(state: TableCursor, has_passed: bool):
    """A table has its name after one TSO up to another: versions in between may have its rows."""
    source_table = table(("t", 100, 200), ("u", 200, None))

    free, obstructed = late(source_table, state), late(source_table, state, advice=ADVICE)

    assert (free.again, free.held) == ({source_table.id}, {})
    assert obstructed.again == (frozenset() if has_passed else {source_table.id})
    assert [hold.note.advice for hold in obstructed.held.values()] == ([(ADVICE,)] if has_passed else [])


def test_a_name_that_a_table_still_has_has_no_last_version():
    source_table = table(("t", 100, None))

    assert list(late(source_table, folder("t", 900), advice=ADVICE).held) == [source_table.id]


def test_a_folder_is_read_again_from_the_version_at_which_its_table_took_its_name():
    state = TableCursor(
        "s",
        "t",
        {50: ("a",), 100: ("b",), 150: ("c",)},
        closed_below=150,
        dropped=150,
        open={50: READ, 100: READ, 150: READ},
        renamed={50: ("s", "v"), 100: ("s", "w")},
        unlisted_below=120,
    )

    found = late(table(("t", 100, None)), state)
    again = late(table(("t", 100, None)), state, whole=True)

    assert found.cursor.tables["s/t"] == TableCursor(
        "s", "t", {50: ("a",)}, 100, None, {50: READ}, {50: ("s", "v")}, unlisted_below=100
    )
    assert again.cursor.tables["s/t"] == TableCursor("s", "t", {})


@pytest.mark.parametrize(("dropped", "kept"), [(99, 99), (100, None), (None, None)])
def test_a_folder_that_is_read_again_before_its_drop_is_not_dropped(dropped: int | None, kept: int | None):
    found = late(table(("t", 100, None)), TableCursor("s", "t", {}, 50, dropped, unlisted_below=20))

    moved = found.cursor.tables["s/t"]
    assert (moved.dropped, moved.closed_below, moved.unlisted_below) == (kept, 50, 20)


def test_a_table_without_a_folder_is_held_and_a_dropped_one_holds_nothing_back():
    live, gone = table(("t", 1, None)), table(("u", 1, None), dropped=9)
    found = late_tables(Cursor.empty(), (), [live, gone], lambda _: None)

    assert {i: hold.state for i, hold in found.held.items()} == {
        live.id: TableState.STOPPED,
        gone.id: TableState.DROPPED,
    }
    assert all("expected a folder of s." in hold.note.detail for hold in found.held.values())
    assert found.again == frozenset()


def test_a_folder_is_known_by_each_name_of_its_table_in_any_case():
    renamed = table(("Old", 1, 5), ("t", 5, None))
    named = TableCursor("s", "new", {}, renamed={3: ("S", "OLD")})

    assert without_folders([renamed], [TableScan("s/t", "S", "T")]) == {}
    assert without_folders([renamed], [TableScan("s/old", "s", "OLD")]) == {}
    assert list(without_folders([renamed], [TableScan("s/v", "s", "v")])) == [renamed.id]
    assert late(renamed, named).again == {renamed.id}
    assert late(renamed, folder("v")).again == frozenset()


def test_a_folder_that_is_only_found_now_is_not_read_again():
    source_table = table(("t", 1, None))
    found = late_tables(Cursor.empty(), [TableScan("s/t", "s", "t")], [source_table], lambda _: ADVICE)

    assert found == LateTables(Cursor.empty())


# -- schema files that arrive late -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("versions", "closed_below"), [((80, 60, 120), 60), ((99,), 99), ((100,), 100), ((), 100)])
def test_finished_versions_are_read_again_from_the_first_schema_file_that_came_late(
    versions: tuple[int, ...], closed_below: int
):
    files = tuple(SchemaFile("s", "t", version, "", 0, (), (), True, "") for version in versions)
    scan = Scan(1000, Layout(), (TableScan("s/t", "s", "t", files), TableScan("s/new", "s", "new", files)))
    cursor = Cursor("layout", {"s/t": folder("t", closed_below=100)})

    moved = before_late_schemas(cursor, scan).tables

    assert {name: state.closed_below for name, state in moved.items()} == {"s/t": closed_below}


# -- without commit_ts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "obstructs"),
    [
        (table(("t", 300, None)), True),
        (table(("T", 200, None)), True),
        (table(("t", 199, None)), False),
        (table(("u", 300, None)), False),
    ],
)
def test_without_commit_ts_a_table_that_took_the_name_later_is_an_obstacle(other: SourceTable, obstructs: bool):
    own = table(("t", 100, 200), ("v", 200, None))

    advice = obstacle_by_arrival(own, [other], has_rows=False)

    assert advice is (Advice.MIXED_FILES_APART if obstructs else None)
    assert obstacle_by_arrival(own, [], has_rows=True) is Advice.UNKNOWN_FILES_APART


def test_a_name_that_the_table_still_has_was_not_taken():
    assert obstacle_by_arrival(table(("t", 100, None)), [table(("t", 300, None))], has_rows=False) is None


# -- tables that no run has followed -----------------------------------------------------------------------------------


def test_a_table_is_followed_from_the_record_that_has_it_unless_its_records_were_passed():
    tables = {name: CommitRange(table((name, 1, None)), 0, 9) for name in ("read", "passed", "new")}
    recorded = {"read": NoteCode.INPUT, "passed": NoteCode.PASSED_UNREAD}
    rows = tuple(
        TableRecord(
            tables[name].source_table.id,
            "s",
            name,
            "live",
            (Note(code, "a reason"),),
            [],
            9,
            None,
            None,
            None,
            None,
            None,
        )
        for name, code in recorded.items()
    )

    assert not_followed_yet(None, tables) == []
    assert not_followed_yet(WatermarkRecord(now(), "run", 9, True, "", rows), tables) == [
        tables["passed"].source_table,
        tables["new"].source_table,
    ]


def test_a_held_table_stays_where_it_is_and_the_others_advance():
    held, free = table(("t", 1, None)), table(("u", 1, None))
    reasons = late_tables(Cursor.empty(), (), [held], lambda _: None).held

    found = with_holds({t.id: CommitRange(t, 3, 9) for t in (held, free)}, reasons)

    assert {i: (each.low, each.high, is_passed(each)) for i, each in found.items()} == {
        held.id: (3, 3, True),
        free.id: (3, 9, False),
    }


@pytest.mark.parametrize(
    ("first", "found"), [(None, "found none"), (0, "found those from 0 on"), (9, "found those from 9 on")]
)
def test_a_table_whose_messages_are_gone_is_held_and_a_dropped_one_holds_nothing_back(first: int | None, found: str):
    hold = messages_gone(table(("t", 100, None)), ("feed", 1), 5, first)

    assert (hold.state, hold.code) == (TableState.STOPPED, NoteCode.PASSED_UNREAD)
    assert "expected the messages of feed[1] from offset 5 on, since `tables` selects s.t only now" in hold.note.detail
    assert found in hold.note.detail
    assert messages_gone(table(("t", 100, 200), dropped=200), ("feed", 1), 5, first).state is TableState.DROPPED
