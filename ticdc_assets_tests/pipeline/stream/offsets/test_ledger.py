"""The ledger of a capture's offsets: which it has, which are missing, and which have changed."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.config.model.config import OffsetRule
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ledger import DIGESTS_MAX, CaptureFault, Ledger
from ticdc_assets.sources.capture import Message, MessagePosition, digest_of
from ticdc_assets.sources.message_block import MessageBlock

P, Q = ("feed", 0), ("feed", 1)


def message(offset: int, value: bytes = b"", partition: tuple[str, int] = P) -> Message:
    return Message(*partition, offset, None, value, 0)


def ledger(*offsets: int, known: dict[int, str] | None = None) -> Ledger:
    made = Ledger({P: known} if known else {})
    for offset in offsets:
        made.add(P, message(offset))
    return made


def faults(
    made: Ledger, cursor: StreamCursor, *rules: OffsetRule, in_order: bool = False, differing: int | None = None
) -> list[CaptureFault]:
    return list(made.faults(cursor, rules, {} if differing is None else {P: differing}, in_order=in_order))


def test_a_capture_without_gaps_has_no_fault():
    assert faults(ledger(5, 6, 7), StreamCursor()) == []
    assert faults(ledger(5, 6, 7), StreamCursor({P: 5})) == []
    assert faults(ledger(5, 6, 7), StreamCursor({P: 8})) == []
    assert faults(ledger(6, 5, 7), StreamCursor({P: 5})) == []


@pytest.mark.parametrize(
    ("offsets", "first", "found", "count", "rule"),
    [
        ((5, 7), 6, 7, "1 message is", "feed[0]@6"),
        ((5, 8), 6, 8, "2 messages are", "feed[0]@6-7"),
        ((6, 7), 5, 6, "1 message is", "feed[0]@5"),
        ((5, 7, 9), 6, 7, "1 message is", "feed[0]@6"),
    ],
)
def test_the_first_missing_offset_is_reported_and_stops_the_partition(
    offsets: tuple[int, ...], first: int, found: int, count: str, rule: str
):
    [fault] = faults(ledger(*offsets), StreamCursor({P: 5}))

    assert (fault.partition, fault.until) == (P, first)
    assert f"feed[0]: expected offset {first} next, found {found}: {count} missing, " in fault.note.detail
    assert f'"{rule}"' in fault.note.detail


def test_offsets_that_the_user_accepts_are_not_missing():
    accepted = OffsetRule("feed", 0, 6, 8)

    assert faults(ledger(5, 8), StreamCursor({P: 5}), accepted) == []
    assert [fault.until for fault in faults(ledger(5, 9), StreamCursor({P: 5}), accepted)] == [8]
    assert [fault.until for fault in faults(ledger(5, 8), StreamCursor({P: 5}), OffsetRule("feed", 1, 6, 8))] == [6]


@pytest.mark.parametrize(
    ("cursor", "until"),
    [
        (StreamCursor(), []),
        (StreamCursor({Q: 9}), [0]),
        (StreamCursor({Q: 9}, begins={Q: 1}), []),
        (StreamCursor({("other", 1): 9}), []),
    ],
)
def test_a_new_partition_begins_at_0_where_the_others_of_its_topic_did(cursor: StreamCursor, until: list[int]):
    assert [fault.until for fault in faults(ledger(3, 4), cursor)] == until


def test_a_consumed_message_that_is_another_now_stops_its_partition():
    same, other = digest_of(message(2)), digest_of(message(2, b"x"))

    assert faults(ledger(1, 2, 3, known={2: same}), StreamCursor({P: 3})) == []
    [fault] = faults(ledger(1, 2, 3, known={2: other}), StreamCursor({P: 3}))
    assert (fault.partition, fault.until) == (P, 3)
    assert "expected the message at offset 2 that an earlier run has read, found another" in fault.note.detail


def test_a_partition_that_no_run_has_read_stops_before_its_first_message():
    in_order = faults(ledger(1, 0), StreamCursor(), in_order=True)

    for cursor, until in ((StreamCursor(), 0), (StreamCursor({P: 2}), 2)):
        assert [fault.until for fault in faults(ledger(0, 1), cursor, differing=1)] == [until]
    assert [fault.until for fault in in_order] == [0]


def test_the_first_message_is_compared_too():
    [fault] = faults(ledger(2, 3, known={2: "x", 3: "y"}), StreamCursor({P: 4}))

    assert "offset 2 " in fault.note.detail


def test_a_message_that_comes_twice_is_counted_once_and_compared():
    made = ledger(1, 2)

    assert made.has_twice is False
    assert made.add(P, message(2)) is False
    assert made.has_twice is True
    assert made.differing([message(1), message(2)]) == {}
    assert made.differing([message(1), message(2, b"x"), message(2, b"y")]) == {P: 2}
    [fault] = faults(made, StreamCursor({P: 1}), differing=2)
    assert (fault.until, "found two different ones" in fault.note.detail) == (1, True)


@pytest.mark.parametrize(
    ("offsets", "cursor", "sentence"),
    [
        ((1, 2, 3), StreamCursor({P: 4}), None),
        ((1, 3, 2), StreamCursor({P: 1}), "found 2 after 3"),
        ((2, 1, 3, 0), StreamCursor({P: 1}), "found 1 after 2"),
        ((1, 2, 3), StreamCursor({P: 4}, begins={P: 1}), None),
        ((1, 2, 3), StreamCursor({P: 4}, begins={P: 2}), "found 1 after 4"),
    ],
)
def test_offsets_out_of_order_are_a_fault_where_only_order_tells_what_came_first(
    offsets: tuple[int, ...], cursor: StreamCursor, sentence: str | None
):
    found = faults(ledger(*offsets), cursor, in_order=True)

    assert [sentence in fault.note.detail for fault in found if sentence] == [True] * bool(sentence)
    assert len(found) == bool(sentence)


@pytest.mark.parametrize("count", [1, 16, 17, 33, 34, 100, 1000])
def test_digests_are_few_spread_evenly_and_have_the_first(count: int):
    """Those at multiples of a power of two, so that the digests of two captures are of the same offsets."""
    made = ledger(*range(3, 3 + count))
    kept = made.digests(P, 3 + count)

    step = min((offset & -offset for offset in kept if offset != 3), default=1)
    assert set(kept) == {3} | {offset for offset in range(3, 3 + count) if offset % step == 0}
    assert min(count, DIGESTS_MAX // 2) <= len(kept) <= DIGESTS_MAX + 1
    assert kept == {offset: digest_of(message(offset)) for offset in kept}


@pytest.mark.parametrize(("count", "kept"), [(DIGESTS_MAX, 16), (DIGESTS_MAX + 1, 17), (DIGESTS_MAX + 2, 9)])
def test_digests_are_thinned_only_where_they_are_more_than_the_bound_and_the_first(count: int, kept: int):
    assert len(ledger(*range(count)).digests(P, count)) == kept


def test_digests_are_of_messages_before_the_end_and_of_earlier_captures():
    made = ledger(4, 5, 6, known={1: "x"})

    assert made.digests(P, 6) == {1: "x", 4: digest_of(message(4)), 5: digest_of(message(5))}
    assert made.digests(Q, 6) == {}


def test_ranges_of_consumed_messages_count_as_in_the_capture():
    made = Ledger()
    made.add_range(P, 3, 6)
    made.add_range(P, 6, 8)
    made.add(Q, message(5, partition=Q))

    assert (made.ranges(P), made.ranges(Q), made.ranges(("other", 0))) == ([(3, 8)], [(5, 6)], [])
    assert (made.partitions, made.begins()) == ({P, Q}, {P: 3, Q: 5})


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 120)), min_size=1, max_size=150), st.integers(1, 60))
def test_blocks_are_added_like_their_messages_one_by_one(sent: list[tuple[int, int]], length: int):
    """Also with offsets that repeat, that go back, and that have gaps."""
    messages = [message(offset, bytes([offset % 7]), ("feed", number)) for number, offset in sent]
    known = {P: {3: digest_of(message(3, b"\3")), 5: "another"}}
    single, whole = Ledger(known), Ledger(known)
    first = [single.add((m.topic, m.partition), m) for m in messages]

    found = []
    for at in range(0, len(messages), length):
        placed = [(MessagePosition(0, 0, at), m) for m in messages[at : at + length]]
        found += whole.add_block(MessageBlock.of(placed)).tolist()

    assert found == first
    assert state(whole) == state(single)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=400), st.integers(1, 100))
def test_ascending_blocks_are_added_like_their_messages_one_by_one(steps: list[int], length: int):
    messages = [message(offset, bytes([offset % 7])) for offset in accumulate(steps)]
    single, whole = Ledger(), Ledger()
    for one in messages:
        single.add(P, one)
    for at in range(0, len(messages), length):
        whole.add_block(MessageBlock.of([(MessagePosition(), m) for m in messages[at : at + length]]))

    assert state(whole) == state(single)


@pytest.mark.parametrize("sent", [(5, 6, 6, 7), (5, 7, 6, 8), (5, 5), (6, 5), (5, 6, 7, 6)])
def test_a_block_with_an_offset_that_comes_twice_or_late_is_added_like_its_messages(sent: tuple[int, ...]):
    messages = [message(offset) for offset in sent]
    whole, single = Ledger(), Ledger()

    first = whole.add_block(MessageBlock.of([(MessagePosition(0, n, n), m) for n, m in enumerate(messages)]))

    assert first.tolist() == [single.add(P, each) for each in messages]
    assert state(whole) == state(single)


def state(made: Ledger) -> list[object]:
    """Everything that later decisions use."""
    faults = list(made.faults(StreamCursor(), (), {}, in_order=True))
    of_partitions = [(p, made.ranges(p), made.digests(p, 1 << 40)) for p in sorted(made.partitions)]
    return [of_partitions, made.differing(()), faults]
