"""What a table takes by arrival of captures with one file per partition, and what its next snapshot says it has."""

from __future__ import annotations

import numpy as np
import pytest

from ticdc_assets.changes.typed import next_position
from ticdc_assets.pipeline.stream.advance import arrival_of, consumed_with
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.task import Arrival
from ticdc_assets.pipeline.stream.scan.result import RunningMaxima, ScannedCommits, ScannedOffsets, StreamScan
from ticdc_assets.schema.history.source_table import Stop
from ticdc_assets.sources.capture import Message, MessagePosition
from ticdc_assets.sources.message_block import MessageBlock
from ticdc_assets.tables.progress import Progress

P, Q = ("feed", 0), ("feed", 1)
STOP = Stop(30, "a statement cannot be read")


def scan() -> StreamScan:
    """Two partitions that end at the offsets 9 and 4; a row above the stop is at the offset 6 of the first one."""
    maxima = RunningMaxima()
    maxima.add(*np.array([[5, 30, 5], [6, 31, 6]], np.int64).T)
    return StreamScan(ScannedOffsets(ends={P: 9, Q: 4}), commits=ScannedCommits(maxima={P: maxima}))


def test_a_table_takes_the_offsets_behind_those_that_it_has():
    assert arrival_of(scan(), None, Progress()) == Arrival(0, {}, {})
    assert arrival_of(scan(), None, Progress(files=(("feed/0", 3),))) == Arrival(0, {P: 4}, {})
    assert arrival_of(scan(), None, Progress(position=next_position(2), files=(("other/0", 3),))) == Arrival(3, {}, {})


def test_a_table_takes_nothing_behind_the_statement_at_which_it_stops():
    assert arrival_of(scan(), STOP, Progress(files=(("feed/1", 0),))) == Arrival(0, {Q: 1}, {P: 6, Q: 4})


@pytest.mark.parametrize(
    ("arrival", "files", "consumed"),
    [
        (Arrival(0, {}, {}), (), {"feed/0": 8, "feed/1": 3}),
        (Arrival(0, {}, {P: 6, Q: 4}), (), {"feed/0": 5, "feed/1": 3}),
        (Arrival(0, {P: 9}, {P: 6, Q: 0}), (("feed/0", 8),), {"feed/0": 8, "feed/1": -1}),
        (Arrival(0, {}, {}), (("gone/0", 7), ("feed/1", 5)), {"feed/0": 8, "feed/1": 5, "gone/0": 7}),
    ],
)
def test_the_next_snapshot_has_the_last_offset_of_each_partition(
    arrival: Arrival, files: tuple[tuple[str, int], ...], consumed: dict[str, int]
):
    assert consumed_with(scan(), arrival, Progress(files=files)) == tuple(sorted(consumed.items()))


def test_a_table_takes_messages_from_the_first_offset_and_below_the_last():
    messages = [Message(*P, offset, None, b"", 0) for offset in (2, 3, 5, 6)]
    batch = MessageBatch(np.arange(4), MessageBlock.of([(MessagePosition(), message) for message in messages]))

    assert batch.taken(Arrival(0, {P: 3}, {P: 6})).tolist() == [False, True, True, False]
    assert batch.taken(Arrival(0, {}, {})).all()
