"""One step over many Avro messages at once: each lane has its number, its bytes, or fails alone."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.protocols.formats.avro import batches as avro_batches
from ticdc_assets.protocols.formats.avro.batches import (
    AvroBatchReader,
    ByteSlab,
    concatenated,
    groups,
    in_large_groups,
    varints,
    zigzag,
)


def lanes_of(*messages: bytes) -> AvroBatchReader:
    slab = ByteSlab(pa.array([b"before", *messages, b"behind"], pa.binary()).slice(1, len(messages)))
    return AvroBatchReader(slab, slab.starts.copy(), slab.ends)


def passed(lanes: AvroBatchReader) -> list[int | None]:
    """How many bytes each lane has passed; None where it has failed, at its end then."""
    sizes = (lanes.at - lanes.slab.starts).tolist()
    assert (lanes.at[~lanes.ok] == lanes.end[~lanes.ok]).all()
    return [size if ok else None for size, ok in zip(sizes, lanes.ok.tolist(), strict=True)]


def long(number: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


EDGES = [n for bits in range(0, 63, 7) for n in (0, (1 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1)]
NUMBERS = sorted({*EDGES, *(n * 2 for n in EDGES), (1 << 63) - 1, -(1 << 63)})


def test_numbers_of_any_length_are_read_together():
    lanes = lanes_of(*map(long, NUMBERS))

    assert lanes.long().tolist() == NUMBERS
    assert passed(lanes) == [len(long(number)) for number in NUMBERS]
    lanes.fail_unfinished()
    assert lanes.ok.all()
    for number in NUMBERS:
        alone = lanes_of(long(number))
        assert (alone.long().tolist(), passed(alone)) == ([number], [len(long(number))])


def test_a_number_that_is_cut_or_longer_than_64_bits_fails_alone():
    messages = [long(5), b"", b"\x80", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 10, b"\x80" * 9 + b"\0"]
    lanes = lanes_of(*messages)

    numbers = lanes.long()

    assert passed(lanes) == [1, None, None, 10, None, None, 10]
    assert numbers[[0, 3, 6]].tolist() == [5, -(1 << 63), 0]


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 9, 10], [2, 3, 8]])
def test_lanes_that_are_not_active_stay_where_they_are(sizes: list[int]):
    numbers = [5 if size == 1 else min(1 << 7 * size - 2, (1 << 63) - 1) for size in sizes]
    active = np.array([True, False, True])
    lanes = lanes_of(*map(long, numbers))
    assert lanes.end.tolist() == (lanes.at + sizes).tolist()

    found = lanes.long(active)

    assert found[active].tolist() == [numbers[0], numbers[2]]
    assert passed(lanes) == [len(long(numbers[0])), 0, len(long(numbers[2]))]
    broken = lanes_of(b"\x80" * 10, b"\x80" * 10, b"\x02")
    broken.long(active)
    assert passed(broken) == [None, 0, 1]


def test_a_small_number_has_one_byte():
    lanes = lanes_of(b"\0", b"\x02", b"\x7e", b"\x01", b"\x80\0", b"")

    assert lanes.small()[:3].tolist() == [0, 1, 63]
    assert passed(lanes) == [1, 1, 1, None, None, None]


def test_bytes_are_as_many_as_they_say():
    lanes = lanes_of(b"\x04abc", b"\0", b"\x06ab", b"\x01", b"", long(70) + b"x" * 70)

    start, length = lanes.blob()

    assert passed(lanes) == [3, 1, None, None, None, 72]
    pieces = lanes.slab.pieces(start, length, lanes.ok).to_pylist()
    assert pieces == [b"ab", b"", None, None, None, b"x" * 70]
    some = lanes_of(b"\x04ab", b"\x04ab", b"\x06ab")
    _, length = some.blob(np.array([True, False, False]))
    assert (length.tolist(), passed(some)) == ([2, 0, 0], [3, 0, 0])


def test_a_step_beyond_the_end_fails():
    lanes = lanes_of(b"abc", b"ab", b"a")

    assert (lanes.skip(2) - lanes.slab.starts).tolist() == [0, 0, 0]
    assert passed(lanes) == [2, 2, None]
    lanes.fail_unfinished()
    assert passed(lanes) == [None, 2, None]
    assert len(lanes) == 3


def test_some_lanes_are_read_apart_and_put_back():
    lanes = lanes_of(b"\x02\x04", b"\x06\x08", b"\x0a\x80")
    some = lanes.select(np.array([0, 2]))

    assert some.long().tolist() == [1, 5]
    some.small()
    lanes.put(np.array([0, 2]), some)

    assert passed(lanes) == [2, 0, None]


@pytest.mark.parametrize("size", range(1, 17))
def test_a_number_of_up_to_sixteen_bytes_is_read_from_its_end(size: int):
    top = 1 << 8 * size - 1
    numbers = [0, 1, -1, top - 1, -top, top // 3]
    slab = lanes_of(*(number.to_bytes(size, "big", signed=True) for number in numbers)).slab

    high, low = slab.big_endian(slab.ends, np.full(len(numbers), size))

    assert [(int(h) << 64) + int(w) for h, w in zip(high, low, strict=True)] == numbers


def test_pieces_are_copied_without_the_gaps_between():
    slab = lanes_of(b"abcdef", b"ghi").slab
    starts = np.array([slab.starts[0] + 1, slab.starts[0] + 3, slab.starts[1]])

    assert slab.pieces(starts, np.array([2, 0, 3])).to_pylist() == [b"bc", b"", b"ghi"]
    valid = np.array([True, False, True])
    assert slab.pieces(starts, np.array([2, 0, 3]), valid).to_pylist() == [b"bc", None, b"ghi"]
    assert slab.pieces(starts[:0], starts[:0]).to_pylist() == []
    nothing = ByteSlab(pa.array([b"", b""], pa.binary()))
    assert (nothing.starts == nothing.ends).all()


def test_every_byte_of_a_slab_can_be_read_as_a_long_name_and_a_number():
    """There is room for 128 bytes in front of the first entry and behind the last one."""
    slab = ByteSlab(pa.array([b"x"], pa.binary()))

    assert (int(slab.starts[0]), len(slab.data)) == (128, 257)
    assert len(slab.words) == len(slab.data) - 7
    assert int(slab.words[128]) == ord("x")


def test_unsigned_numbers_stand_for_signed_ones_in_turn():
    assert zigzag(np.array([0, 1, 2, 3, (1 << 64) - 2, (1 << 64) - 1], np.uint64)).tolist() == [
        0, -1, 1, -2, (1 << 63) - 1, -(1 << 63),
    ]  # fmt: skip
    slab = lanes_of(b"\x80" * 12).slab
    assert varints(slab, slab.starts)[1].tolist() == [0]


def test_keys_are_grouped_with_their_places():
    keys = np.array([7, 3, 7, 3, 5])

    assert [(key, places.tolist()) for key, places in groups(keys)] == [(3, [1, 3]), (5, [4]), (7, [0, 2])]
    assert list(groups(keys[:0])) == []
    assert concatenated([keys[:2], keys[4:]]).tolist() == [7, 3, 5]
    assert concatenated([]).tolist() == []


def test_only_the_most_frequent_keys_are_read_in_bulk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(avro_batches, "GROUPS_MAX", 2)

    found: Any = in_large_groups(np.array([1, 2, 2, 3, 3, 3, 1, 1, 4]))

    assert found.tolist() == [True, False, False, True, True, True, True, True, False]
    assert in_large_groups(np.array([4, 5])).all()
