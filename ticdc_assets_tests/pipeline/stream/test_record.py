"""What a run of a message changefeed records of tables that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import Hold, TableState
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.stream.blocked_topics import CaptureHolds
from ticdc_assets.pipeline.stream.context import DdlLog
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.pending import StreamPending, unknown_tables, unread_tables, with_waiting
from ticdc_assets.pipeline.stream.scan.result import ScannedTables, StreamScan
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets_tests.pipeline.plans import plan_of
from ticdc_assets_tests.schema.history.histories import event

HISTORY = fold([
    event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
    event(20, "u", "RENAME TABLE `t` TO `u`"),
])  # fmt: skip
LOG = DdlLog("ddl", 30, ())


def pending(*waiting: tuple[str, str], log: DdlLog | None = LOG, **more: Any) -> StreamPending:
    """A scan with rows of these tables above the DDL log."""
    tables = ScannedTables(waiting={(s.lower(), t.lower()): (s, t) for s, t in waiting})
    return StreamPending(
        run_id="run", high=30, plan=plan_of(HISTORY), cursor=StreamCursor(),
        scan=StreamScan(tables=tables), names={}, follows=lambda _s, t: t != "other", log=log, **more,
    )  # fmt: skip


AWAITED = Note(NoteCode.NO_SCHEMA, "no schema")


def waits(table: str) -> Note:
    return Note(NoteCode.NO_STATEMENTS, f"{table}: {LOG.lacking}", (Advice.RUN_OTHER_FIRST,))


def record(table: str, state: str = "live", *notes: Note) -> TableRecord:
    return replace(
        unknown_table("shop", table, state, AWAITED), notes=notes, source_table=f"shop.{table}@10", watermark=25
    )


def test_a_live_table_with_rows_above_the_log_waits_for_it():
    records = [record("t"), record("v"), record("stopped", "stopped", Note(NoteCode.INPUT, "a reason"))]

    found = with_waiting(pending(("Shop", "T"), ("shop", "stopped"), ("shop", "other")), records)

    assert found[:3] == [replace(records[0], state="waiting", notes=(waits("Shop.T"),)), *records[1:]]


def test_a_table_that_only_such_rows_mention_waits_without_a_schema():
    new = unknown_table("Shop", "New", "waiting", waits("Shop.New"))

    assert with_waiting(pending(("Shop", "New")), [record("t")]) == [record("t"), new]
    assert with_waiting(pending(("Shop", "New")), [replace(new, notes=(AWAITED,))]) == [replace(new, notes=(AWAITED,))]


def test_records_are_left_as_they_are_where_nothing_waits():
    records = [record("t")]

    assert with_waiting(pending(), records) is records
    assert with_waiting(pending(("shop", "t"), log=None), records) is records


def test_a_name_that_no_table_ever_had_is_recorded_with_its_problem():
    problems = {("shop", name): Note(NoteCode.INPUT, "no schema") for name in ("t", "u", "new")}

    assert unknown_tables(pending(), problems) == [unknown_table("shop", "new", "waiting", AWAITED)]


def test_a_table_that_only_unreadable_messages_mention_is_recorded_with_its_hold():
    faults = CaptureHolds(unread={("shop", "new"): Hold(TableState.STOPPED, Note(NoteCode.MESSAGES, "a hole"))})

    assert unread_tables(pending(faults=faults)) == [
        unknown_table("shop", "new", "stopped", Note(NoteCode.MESSAGES, "a hole"))
    ]
