"""What a run of a storage changefeed records of tables that are held, unknown or warned about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets.errors import NotYetError, SchemaError, TicdcAssetsError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState, commit_ranges
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.storage.plan import FilePlan, FilePlans
from ticdc_assets.pipeline.storage.record import (
    WARNINGS_MAX,
    advanced,
    held_by_files,
    holds_of,
    rewound_to_stops,
    unknown_tables,
    warnings_of,
)
from ticdc_assets.pipeline.tasks import FileReport, FileState
from ticdc_assets.protocols.storage.schema_file import SchemaFile
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor
from ticdc_assets.sources.storage.paths import Layout, SourceFile
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Problem, Scan, TableScan
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.schema.history.histories import event

T, U = ("shop", "t"), ("shop", "u")


def create(ts: int, name: str, schema: str = "shop") -> DdlEvent:
    return event(ts, name, f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY)", schema)


TWO = fold([create(10, "t"), create(10, "u"), create(10, "v", "bank")])


def file(table: str, number: int = 1, version: int = 10) -> SourceFile:
    path = f"shop/{table}/{version}/CDC{number}.csv"
    return SourceFile(path, 9, "shop", table, version, None, None, None, number)


def plan(
    *files: SourceFile, history: History = TWO, low: int = 20, selected: Collection[str] | None = None
) -> FilePlans:
    lows = {table.id: low for table in history.source_tables}
    ranges = commit_ranges(history.source_tables, lows, 50, {})
    asked = {i: found for i, found in ranges.items() if selected is None or found.source_table.name[1] in selected}
    progress = {i: Progress(low) for i in asked}
    return FilePlans(
        files, history, asked, progress, Cursor.empty(), False, lambda _schema, name: name != "not-asked-for"
    )


def problem(
    table: str, found: str = "bad", schema: str = "shop", kind: type[TicdcAssetsError] = SchemaError
) -> Problem:
    return Problem(kind("somewhere", "a file", found, Advice.RESTORE_FILE), schema, table)


def input_note(found: str) -> Note:
    return Note(NoteCode.INPUT, f"somewhere: expected a file, found {found}.", (Advice.RESTORE_FILE,))


# -- holds ------------------------------------------------------------------------------------------------------------


def test_the_first_problem_of_a_table_holds_it():
    waits = problem("T", "later", kind=NotYetError)

    assert holds_of([waits, problem("t", "bad")], TWO) == {T: Hold(TableState.WAITING, input_note("later"))}
    assert holds_of([problem("t", "bad"), waits], TWO) == {T: Hold(TableState.STOPPED, input_note("bad"))}


def test_a_problem_of_a_database_holds_the_tables_that_were_ever_in_it():
    moved = fold(
        [create(10, "t"), event(20, "w", "RENAME TABLE `shop`.`t` TO `bank`.`w`", "bank"), create(10, "x", "bank")]
    )

    assert holds_of([problem("", schema="SHOP")], TWO).keys() == {T, U}
    assert holds_of([problem("", schema="shop")], moved).keys() == {T}
    assert holds_of([problem("", schema="bank")], moved).keys() == {("bank", "w"), ("bank", "x")}


def test_a_file_that_is_not_read_holds_its_table_with_the_first_reason():
    first, second, other = file("t"), file("t", 2), file("u")
    reports = [
        FileReport(first.path, T, FileState.WAITING, problem=Note(NoteCode.INPUT, "it is short")),
        FileReport(second.path, T, FileState.STOPPED, problem=Note(NoteCode.INPUT, "it is no CSV")),
        FileReport(other.path, U, FileState.READ),
    ]

    held = held_by_files(plan(first, second, other), reports)

    assert held == {"shop.t@10": Hold(TableState.WAITING, Note(NoteCode.INPUT, "it is short"))}


# -- tables without a schema ------------------------------------------------------------------------------------------


def test_problems_of_tables_without_a_schema_are_recorded_once_where_the_table_is_selected():
    problems = [problem("new", "first"), problem("NEW", "second"), problem("t"), problem("not-asked-for"), problem("")]

    [(name, record)] = unknown_tables(plan(), problems).items()

    assert (name, record.table, record.note, record.state) == (("shop", "new"), "new", problems[0].sentence, "stopped")


def test_files_of_tables_without_a_schema_are_recorded_unless_a_problem_says_why():
    why = problem("new", "why")
    records = unknown_tables(plan(file("new"), file("more"), file("t"), file("not-asked-for")), [why])

    assert records.keys() == {("shop", "new"), ("shop", "more")}
    assert records["shop", "new"].note == why.sentence
    assert records["shop", "more"].note.startswith("shop/more/10/CDC1.csv: expected a schema of shop.more")


# -- warnings ---------------------------------------------------------------------------------------------------------


def schema_file(version: int, *, ok: bool = False, table: str = "t") -> SchemaFile:
    return SchemaFile("shop", table, version, "", 0, (), (), ok, f"schema_{version}")


def scan(*files: SchemaFile) -> Scan:
    return Scan(99, Layout(), (TableScan("shop/t", "shop", "t", schema_files=files),))


def noted(*notes: Note) -> TableRecord:
    return replace(unknown_table("shop", "t", "live", notes[0]), notes=notes)


[TABLE] = (made for made in TWO.source_tables if made.name == T)


def wrong(version: int) -> Note:
    return Note(NoteCode.SCHEMA_CHECKSUM, f"schema_{version}: not the checksum of its name")


def test_schema_files_with_a_wrong_checksum_are_warned_about():
    files = [schema_file(11), schema_file(12, ok=True), schema_file(13, table="u"), schema_file(9)]

    assert warnings_of(scan(*files), TABLE, None) == (wrong(11),)


def test_warnings_of_earlier_runs_stay_once_and_other_notes_do_not():
    old = noted(wrong(11), Note(NoteCode.INPUT, "a reason"), wrong(12))

    assert warnings_of(scan(), TABLE, old) == (wrong(11), wrong(12))
    assert warnings_of(scan(schema_file(11)), TABLE, old) == (wrong(11), wrong(12))


def test_the_newest_warnings_are_kept():
    found = warnings_of(scan(*map(schema_file, range(11, 19))), TABLE, None)

    assert found == tuple(wrong(version) for version in range(19 - WARNINGS_MAX, 19))


# -- the cursor -------------------------------------------------------------------------------------------------------


def moved_by(
    *reports: FileReport, by_arrival: bool = False, held: Collection[str] = (), table: str = "t"
) -> tuple[int | None, int | None]:
    """The last of three files of a folder that is fully consumed, and the last one that is read in part."""
    files = tuple(file(table, number) for number in (1, 2, 3))
    folder = FolderScan(("", None), "", "", Done(0, 0), 3, files)
    found = Scan(99, Layout(), (TableScan("shop/t", "shop", table, (), {10: ("sum",)}, {10: (folder,)}),))
    of_plan = replace(plan(*files), by_arrival=by_arrival)
    holds = {i: Hold(TableState.STOPPED, Note(NoteCode.INPUT, "bad")) for i in held}
    state = advanced(Cursor.empty(), found, of_plan, reports, holds).tables.get("shop/t")
    opened = state.open.get(10) if state is not None else None
    if opened is None:
        return (None, None)
    done, seen = opened.done.get(("", None)), opened.seen.get(("", None))
    return (done.number if done else None, seen.number if seen else None)


def read(number: int, *, above: int = 0, left: int = 0) -> FileReport:
    return FileReport(file("t", number).path, T, FileState.READ, 5, above, left=left)


@pytest.mark.parametrize(
    ("reports", "done", "seen"),
    [
        ([read(1), read(2), read(3)], 3, None),
        ([read(1), read(2, above=1), read(3)], 1, 3),
        ([read(1, above=1), read(2, above=1)], None, 2),
        ([read(1), read(2, left=1), read(3)], 1, None),
        ([read(1), read(2, above=1, left=1)], 1, None),
        ([read(1), read(3)], 1, None),
        ([read(1), FileReport(file("t", 2).path, T, FileState.WAITING), read(3)], 1, None),
        ([], None, None),
    ],
)
def test_the_cursor_moves_behind_files_without_rows_for_a_later_run(
    reports: list[FileReport], done: int | None, seen: int | None
):
    """A file with rows above the watermark is read again. One with rows that a held table left is as if unread."""
    assert moved_by(*reports) == (done, seen)
    assert moved_by(*reports, by_arrival=True) == (done, None)


def test_the_cursor_stays_where_a_table_is_held():
    assert moved_by(read(1), held=["shop.t@10"]) == (None, None)
    assert moved_by(read(1), held=["shop.u@10"]) == (1, None)


def test_the_cursor_passes_files_of_tables_that_are_not_selected():
    assert moved_by(table="not-asked-for") == (3, None)


def test_a_table_that_stops_asks_again_for_the_schema_files_from_its_stop_on():
    state = TableCursor(
        "shop", "t", schemas={10: ("a",), 20: ("b",), 30: ("c",)}, renamed={20: T, 10: U}, closed_below=25
    )
    cursor = Cursor("", {"shop/t": state, "shop/u": replace(state, table="u")})

    moved = rewound_to_stops(cursor, {T: 20})

    assert moved.tables["shop/u"] == cursor.tables["shop/u"]
    assert (moved.tables["shop/t"].schemas, moved.tables["shop/t"].renamed) == ({10: ("a",)}, {10: U})
    assert moved.tables["shop/t"].closed_below == 20
    assert rewound_to_stops(cursor, {T: 31}).tables["shop/t"] == state


# -- what a run does with each file ------------------------------------------------------------------------------------


def test_a_file_is_read_passed_or_unknown_by_its_table():
    found = plan(file("t"), file("u"), file("new"), file("not-asked-for"), selected={"t"})

    assert {f.table: found.file_plans[f.path] for f in found.files} == {
        "t": FilePlan.READ,
        "u": FilePlan.DONE,
        "new": FilePlan.UNKNOWN,
        "not-asked-for": FilePlan.DONE,
    }


def test_a_file_is_left_where_its_table_is_held():
    held = plan(file("t"))
    ranges = {
        i: CommitRange(n.source_table, 20, 20, Hold(TableState.STOPPED, Note(NoteCode.INPUT, "bad")))
        for i, n in held.commit_ranges.items()
    }

    assert replace(held, commit_ranges=ranges).file_plans == {file("t").path: FilePlan.LEFT}
    assert replace(held, commit_ranges=ranges).held.keys() == set(ranges)


@pytest.mark.parametrize(
    ("low", "seen", "fate"), [(29, True, FilePlan.READ), (30, True, FilePlan.DONE), (30, False, FilePlan.READ)]
)
def test_a_file_that_was_read_in_part_is_done_once_the_table_lost_its_name(low: int, seen: bool, fate: FilePlan):
    """One that no run has read may hold late rows."""
    renamed = fold([create(10, "t"), event(30, "w", "RENAME TABLE `t` TO `w`")])
    found = replace(plan(file("t"), history=renamed, low=low), seen={file("t").path} if seen else ())

    assert found.file_plans == {file("t").path: fate}


def test_no_record_has_a_table_that_begins_after_its_tso(tmp_path: Path):
    """A table takes the name, and so the folder, of a dropped one. The run that finds it reads the folder again."""
    sink = Sink(tmp_path / "bucket", 200)
    sink.table(T, 100)
    sink.file(T, 1, [sink.insert(T, 150, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.alter(T, 300, "DROP TABLE `t`")
    sink.table(T, 400)
    sink.file(T, 1, [sink.insert(T, 450, 2, "b")], version=400)
    sink.bucket.checkpoint(500)

    feed.run()

    watermarks = feed.lake.lake.control.watermarks()
    assert watermarks is not None
    records = watermarks.scan().to_arrow().to_pylist()
    recorded = {(record["tso"], table["source_table"]) for record in records for table in record["tables"]}
    assert recorded == {(200, "shop.t@100"), (500, "shop.t@100"), (500, "shop.t@400")}
