"""How a run of the stream treats an initial load that has ended, or has not."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.pipeline.load.progress import (
    FINISHED,
    behind_the_load,
    loaded_ts,
    require_finished,
    unfinished_cursor,
    unfinished_ts,
)
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets.tso import now

STREAM = DdlEvent(10, "s", "t", "CREATE TABLE `t` (`id` INT)")
DUMP = DdlEvent(20, "s", "t", "CREATE TABLE `t` (`id` INT)", loaded=True)


def record(cursor: str) -> WatermarkRecord:
    return WatermarkRecord(now(), "run", 5, False, cursor, ())


@pytest.mark.parametrize(
    ("before", "ts"),
    [
        (None, None),
        (record(FINISHED), None),
        (record('{"load": 20}'), 20),
        (record('{"load": 0}'), 0),
        (record('{"format": 2}'), None),  # the cursor of a bucket
        (record("[1]"), None),
    ],
)
def test_a_stream_waits_for_the_end_of_a_load(before: WatermarkRecord | None, ts: int | None):
    assert unfinished_ts(before) == ts
    if ts is None:
        require_finished("feed", before)
    else:
        with pytest.raises(SourceError, match=f"one at {ts} that has not ended"):
            require_finished("feed", before)


def test_the_cursor_of_an_unfinished_load_names_the_tso_of_the_dump():
    assert unfinished_ts(record(unfinished_cursor(20))) == 20


def ranges(*lows: int) -> dict[str, CommitRange]:
    return {str(low): CommitRange(SourceTable(str(low), (NamePeriod("s", "t", 0),), ()), low, 30) for low in lows}


def test_the_tso_of_the_dump_is_that_of_its_statements():
    assert loaded_ts([STREAM]) is None
    assert loaded_ts([STREAM, DUMP]) == 20


@pytest.mark.parametrize(("reached", "held"), [(19, ["0", "19"]), (20, []), (21, [])])
def test_tables_that_no_dump_had_wait_until_the_stream_has_reached_the_dump(reached: int, held: list[str]):
    found = behind_the_load([STREAM, DUMP], ranges(0, 19, 20, 21), reached)

    assert list(found) == held
    assert {hold.state for hold in found.values()} <= {TableState.WAITING}
    assert behind_the_load([STREAM], ranges(0), reached) == {}
