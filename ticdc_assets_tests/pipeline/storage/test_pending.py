"""Whether a run has anything to do after a scan of a bucket."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets.errors import NotYetError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.record import unknown_id
from ticdc_assets.pipeline.storage.pending import StoragePending
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.sources.storage.paths import Layout, SourceFile
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Problem, Scan, TableScan
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets_tests.pipeline.plans import plan_of
from ticdc_assets_tests.schema.history.histories import event

HISTORY = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")])
[T] = HISTORY.source_tables
TSO = 50
AWAITED = NotYetError("shop/t/meta", "a schema file", "none", Advice.RESTORE_SCHEMA_FILE)
REASON, WARNING = Note(NoteCode.INPUT, "a reason"), Note(NoteCode.COLUMNS, "a warning")
FILE = SourceFile("shop/t/10/CDC1.csv", 9, "shop", "t", 10, None, None, None, 1)


def record(**changes: Any) -> WatermarkRecord:
    table = TableRecord(T.id, "shop", "t", "live", (), ["id"], TSO, None, None, None, None, None)
    return WatermarkRecord(datetime.now(UTC), "run", TSO, False, "", (replace(table, **changes),))


def scan(*files: SourceFile, seen: int = 0, checkpoint_ts: int | None = TSO, **more: Any) -> Scan:
    """Files of `t`, of which an earlier run has read those up to the number `seen`."""
    folder = FolderScan(("", None), "", "", Done(0, 0), len(files), files, seen=Done(seen, FILE.size))
    table = TableScan("shop/t", "shop", "t", versions={10: (folder,)} if files else {}, **more)
    return Scan(checkpoint_ts, Layout("none"), (table,))


def pending(**given: Any) -> StoragePending:
    """A scan that finds what the newest record has, with these differences."""
    known: dict[str, Any] = {
        "run_id": "next",
        "high": TSO,
        "cursor": Cursor.empty(),
        "scan": scan(),
    }
    of_record = record() if "record" not in given else given.pop("record")
    history, ranges = given.pop("history", HISTORY), given.pop("commit_ranges", {T.id: CommitRange(T, TSO, TSO)})
    return StoragePending(plan=plan_of(history, ranges, of_record), **(known | given))


def held(state: TableState) -> dict[str, CommitRange]:
    return {T.id: CommitRange(T, TSO, TSO, Hold(state, Note(NoteCode.INPUT, "a reason")))}


def test_the_checkpoint_is_that_of_metadata_and_0_without_it():
    assert pending().checkpoint == TSO
    assert pending(scan=scan(checkpoint_ts=None)).checkpoint == 0


def test_problems_and_notes_are_those_of_the_scan():
    problem = Problem(AWAITED, "shop", "t")
    found = scan(problems=(problem,))

    assert pending(scan=replace(found, notes=("a stray file",))).notes == ("a stray file",)
    assert pending(scan=found).problems == (problem,)


def test_a_scan_without_anything_new_is_empty():
    assert pending().is_empty
    assert not pending(high=TSO + 1).is_empty
    assert not pending(new_events=(event(60, "t", "DROP TABLE `t`"),)).is_empty
    assert not pending(changed_events=(event(10, "t", "CREATE TABLE `t` (`id` BIGINT PRIMARY KEY)"),)).is_empty
    assert not pending(again=frozenset({T.id})).is_empty


def test_before_the_first_run_only_a_bucket_without_a_tso_and_tables_is_empty():
    nothing = pending(record=None, high=0, history=fold([]), commit_ranges={})

    assert nothing.is_empty
    assert not replace(nothing, high=1).is_empty
    assert not pending(record=None, high=0, commit_ranges={T.id: CommitRange(T, 0, 0)}).is_empty


def test_a_table_that_is_behind_or_not_recorded_has_something_to_do():
    assert not pending(record=record(watermark=TSO - 1)).is_empty
    assert pending(record=record(watermark=TSO + 1)).is_empty
    assert not pending(record=record(source_table="shop.other@5")).is_empty


def test_a_file_that_no_run_has_read_is_read_only_where_its_table_advances():
    assert not pending(scan=scan(FILE)).is_empty
    assert pending(scan=scan(FILE, seen=1)).is_empty
    stopped = record(state="stopped", notes=(REASON,))
    assert pending(scan=scan(FILE), record=stopped, commit_ranges=held(TableState.STOPPED)).is_empty
    assert pending(scan=scan(replace(FILE, table="other"))).is_empty
    assert pending(scan=scan(FILE), commit_ranges={}).is_empty


def test_by_arrival_every_file_that_is_listed_is_to_be_read():
    assert not pending(by_arrival=True, scan=scan(FILE, seen=1)).is_empty
    assert pending(by_arrival=True).is_empty


@pytest.mark.parametrize("state", [TableState.WAITING, TableState.STOPPED])
def test_a_table_is_recorded_once_when_it_is_held_and_once_when_it_is_free(state: TableState):
    noted = record(state=str(state), notes=(REASON,))

    assert not pending(commit_ranges=held(state)).is_empty
    assert pending(commit_ranges=held(state), record=noted).is_empty
    assert not pending(record=noted).is_empty


def test_a_table_is_recorded_again_when_it_is_held_for_another_reason():
    noted = record(state="stopped", notes=(Note(NoteCode.INPUT, "another reason"), WARNING))

    assert not pending(commit_ranges=held(TableState.STOPPED), record=noted).is_empty
    assert pending(
        commit_ranges=held(TableState.STOPPED), record=record(state="stopped", notes=(REASON, WARNING))
    ).is_empty


def test_a_table_without_a_schema_is_recorded_again_when_its_reason_changes_or_goes():
    problem = Problem(AWAITED, "shop", "U")
    unknown = replace(record().tables[0], source_table=unknown_id("shop", "u"), table="u", state="waiting")
    known = replace(record(), tables=(*record().tables, replace(unknown, notes=(problem.note,))))

    assert pending(record=known, scan=scan(problems=(problem,))).is_empty
    assert pending(record=known, scan=scan(replace(FILE, table="u"))).is_empty
    assert not pending(record=known).is_empty
    another = replace(problem, error=NotYetError("shop/U/meta", "a file", "half of it", Advice.READ_AGAIN))
    assert not pending(record=known, scan=scan(problems=(another,))).is_empty


def test_a_table_that_its_mirror_holds_needs_no_run_of_its_changelog():
    assert pending(record=record(state="stopped", notes=(Note(NoteCode.MIRROR, "damaged"),))).is_empty


def test_a_dropped_table_is_recorded_once():
    assert pending(record=record(state="dropped"), commit_ranges=held(TableState.DROPPED)).is_empty
    assert pending(record=record(state="dropped")).is_empty
