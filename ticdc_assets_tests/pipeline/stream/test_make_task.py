"""A worker's task has what a scan and the lake know of its messages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.pipeline.stream.decode.task import Arrival, Mark, MessageTask, VersionClock
from ticdc_assets.pipeline.stream.make_task import tasks_of
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ranges import Window
from ticdc_assets.pipeline.stream.pending import StreamPending
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.result import ScannedOffsets, ScannedWatermarks, StreamScan
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.sources.capture import MessagePosition
from ticdc_assets.sources.message_log import CaptureLog
from ticdc_assets_tests.pipeline.plans import plan_of
from ticdc_assets_tests.schema.history.histories import event, table

P = ("feed", 0)
T, U = ("shop", "t"), ("shop", "u")
TABLE = table("t", "id", key=("id",))
CURSOR = StreamCursor({P: 5}, begins={P: 3}, read={P: 8})


def task(
    *kept: DdlEvent, scan: StreamScan | None = None, by_arrival: bool = False, checks: str = "none", **pending: Any
) -> MessageTask:
    """The task for the ordinals from 10 to 20, after one for those before, of a lake that keeps these statements."""
    known: Any = SimpleNamespace(tables={T: TABLE})
    lake = SimpleNamespace(
        by_arrival=by_arrival, known=known, io_properties={"io": "x"}, control=SimpleNamespace(ddl_events=lambda: kept)
    )
    changefeed = SimpleNamespace(
        large_rows=SimpleNamespace(claim_check=pending.pop("claim_check", None), upstream=None),
        time_zone="UTC",
        bad_input=SimpleNamespace(quarantines=True, allows_zero_dates=False),
        tables=None,
        sink=SimpleNamespace(content=SimpleNamespace(column_selectors=None, integrity_check_level=checks)),
    )
    context: Any = SimpleNamespace(
        lake=lake,
        changefeed=changefeed,
        log=CaptureLog(Path("capture")),
        protocol="simple",
        options="options",
        clock=VersionClock.COMMIT_TS,
    )
    history = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")])
    found = StreamPending(
        run_id="run", high=50, plan=plan_of(history), cursor=CURSOR,
        scan=scan or StreamScan(), names={}, follows=lambda _s, _t: True, **pending,
    )  # fmt: skip
    parts = [(Mark(0, MessagePosition()), 10), (Mark(10, MessagePosition()), 20)]
    return tasks_of(context, found, parts, {}, {"t": Arrival(1, {}, {})})[1]


def test_a_task_reads_its_messages_before_the_first_fault_of_each_partition():
    scan = StreamScan(ScannedOffsets(twice=[9, 10, 19, 20], until={P: 7}))
    made = task(scan=scan)

    assert (made.run_id, made.number, made.high, made.io_properties) == ("run", 1, 50, {"io": "x"})
    assert (made.stretch.begin.ordinal, made.stretch.last) == (10, 20)
    assert made.stretch.window == Window({P: 5}, {P: 3}, {}, {P: 7})
    assert made.stretch.twice == {10, 19}
    assert made.stretch.read == {P: (5, 8)}


def test_by_arrival_no_message_counts_as_read_in_part():
    assert task(by_arrival=True).stretch.read == {}
    assert [task(by_arrival=each).order.by_arrival for each in (True, False)] == [True, False]
    assert task().order.arrivals == {"t": Arrival(1, {}, {})}


@pytest.mark.parametrize(("folder", "uri"), [(None, None), (SimpleNamespace(uri="s3://large"), "s3://large")])
def test_large_messages_are_in_the_folder_of_the_config(folder: Any, uri: str | None):
    assert task(claim_check=folder).decoding.claim_check == uri


def version(ts: int, number: int | None, before: int | None = None, name: str = "T") -> DdlEvent:
    """A statement that names the versions of its table after it and before it."""
    old = table("U", "id") if before is not None else None
    hints = DdlHints(version=number, before_version=before)
    return DdlEvent(ts, "shop", name, "ALTER TABLE t", after=TABLE, before=old, hints=hints)


def test_versions_are_in_effect_after_the_first_statement_that_has_them():
    """Kept, scanned or new ones; the version before a statement belongs to the name that the table had then."""
    scan = StreamScan(statements=[version(20, 2), version(30, 1)])

    made = task(version(10, 1), scan=scan, new_events=(version(40, 3, before=7), version(50, None)))

    assert made.schemas.versions == {(T, 1): 10, (T, 2): 20, (T, 3): 40, (U, 7): 40}
    assert task(DdlEvent(10, *T, "DROP TABLE t", hints=DdlHints(before_version=7))).schemas.versions == {}


def test_checksums_are_compared_over_the_columns_that_the_stream_lists_where_rows_have_them():
    scan = StreamScan(
        statements=[version(20, 2), version(30, None), DdlEvent(40, *T, "ALTER TABLE t", hints=DdlHints(version=4))]
    )
    avro = AvroScan(None, (), True, checked={(T, 9): TABLE})  # type: ignore[arg-type]

    assert task(version(10, 1), scan=scan).schemas.checked == {}
    assert task(version(10, 1), scan=scan, checks="correctness").schemas.checked == {(T, 1): TABLE, (T, 2): TABLE}
    assert task(version(10, 1), scan=StreamScan(avro=avro), checks="correctness").schemas.checked == {(T, 9): TABLE}


def test_rows_are_ordered_by_what_the_scan_found():
    avro = AvroScan(None, (), True, placed={9: 1, 10: 2, 19: 3, 20: 4})  # type: ignore[arg-type]
    table_of = avro.table(P, T)
    for ordinal in (12, 13):
        avro.row(table_of, 30, False, b"key", ordinal)

    made = task(
        scan=StreamScan(watermarks=ScannedWatermarks(deliveries={P: [4, 8]}), avro=avro), fresh=frozenset({"t"})
    )

    assert made.order.deliveries == {P: (4, 8)}
    assert (made.order.placed, made.order.repeated, made.order.fresh) == ({10: 2, 19: 3}, {13}, {"t"})
    assert (task().order.placed, task().order.repeated) == ({}, frozenset())
