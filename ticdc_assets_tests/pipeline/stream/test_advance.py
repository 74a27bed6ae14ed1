"""The cursor after a run: what it consumed, and what a later run reads again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ticdc_assets.pipeline.stream.advance import advanced, begun, gone, still_read
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ledger import Ledger
from ticdc_assets.pipeline.stream.offsets.ranges import GAPS_MAX, Range
from ticdc_assets.pipeline.stream.scan.result import RunningMaxima, ScannedCommits, ScannedOffsets, StreamScan

P, Q = ("feed", 0), ("feed", 1)


def scan(*ranges: Range, above: tuple[int, ...] = ()) -> StreamScan:
    """A capture with these offsets, of which `above` have rows above the TSO of the run."""
    ledger, maxima = Ledger(), RunningMaxima()
    for first, end in ranges:
        ledger.add_range(P, first, end)
    offsets = np.array(above, np.int64)
    maxima.add(offsets, offsets, offsets)
    rows = {P: maxima} if above else {}
    held = ScannedOffsets(ledger, ledger.begins(), {P: ranges[-1][1]})
    return StreamScan(held, commits=ScannedCommits(maxima=rows), messages=9)


def after(cursor: StreamCursor, found: StreamScan, first_left: int, *, is_dated: bool = True) -> StreamCursor:
    return advanced(cursor, found, {P: first_left}, is_dated=is_dated)


@pytest.mark.parametrize("first_left", [3, 5, 8])
def test_a_new_partition_is_consumed_from_its_first_message_up_to_what_is_left(first_left: int):
    moved = after(StreamCursor(), scan((3, 8)), first_left)

    assert (moved.offsets, moved.begins, moved.gaps) == ({P: first_left}, {P: 3}, {})
    assert moved.read == {P: 8}


def test_a_known_partition_goes_on_from_its_cursor():
    moved = after(StreamCursor({P: 5}, begins={P: 3}), scan((5, 8)), 7)

    assert (moved.offsets, moved.begins, moved.gaps, moved.read) == ({P: 7}, {P: 3}, {}, {P: 8})


def test_a_cursor_of_an_older_release_began_at_0():
    assert after(StreamCursor({P: 5}), scan((5, 8)), 7).begins == {P: 0}


def test_offsets_that_the_capture_lacks_are_gaps_of_what_was_consumed():
    assert after(StreamCursor(), scan((3, 5), (7, 9)), 9).gaps == {P: ((5, 7),)}
    assert after(StreamCursor({P: 4}, begins={P: 3}), scan((6, 9)), 8).gaps == {P: ((4, 6),)}
    assert after(StreamCursor({P: 9}, begins={P: 3}, gaps={P: ((5, 7),)}), scan((6, 7), (9, 10)), 10).gaps == {
        P: ((5, 6),)
    }


def test_what_was_read_ends_at_the_first_gap_behind_what_was_consumed():
    found = scan((3, 5), (7, 9))

    assert after(StreamCursor(), found, 4).read == {P: 5}
    assert after(StreamCursor(), found, 5).read == {P: 5}
    assert after(StreamCursor(), found, 7).read == {P: 9}


def test_only_the_newest_gaps_are_kept():
    ranges = [(2 * n, 2 * n + 1) for n in range(GAPS_MAX + 3)]

    kept = after(StreamCursor(), scan(*ranges), ranges[-1][1]).gaps[P]

    assert (len(kept), kept[-1]) == (GAPS_MAX, (2 * GAPS_MAX + 3, 2 * GAPS_MAX + 4))


CONSUMED = StreamCursor({P: 5}, begins={P: 3})


def test_earlier_messages_with_rows_above_the_tso_are_read_again_with_all_earlier_ones():
    """The cursor stays behind what it had, and before the first new message above the TSO."""
    moved = after(CONSUMED, scan((1, 9), above=(2, 7)), 2)

    assert (moved.offsets, moved.begins, moved.gaps) == ({P: 7}, {P: 3}, {})
    assert after(CONSUMED, scan((1, 9), above=(2,)), 2).offsets == {P: 9}
    assert after(CONSUMED, scan((1, 9)), 2).offsets == {P: 9}
    assert after(CONSUMED, scan((1, 9), above=(2, 5)), 2).offsets == {P: 5}


def test_earlier_messages_without_rows_above_the_tso_are_consumed_too():
    moved = after(CONSUMED, scan((1, 9)), 9)

    assert (moved.offsets, moved.begins) == ({P: 9}, {P: 1})
    assert after(CONSUMED, scan((1, 9)), 5).begins == {P: 1}


def test_without_commit_ts_all_of_a_scan_is_counted_and_nothing_is_read_in_part():
    moved = after(CONSUMED, scan((1, 9)), 4, is_dated=False)

    assert (moved.offsets, moved.begins, moved.read, moved.messages) == ({P: 5}, {P: 1}, {}, 9)
    assert after(CONSUMED, scan((5, 9)), 9).messages == 0


@pytest.mark.parametrize(
    ("cursor", "first", "is_gone"),
    [
        (CONSUMED, 3, False),
        (CONSUMED, 4, True),
        (CONSUMED, 2, False),
        (StreamCursor({P: 3}, begins={P: 3}), 4, False),
        (StreamCursor({P: 5}), 0, False),
        (StreamCursor({P: 5}), 1, True),
        (StreamCursor({P: 1}), 1, True),
        (StreamCursor(), 4, False),
    ],
)
def test_a_capture_must_still_have_the_first_message_that_was_read(cursor: StreamCursor, first: int, is_gone: bool):
    assert gone(cursor, scan((first, 9))) == (P if is_gone else None)


# -- messages that were read and are not consumed ---------------------------------------------------------------------

READ = replace(CONSUMED, read={P: 9})


@pytest.mark.parametrize(
    ("ranges", "read"),
    [
        ([(5, 9)], 9),
        ([(3, 12)], 9),
        ([(5, 8)], 8),
        ([(3, 5), (5, 6), (7, 12)], 6),
        ([(3, 5), (6, 12)], 5),
        ([(6, 12)], 5),
    ],
)
def test_only_what_the_scan_has_from_the_cursor_on_without_a_gap_still_counts_as_read(ranges: list[Range], read: int):
    found = scan(*ranges)

    assert still_read(READ, found) == replace(READ, read={P: read})
    assert advanced(READ, found, {}, is_dated=True).read == {P: read}


@pytest.mark.parametrize(("until", "read"), [(4, 5), (5, 5), (6, 6), (9, 9), (10, 9)])
def test_what_a_fault_keeps_from_being_read_no_longer_counts_as_read(until: int, read: int):
    found = scan((3, 12))
    found.offsets.until = {P: until}

    assert still_read(READ, found).read == {P: read}


# -- partitions that are new ------------------------------------------------------------------------------------------


def test_a_new_partition_has_its_first_offset_before_any_of_it_is_consumed():
    assert begun(StreamCursor({Q: 7}, begins={Q: 2}), scan((3, 9))) == StreamCursor({Q: 7, P: 3}, begins={Q: 2, P: 3})
    assert begun(CONSUMED, scan((1, 9))) == CONSUMED


@pytest.mark.parametrize(("until", "is_there"), [(2, False), (3, True), (4, True)])
def test_a_new_partition_with_a_fault_before_its_first_offset_is_left_out(until: int, is_there: bool):
    found = scan((3, 9))
    found.offsets.until = {P: until}

    assert begun(StreamCursor(), found) == (StreamCursor({P: 3}, begins={P: 3}) if is_there else StreamCursor())


def test_a_capture_without_any_message_of_a_partition_has_lost_them():
    assert gone(CONSUMED, StreamScan()) == P
