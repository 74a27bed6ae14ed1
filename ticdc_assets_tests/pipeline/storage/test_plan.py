"""Which scanned files a run reads, leaves for a later run, or passes unread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ticdc_assets.changes.typed import next_position
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState, commit_ranges
from ticdc_assets.pipeline.storage.plan import FilePlan, FilePlans, series_of
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import Stop
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.sources.storage.paths import SourceFile
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.schema.history.histories import event

HISTORY = fold([
    event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
    event(20, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
])  # fmt: skip
T, U = HISTORY.source_tables
HELD = Hold(TableState.WAITING, Note(NoteCode.INPUT, "for its schema"))
GONE = Hold(TableState.DROPPED, Note(NoteCode.STATEMENT, "a statement cannot be read"))


def file(number: int, table: str = "t", version: int = 10) -> SourceFile:
    return SourceFile(f"shop/{table}/{version}/{number}", 9, "shop", table, version, None, None, None, number)


def plan(*files: SourceFile, **given: Any) -> FilePlans:
    """The plan of two tables that advance from 50 to 60."""
    known: dict[str, Any] = {
        "files": files,
        "history": HISTORY,
        "commit_ranges": {table.id: CommitRange(table, 50, 60) for table in (T, U)},
        "progress": {T.id: Progress(50), U.id: Progress(50)},
        "cursor": Cursor.empty(),
        "by_arrival": False,
        "follows": lambda _schema, table: table != "other",
    }
    return FilePlans(**(known | given))


def with_range(commit_range: CommitRange, **given: Any) -> dict[str, Any]:
    other = U if commit_range.source_table.id == T.id else T
    return {
        "commit_ranges": {other.id: CommitRange(other, 50, 60), commit_range.source_table.id: commit_range},
        **given,
    }


# -- by commit_ts -----------------------------------------------------------------------------------------------------


def test_a_file_of_an_open_table_is_read_whether_an_earlier_run_has_read_it_or_not():
    one, two = file(1), file(2)

    assert plan(one, two, seen={one.path}).file_plans == {one.path: FilePlan.READ, two.path: FilePlan.READ}


def test_a_file_of_a_held_table_is_left():
    made = plan(file(1), file(1, "u"), **with_range(CommitRange(T, 50, 50, HELD)))

    assert list(made.file_plans.values()) == [FilePlan.LEFT, FilePlan.READ]
    assert (made.open, made.held) == ({U.id}, {T.id: 50})
    assert made.held_by(file(1)) == {T.id}


def test_a_file_of_a_table_without_a_changelog_is_left():
    made = plan(file(1), progress={U.id: Progress(50)})

    assert (made.file_plans[file(1).path], made.held) == (FilePlan.LEFT, {T.id: 50})


def test_a_file_of_no_known_table_waits_for_its_schema_only_where_it_is_selected():
    made = plan(file(1, "unknown"), file(1, "other"))

    assert list(made.file_plans.values()) == [FilePlan.UNKNOWN, FilePlan.DONE]


def test_a_file_of_a_table_that_needs_no_more_rows_is_passed():
    exhausted = CommitRange(replace(T, stop=Stop(50, GONE.note.detail)), 50, 50, GONE)

    assert plan(file(1), **with_range(exhausted)).file_plans[file(1).path] is FilePlan.DONE


def test_rows_of_a_file_that_no_run_has_read_may_be_of_every_table_that_had_its_name():
    """A file that a run has read in part has rows only of the tables that had the name since."""
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "u", "RENAME TABLE `t` TO `u`"),
        event(30, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
    ])  # fmt: skip
    first, second = history.source_tables
    given = {
        "history": history,
        "commit_ranges": {table.id: CommitRange(table, 50, 60) for table in (first, second)},
        "progress": {first.id: Progress(50), second.id: Progress(50)},
    }

    assert plan(file(1), **given).concerned(file(1)) == {first.id, second.id}
    assert plan(file(1), **given, seen={file(1).path}).concerned(file(1)) == {second.id}
    assert plan(file(1), **given).held_by(file(1)) == {second.id}
    assert plan(file(1, "v"), **given).concerned(file(1, "v")) == set()


def test_files_are_read_in_order_with_an_ordinal_for_each_name():
    made = plan(file(2), file(1, "u"), file(1), file(3, "other"), seen={file(1).path})

    assert [(task.path, task.ordinal, task.is_seen) for task in made.task_files()] == [
        ("shop/t/10/1", 0, True),
        ("shop/t/10/2", 1, False),
        ("shop/u/10/1", 0, False),
    ]
    assert made.consumed() == {}


# -- by arrival -------------------------------------------------------------------------------------------------------


def arrived(*numbers: int, position: int = -1) -> dict[str, Progress]:
    """The table `t` has these files."""
    return {
        T.id: Progress(50, position, files=tuple((series_of(file(n)), n) for n in numbers)),
        U.id: Progress(50),
    }


def test_by_arrival_a_file_is_read_once():
    made = plan(file(1), file(2), file(3), by_arrival=True, progress=arrived(2))

    assert list(made.file_plans.values()) == [FilePlan.DONE, FilePlan.DONE, FilePlan.READ]
    assert made.consumed() == {T.id: ((series_of(file(3)), 3),)}


def test_by_arrival_files_of_a_table_without_a_changelog_are_left():
    made = plan(file(1), by_arrival=True, progress={U.id: Progress(50)})

    assert (made.file_plans[file(1).path], made.awaiting(file(1))) == (FilePlan.LEFT, {T.id})


def test_by_arrival_ordinals_go_on_from_the_changelog():
    made = plan(file(2), file(1), file(5, "u", 20), by_arrival=True, progress=arrived(position=next_position(4)))

    assert {task.path: task.ordinal for task in made.task_files()} == {
        "shop/t/10/1": 5,
        "shop/t/10/2": 6,
        "shop/u/20/5": 0,
    }


def stopped(*, dropped_ts: int | None = None) -> CommitRange:
    """The table `t`, which has all changes up to 20 and stops at a statement at 30."""
    table = replace(T, stop=Stop(30, "a statement cannot be read"), dropped_ts=dropped_ts)
    return commit_ranges([table], {T.id: 20}, 60, {})[T.id]


@pytest.mark.parametrize(
    ("dropped_ts", "version", "expected"),
    [
        (60, 29, FilePlan.READ),
        (60, 30, FilePlan.DONE),
        (None, 29, FilePlan.READ),
        (None, 30, FilePlan.LEFT),
    ],
)
def test_by_arrival_files_from_after_the_statement_that_stops_a_table_are_not_read(
    dropped_ts: int | None, version: int, expected: FilePlan
):
    """They are given up where the table is dropped, else they wait for the user."""
    given = with_range(stopped(dropped_ts=dropped_ts), by_arrival=True)

    assert plan(file(1, version=version), **given).file_plans[file(1, version=version).path] is expected


def test_a_file_has_the_columns_of_its_schema_file_only_beyond_the_statement_that_stops_its_table():
    given = with_range(
        stopped(),
        schema_columns={(("shop", "t"), version): ("id", "new") for version in (29, 30)},
    )
    made = plan(file(1, version=29), file(1, version=30), **given)

    assert [(task.folder_version, task.listed_columns) for task in made.task_files()] == [(29, ()), (30, ("id", "new"))]
