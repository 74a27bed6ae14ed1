"""Which tables a fault of one topic holds, and which continue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.stream.blocked_topics import CaptureHolds, awaited, behind, faulty, with_topic_faults
from ticdc_assets.pipeline.stream.offsets.ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.stream.scan.result import ScannedOffsets, ScannedTables, ScannedWatermarks, StreamScan
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets_tests.schema.history.histories import event

T, U, NEW = ("shop", "t"), ("shop", "u"), ("shop", "new")
HOLE = Note(NoteCode.MESSAGES, "a hole")
FAULT = CaptureFault(HOLE, ("one", 0), 5)
STOPPED, WAITS = (Hold(state, Note(NoteCode.MESSAGES, "a hole")) for state in (TableState.STOPPED, TableState.WAITING))


def tables(*statements: tuple[int, str, str]) -> dict[str, SourceTable]:
    made = fold(event(ts, name, text) for ts, name, text in statements).source_tables
    return {table.name[1]: table for table in made}


def create(name: str, ts: int = 10) -> tuple[int, str, str]:
    return (ts, name, f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY)")


def ranges(found: dict[str, SourceTable], low: int = 20, hold: Hold | None = None) -> dict[str, CommitRange]:
    return {table.id: CommitRange(table, low, 50, hold) for table in found.values()}


TWO = tables(create("t"), create("u"))


def scan(*faults: CaptureFault, **by_topic: set[tuple[str, str]]) -> StreamScan:
    rows = {NEW: (*NEW, 30)} if any(NEW in names for names in by_topic.values()) else {}
    return StreamScan(ScannedOffsets(faults=faults), tables=ScannedTables(rows, by_topic=by_topic))


def held(holds: CaptureHolds) -> dict[str, Hold]:
    return {i.partition("@")[0].partition(".")[2]: hold for i, hold in holds.known.items()}


def test_without_a_fault_no_table_is_held():
    assert faulty(scan(one={T, NEW}), ranges(TWO), ()) == CaptureHolds()


def test_a_topic_holds_the_tables_that_are_not_only_in_other_topics():
    assert held(faulty(scan(FAULT, one={T}, two={U}), ranges(TWO), ())) == {"t": STOPPED}
    assert held(faulty(scan(FAULT, one={T, U}, two={U}), ranges(TWO), ())) == {"t": STOPPED, "u": STOPPED}
    assert held(faulty(scan(FAULT, one={T}), ranges(TWO), ())) == {"t": STOPPED, "u": STOPPED}


def test_a_fault_of_a_topic_with_statements_of_any_table_holds_the_others_at_its_last_watermark():
    both = scan(FAULT, one={T}, two={U})

    assert held(faulty(both, ranges(TWO, low=50), ("one",))) == {"t": STOPPED, "u": STOPPED}
    assert held(faulty(both, ranges(TWO, low=49), ("one",))) == {"t": STOPPED}
    assert held(faulty(both, ranges(TWO, low=49), ("one",), is_dated=False)) == {"t": STOPPED, "u": STOPPED}


def test_a_fault_of_the_whole_capture_holds_all():
    whole = CaptureFault(HOLE)

    assert held(faulty(scan(FAULT, one={T}, two={U}), ranges(TWO), ("two",))) == {"t": STOPPED}
    assert held(faulty(scan(whole, one={T}, two={U}), ranges(TWO), ())) == {"t": STOPPED, "u": STOPPED}


def test_a_new_table_of_the_topic_stops_and_one_of_another_topic_waits():
    assert faulty(scan(FAULT, one={NEW}), {}, ()).unread == {NEW: STOPPED}
    assert faulty(scan(FAULT, one={T}, two={NEW}), {}, ()).unread == {NEW: WAITS}


def test_the_first_fault_of_a_table_is_the_one_that_is_reported():
    second = CaptureFault(Note(NoteCode.MESSAGES, "another"), ("one", 1), 7)

    assert held(faulty(scan(FAULT, second, one={T}, two={U}), ranges(TWO), ())) == {"t": STOPPED}
    assert faulty(scan(FAULT, second, one={NEW}), {}, ()).unread == {NEW: STOPPED}


@pytest.mark.parametrize(("low", "is_held"), [(29, True), (30, False)])
def test_a_table_needs_no_more_messages_once_its_drop_is_reached(low: int, is_held: bool):
    dropped = tables(create("t"), (30, "t", "DROP TABLE `t`"))

    assert held(faulty(scan(FAULT), ranges(dropped, low), ())) == ({"t": STOPPED} if is_held else {})


def test_a_table_that_was_given_up_needs_no_more_messages():
    over = Hold(TableState.DROPPED, Note(NoteCode.STATEMENT, "it stopped"))

    assert faulty(scan(FAULT), ranges(TWO, hold=over), ()).known == {}
    assert held(faulty(scan(FAULT), ranges(TWO, hold=WAITS), ())) == {"t": STOPPED, "u": STOPPED}


# -- topics whose watermark is behind ---------------------------------------------------------------------------------


def topics(**newest: int) -> StreamScan:
    """`t` is in the topic `one` and `u` in `two`, with these watermarks."""
    known = {(topic, 0): ts for topic, ts in newest.items()}
    return StreamScan(ScannedOffsets(), ScannedWatermarks(known), ScannedTables({}, by_topic={"one": {T}, "two": {U}}))


def waiting(found: dict[str, Hold]) -> dict[str, str]:
    """The topic that each table waits for."""
    assert {hold.state for hold in found.values()} <= {TableState.WAITING}
    names = {i: hold.note.detail.partition("watermark of ")[2].partition("[")[0] for i, hold in found.items()}
    return {i.partition("@")[0].partition(".")[2]: topic for i, topic in names.items()}


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [(49, 50, {"t": "one"}), (50, 49, {"u": "two"}), (50, 51, {}), (30, 40, {"t": "one", "u": "two"})],
)
def test_a_table_waits_while_its_topic_is_behind_the_others(one: int, two: int, found: dict[str, str]):
    assert waiting(behind(topics(one=one, two=two), ranges(TWO), (), {T, U}, 50)) == found


def test_a_topic_that_may_have_statements_of_any_table_holds_all_while_it_is_behind():
    assert waiting(behind(topics(one=49, two=50), ranges(TWO), ("one",), {T, U}, 50)) == {"t": "one", "u": "one"}
    assert waiting(behind(topics(feed=49), ranges(TWO), ("feed",), {T, U}, 50)) == {"t": "feed", "u": "feed"}
    assert waiting(behind(topics(feed=49), ranges(TWO), (), {T, U}, 50)) == {}


def test_a_topic_whose_tables_are_all_gone_holds_nothing():
    assert waiting(behind(topics(one=49, two=50), ranges(TWO), ("one",), {U}, 50)) == {}


@pytest.mark.parametrize(("low", "found"), [(49, {"t": "one"}), (50, {}), (51, {})])
def test_a_table_that_has_reached_the_tso_waits_for_no_topic(low: int, found: dict[str, str]):
    assert waiting(behind(topics(one=49, two=50), ranges(TWO, low), (), {T, U}, 50)) == found


def test_a_table_that_is_held_or_dropped_waits_for_no_topic():
    dropped = tables(create("t"), (20, "t", "DROP TABLE `t`"))

    assert behind(topics(one=49, two=50), ranges(TWO, hold=STOPPED), (), {T, U}, 50) == {}
    assert behind(topics(one=49, two=50), ranges(dropped), (), {T, U}, 50) == {}
    assert waiting(behind(topics(one=49, two=50), ranges(dropped, low=19), (), {T, U}, 50)) == {"t": "one"}


@pytest.mark.parametrize(("shared", "left_out"), [((), {"one"}), (("one",), set()), (("two",), {"one"})])
def test_the_watermark_is_that_of_the_other_topics_unless_one_with_a_fault_may_have_their_statements(
    shared: tuple[str, ...], left_out: set[str]
):
    earlier = CaptureFault(HOLE, ("two", 0), 3)
    scan = StreamScan(
        ScannedOffsets(faults=(earlier,), known=frozenset({("one", 0), ("one", 1), ("two", 0)}), ends={("one", 1): 7})
    )

    with_topic_faults(scan, {"one": "created again", "absent": "gone"}, shared)

    assert scan.offsets.faults == (
        earlier,
        CaptureFault(Note(NoteCode.MESSAGES, "created again"), ("one", 0), 0),
        CaptureFault(Note(NoteCode.MESSAGES, "created again"), ("one", 1), 7),
    )
    assert scan.offsets.left_out == left_out


# -- partitions without any message -----------------------------------------------------------------------------------


def capture(*watermarks: int | None) -> StreamScan:
    """A capture with one message in each of these partitions, and their watermarks."""
    ledger = Ledger()
    for number in range(len(watermarks)):
        ledger.add_range(("feed", number), 0, 1)
    known = {("feed", number): ts for number, ts in enumerate(watermarks) if ts is not None}
    seen = ScannedTables({NEW: (*NEW, 30)}, by_topic={"feed": {T, NEW}})
    return StreamScan(ScannedOffsets(ledger), ScannedWatermarks(known), seen)


MISSING = [("feed", 7)]


def test_tables_wait_for_partitions_without_messages_once_the_others_have_newer_watermarks():
    found = awaited(capture(31, 40), ranges(TWO), MISSING, 30, 8)

    assert {hold.state for hold in (*found.known.values(), *found.unread.values())} == {TableState.WAITING}
    assert (set(held(found)), set(found.unread)) == ({"t", "u"}, {NEW})
    detail = next(iter(found.known.values())).note.detail
    assert "expected messages of feed[7], since sink_uri has partition-num=8" in detail


@pytest.mark.parametrize(
    ("scan", "missing"),
    [
        (capture(31, 40), []),
        (capture(31, None), MISSING),
        (capture(30, 40), MISSING),
        (capture(), MISSING),
    ],
)
def test_tables_do_not_wait_where_other_partitions_are_behind_too(scan: StreamScan, missing: list[tuple[str, int]]):
    assert awaited(scan, ranges(TWO), missing, 30, 8) == CaptureHolds()


def test_a_table_that_is_held_or_needs_no_more_does_not_wait():
    dropped = tables(create("t"), (20, "t", "DROP TABLE `t`"), create("u"))

    assert set(held(awaited(capture(31), ranges(dropped), MISSING, 30, 8))) == {"u"}
    assert awaited(capture(31), ranges(TWO, hold=STOPPED), MISSING, 30, 8).known == {}


@pytest.mark.parametrize(
    ("count", "listed"),
    [(3, "feed[0], feed[1], feed[2], since"), (4, "feed[0], feed[1], feed[2] and 1 more, since")],
)
def test_only_the_first_missing_partitions_are_listed(count: int, listed: str):
    found = awaited(capture(31), ranges(TWO), [("feed", number) for number in range(count)], 30, 8)

    assert f"expected messages of {listed}" in next(iter(found.known.values())).note.detail


def test_partitions_that_earlier_runs_read_are_those_of_the_source():
    scan = capture(31)
    scan.offsets.known = frozenset(MISSING)

    assert "which the source has" in next(iter(awaited(scan, ranges(TWO), MISSING, 30, 8).known.values())).note.detail


# -- what is recorded -------------------------------------------------------------------------------------------------


HOLE, OTHER = STOPPED.note, Note(NoteCode.INPUT, "another reason")


def record(*notes: tuple[str, Note]) -> WatermarkRecord:
    made = tuple(unknown_table("shop", name, "stopped", note) for name, note in notes)
    return WatermarkRecord(datetime(2026, 1, 1, tzinfo=UTC), "run", 30, True, "", made)


@pytest.mark.parametrize(
    ("notes", "recorded"),
    [
        ([("new", HOLE)], True),
        ([("new", HOLE), ("t", OTHER)], True),
        ([("new", Note(NoteCode.MESSAGES, "another"))], False),
        ([("new", HOLE), ("t", HOLE)], False),
        ([], False),
    ],
)
def test_holds_are_recorded_where_exactly_these_tables_say_so(notes: list[tuple[str, Note]], recorded: bool):
    assert CaptureHolds(unread={NEW: STOPPED}).are_recorded(record(*notes)) is recorded


def test_without_holds_a_record_with_none_says_the_same():
    assert CaptureHolds().are_recorded(None)
    assert CaptureHolds().are_recorded(record(("t", OTHER)))
    assert not CaptureHolds().are_recorded(record(("t", HOLE)))
    assert not CaptureHolds(unread={NEW: STOPPED}).are_recorded(None)
