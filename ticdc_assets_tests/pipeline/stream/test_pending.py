"""After a scan of messages: whether a run would change anything, and which messages no run has read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.stream.blocked_topics import CaptureHolds
from ticdc_assets.pipeline.stream.context import DdlLog
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.pending import StreamPending
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.result import ScannedOffsets, ScannedTables, StreamScan
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets_tests.pipeline.plans import plan_of
from ticdc_assets_tests.schema.history.histories import event

P, Q = ("feed", 0), ("feed", 1)
HISTORY = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")])
[T] = HISTORY.source_tables
TSO = 50


def table_record(**changes: Any) -> TableRecord:
    made = TableRecord(T.id, "shop", "t", "live", (), ["id"], TSO, None, None, None, None, None)
    return replace(made, **changes)


def record(*tables: TableRecord) -> WatermarkRecord:
    return WatermarkRecord(datetime.now(UTC), "run", TSO, False, "", tables)


def pending(**given: Any) -> StreamPending:
    """A scan that finds what the newest record has, with these differences."""
    known: dict[str, Any] = {
        "run_id": "next",
        "high": TSO,
        "cursor": StreamCursor(),
        "scan": StreamScan(),
        "names": {},
        "follows": lambda _schema, _table: True,
    }
    of_record = record(table_record()) if "record" not in given else given.pop("record")
    history, ranges = given.pop("history", HISTORY), given.pop("commit_ranges", {T.id: CommitRange(T, TSO, TSO)})
    return StreamPending(plan=plan_of(history, ranges, of_record), **(known | given))


def scanned(begins: dict[Any, int], ends: dict[Any, int], *, has_older: bool = False) -> StreamScan:
    return StreamScan(ScannedOffsets(begins=begins, ends=ends, has_older=has_older))


# -- messages that no run has read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begins", "ends", "has_unread"),
    [
        ({P: 3}, {P: 8}, False),
        ({P: 3}, {P: 9}, True),
        ({P: 2}, {P: 8}, True),
        ({P: 4}, {P: 8}, False),
        ({}, {}, False),
        ({P: 3, Q: 0}, {P: 8, Q: 1}, True),
    ],
    ids=["all were read", "a newer one", "an older one", "the first is gone", "none", "the only one of a partition"],
)
def test_messages_are_unread_outside_the_offsets_that_runs_have_read(
    begins: dict[Any, int], ends: dict[Any, int], has_unread: bool
):
    cursor = StreamCursor({P: 6}, begins={P: 3}, read={P: 8})

    assert pending(cursor=cursor, scan=scanned(begins, ends)).has_unread is has_unread


def test_messages_before_those_that_were_consumed_are_unread():
    cursor = StreamCursor({P: 8}, begins={P: 3}, read={P: 8})

    assert pending(cursor=cursor, scan=scanned({P: 3}, {P: 8}, has_older=True)).has_unread


# -- whether a run would change anything ------------------------------------------------------------------------------


def test_a_scan_without_anything_new_is_empty():
    assert pending().is_empty
    assert pending(high=TSO - 1).is_empty
    assert not pending(high=TSO + 1).is_empty
    assert not pending(scan=StreamScan(new_messages=1)).is_empty


def test_before_the_first_run_a_stream_is_empty_until_it_has_a_message():
    """The record of the first run says which tables wait, even without a watermark."""
    nothing = pending(record=None, high=0, commit_ranges={}, history=fold([]))

    assert nothing.is_empty
    assert replace(nothing, scan=scanned({P: 0}, {P: 0})).is_empty
    assert not replace(nothing, scan=scanned({P: 0}, {P: 1})).is_empty
    assert not replace(nothing, high=1).is_empty


def test_consumed_messages_are_not_new_to_a_lake_with_a_record():
    assert pending(scan=scanned({P: 0}, {P: 1})).is_empty


def test_a_table_whose_messages_were_passed_is_recorded_once():
    """A run records why the table is held; the next scan finds nothing to do."""
    hold = Hold(TableState.STOPPED, Note(NoteCode.PASSED_UNREAD, "expected its messages"))
    other = Hold(TableState.STOPPED, Note(NoteCode.STATEMENT, "a statement cannot be read"))
    held, held_otherwise = ({T.id: CommitRange(T, 0, 0, one)} for one in (hold, other))

    assert pending(commit_ranges=held).is_empty
    assert not pending(commit_ranges=held, record=record()).is_empty
    assert not pending(commit_ranges=held, record=None, high=0).is_empty
    assert pending(commit_ranges=held_otherwise, record=record()).is_empty


def test_a_table_that_the_capture_holds_is_recorded_once_and_when_it_is_free_again():
    hold = Hold(TableState.STOPPED, Note(NoteCode.MESSAGES, "a gap"))
    held = CaptureHolds({T.id: hold})

    assert not pending(faults=held).is_empty
    assert pending(faults=held, record=record(table_record(notes=(hold.note,)))).is_empty
    assert not pending(record=record(table_record(notes=(hold.note,)))).is_empty


# -- statements of another changefeed ---------------------------------------------------------------------------------


LOG = DdlLog.__new__(DdlLog)  # only whether there is one counts here


def waits(*names: tuple[str, str]) -> StreamScan:
    return StreamScan(tables=ScannedTables(waiting={(s.lower(), t.lower()): (s, t) for s, t in names}))


def test_new_statements_of_another_changefeed_are_kept_even_without_messages():
    new = (event(60, "t", "DROP TABLE `t`"),)

    assert pending(log=LOG).is_empty
    assert not pending(log=LOG, new_events=new).is_empty


def test_a_table_that_waits_for_the_other_changefeed_is_recorded_once():
    waiting = record(table_record(state="waiting"))

    assert not pending(log=LOG, scan=waits(("Shop", "T"))).is_empty
    assert pending(log=LOG, scan=waits(("Shop", "T")), record=waiting).is_empty
    assert not pending(log=LOG, scan=waits(("shop", "t"), ("shop", "u")), record=waiting).is_empty
    assert pending(log=LOG, record=waiting).is_empty
    assert not pending(log=LOG, scan=waits(("shop", "t")), record=None, high=0).is_empty


def test_only_selected_tables_wait_and_under_their_true_names():
    avro = AvroScan(DecoderOptions(schemas={}.__getitem__), (), has_commit_ts=True)
    avro.names = {("feed", "shop", "a_b"): ("shop", "a_b"), ("feed", "shop", "c_d"): ("shop", "c_d")}
    scan = replace(waits(("shop", "a_b"), ("shop", "c_d"), ("shop", "other")), avro=avro)
    found = pending(
        scan=scan,
        names={("feed", "shop", "a_b"): ("shop", "a-b"), ("feed", "shop", "c_d"): None},
        follows=lambda _schema, table: table != "other",
    )

    assert found.waiting == [("shop", "a-b"), ("shop", "c_d")]


# -- held tables ------------------------------------------------------------------------------------------------------


def test_a_held_table_gets_no_rows_and_the_others_stay_as_they_are():
    hold, other = (
        Hold(TableState.WAITING, Note(NoteCode.NO_STATEMENTS, "for a statement")),
        CommitRange(replace(T, id="shop.u@11"), 20, 60),
    )
    found = pending(commit_ranges={T.id: CommitRange(T, 20, 60), "shop.u@11": other})

    held = found.with_held({T.id: hold})

    assert held.commit_ranges == {T.id: CommitRange(T, 20, 20, hold), "shop.u@11": other}
    assert (held.checkpoint, found.commit_ranges[T.id].hold) == (TSO, None)
