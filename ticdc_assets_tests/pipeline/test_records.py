"""The record of a table after a run: from its commit range, or from the record before if it has no news."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import (
    CommitRange,
    Hold,
    TableState,
    commit_ranges,
    is_held,
    may_have_rows,
)
from ticdc_assets.pipeline.record import table_record, unknown_table
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable, Stop
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.locations import TableLocations
from ticdc_assets_tests.schema.history.histories import event

CREATE = event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")
[TABLE] = fold([CREATE]).source_tables
[DROPPED] = fold([CREATE, event(30, "t", "DROP TABLE `t`")]).source_tables
[RENAMED] = fold([CREATE, event(30, "u", "RENAME TABLE `t` TO `u`")]).source_tables
HOLD = Hold(TableState.WAITING, Note(NoteCode.INPUT, "no file"))
WARNINGS = (Note(NoteCode.SCHEMA_CHECKSUM, "a warning"),)
T = ("shop", "t")
STOP = Stop(30, "no such column")


def one(table: SourceTable, low: int, high: int, *held: tuple[str, str]) -> CommitRange:
    [found] = commit_ranges([table], {table.id: low}, high, dict.fromkeys(held, HOLD)).values()
    return found


def test_a_table_is_brought_from_its_watermark_to_the_tso_of_the_run():
    assert one(TABLE, 20, 50) == CommitRange(TABLE, 20, 50)
    assert one(TABLE, 60, 50) == CommitRange(TABLE, 60, 60)
    assert commit_ranges([TABLE], {}, 50, MappingProxyType({}))[TABLE.id].low == 0


@pytest.mark.parametrize(("low", "is_kept"), [(29, True), (30, False)])
def test_a_held_name_holds_the_tables_that_may_have_rows_under_it(low: int, is_kept: bool):
    assert one(RENAMED, low, 50, T) == (
        CommitRange(RENAMED, low, low, HOLD) if is_kept else CommitRange(RENAMED, low, 50)
    )
    assert one(RENAMED, low, 50, ("shop", "u")).hold == HOLD
    assert may_have_rows(one(RENAMED, low, 50), T) is is_kept
    assert may_have_rows(one(RENAMED, low, 50), ("shop", "u"))


@pytest.mark.parametrize(
    ("high", "dropped_ts", "reached", "state"),
    [
        (30, None, 30, TableState.LIVE),
        (31, None, 30, TableState.STOPPED),
        (40, 41, 30, TableState.STOPPED),
        (41, 41, 30, TableState.DROPPED),
    ],
)
def test_a_table_is_brought_to_its_stop_and_given_up_with_its_drop(
    high: int, dropped_ts: int | None, reached: int, state: TableState
):
    stops = replace(TABLE, stop=STOP, dropped_ts=dropped_ts)
    found = one(stops, 20, high)

    assert (found.high, found.state) == (reached, state)
    assert (found.is_open, is_held(found)) == (True, False)
    assert (found.is_over, found.is_exhausted) == (state is TableState.DROPPED, False)
    exhausted = one(stops, 30, high)
    assert (exhausted.is_open, exhausted.is_exhausted) == (False, state is TableState.DROPPED)
    assert may_have_rows(exhausted, T) is not exhausted.is_exhausted
    assert one(stops, 35, high).high == max(35, high if state is TableState.LIVE else 30)


def test_a_hold_that_is_not_the_stop_lets_nothing_through():
    held = one(replace(TABLE, stop=STOP), 20, 50, T)

    assert (is_held(held), held.is_open) == (True, False)
    assert is_held(one(TABLE, 20, 50, T))
    assert not is_held(one(TABLE, 20, 50))
    assert [CommitRange(TABLE, 20, 50, hold).is_open for hold in (None, HOLD)] == [True, False]
    assert not one(TABLE, 50, 50).is_open


# -- records ----------------------------------------------------------------------------------------------------------

OLD = TableRecord(
    TABLE.id, *T, "live", (Note(NoteCode.COLUMNS, "old note"),), ["id"], 20, ["m", "t"], 5, ["c", "t"], 6, 7, "digest"
)
POSITION = TableLocations(
    mirror=("new", "mirror"),
    changelog=("new", "log"),
    mirror_location=None,
    changelog_location=None,
    history_table=("new", "mirror__history"),
    history_location=None,
)


def test_a_table_that_was_brought_forward_says_how_far_and_keeps_what_its_mirror_was():
    found = table_record(CommitRange(TABLE, 20, 50), None, OLD, POSITION, None, ())

    assert found == replace(OLD, watermark=50, notes=())


def test_a_table_that_is_held_after_all_stays_where_it_was_and_says_why():
    found = table_record(CommitRange(TABLE, 20, 50), HOLD, OLD, POSITION, None, WARNINGS)

    assert found == replace(OLD, state="waiting", notes=(HOLD.note, *WARNINGS))


def test_marks_of_the_history_are_noted_unless_the_table_is_held():
    marked = replace(TABLE, marks=("a guess",))

    assert table_record(CommitRange(marked, 20, 50), None, None, POSITION, None, WARNINGS).note == "a guess; a warning"
    assert table_record(CommitRange(marked, 20, 50), HOLD, None, POSITION, None, ()).note == "no file"


def test_a_table_without_a_record_and_without_a_changelog_has_neither():
    found = table_record(CommitRange(DROPPED, 20, 50), None, None, POSITION, None, ())

    assert found == TableRecord(TABLE.id, *T, "dropped", (), ["id"], 50, None, None, None, None, None, None)
    assert unknown_table(*T, "waiting", HOLD.note).watermark == 0


def test_a_changelog_tells_its_place_and_snapshot_and_an_empty_one_keeps_the_recorded_snapshot(tmp_path: Path):
    catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("new")
    log = catalog.create_table(POSITION.changelog, pa.schema([("id", pa.int64())]))

    empty = table_record(CommitRange(TABLE, 20, 50), None, OLD, POSITION, log, "")
    assert (empty.changelog, empty.changelog_snapshot_id, empty.history) == (["new", "log"], 6, None)
    assert table_record(CommitRange(TABLE, 20, 50), None, None, POSITION, log, "").changelog_snapshot_id is None

    log.append(pa.table({"id": [1]}))
    snapshot = log.current_snapshot()
    assert snapshot is not None
    found = table_record(CommitRange(TABLE, 20, 50), None, OLD, POSITION, log, "")
    assert found.changelog_snapshot_id == snapshot.snapshot_id


def test_columns_whose_default_has_an_unknown_zone_are_counted():
    added = "ALTER TABLE `t` ADD COLUMN `at` TIMESTAMP NULL DEFAULT '2024-07-01 12:00:00'"
    [told] = fold([CREATE, event(30, "t", added)]).source_tables
    [note] = table_record(CommitRange(told, 20, 50), None, None, POSITION, None, ()).notes

    assert note.code == NoteCode.DEFAULT_ZONE
    assert "older than 1 TIMESTAMP column (at), the default is taken in `time_zone`" in note.detail
    assert table_record(CommitRange(told, 20, 29), None, None, POSITION, None, ()).notes == ()
    for default in ("NULL", "CURRENT_TIMESTAMP", "'0000-00-00 00:00:00'"):
        [exact] = fold([CREATE, event(30, "t", added.replace("'2024-07-01 12:00:00'", default))]).source_tables
        assert table_record(CommitRange(exact, 20, 50), None, None, POSITION, None, ()).notes == ()
