"""Lines and frames have their bounds, and what is not UTF-8 is refused, as Python's decoder says."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.json_messages import bodies
from ticdc_assets.protocols.formats.bodies import frames
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.lines_and_frames import FRAMES_MAX, line_bounds
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.open_protocol.bulk import split, texts_of
from ticdc_assets_tests.protocols.formats.written import framed

COMPILES = settings(deadline=None, max_examples=500)
EDGES = [0x00, 0x0A, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC]
EDGES += [0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
CHARACTERS = st.sampled_from(
    ["a", "\n", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "x" * 29]
)
PIECES = st.one_of(CHARACTERS.map(str.encode), st.sampled_from(EDGES).map(lambda byte: bytes([byte])))


def bounds_of(block: bytes) -> list[int] | None:
    found = line_bounds(np.frombuffer(block, np.uint8))
    return None if found is None else list(found)


def expected(block: bytes) -> list[int] | None:
    try:
        block.decode()
    except UnicodeDecodeError:
        return None
    return [0, *itertools.accumulate(len(line) for line in block.split(b"\n")[:-1] for line in [line + b"\n"])]


@COMPILES
@given(st.lists(CHARACTERS.map(str.encode), max_size=60).map(b"".join))
def test_each_line_of_utf_8_has_its_bounds(block: bytes):
    assert bounds_of(block) == expected(block) is not None


@COMPILES
@given(st.lists(PIECES, max_size=60).map(b"".join))
def test_what_python_cannot_decode_is_refused_and_nothing_else(block: bytes):
    assert bounds_of(block) == expected(block)


def test_every_character_of_two_bytes_to_four_is_judged_wherever_it_lies():
    """All sequences of edges, at the border of what is looked at together and at the block's end."""
    for length in (1, 2, 3):
        for begin in itertools.product(EDGES, repeat=length):
            for before, behind in ((VECTOR - 2, b""), (VECTOR - 1, b"\x80"), (2 * VECTOR - 3, b"\x80" + b" " * VECTOR)):
                block = b" " * before + bytes(begin) + behind
                assert bounds_of(block) == expected(block)


def test_short_lines_are_found_too():
    assert bounds_of(b"\n" * 5000) == list(range(5001))
    assert bounds_of(b"a\n" * 300 + b"b") == list(range(0, 601, 2))


BODY_PARTS = st.sampled_from(
    [b"a" * 30, b"a", "é".encode(), "€".encode(), "𝄞".encode(), b"\xff", b"\xe2\x82", b"\xed\xa0\x80"]
)
BODIES = st.lists(st.lists(BODY_PARTS, max_size=5).map(lambda pieces: b"{" + b"".join(pieces)) | st.binary(max_size=3))


@settings(deadline=None)  # the first call compiles
@given(BODIES)
@example([b"{" + b"a" * 30 + "€".encode(), b"{" + b"a" * 29 + b"\xe2\x82", b"\xac"])
def test_texts_of_frames_are_the_objects_in_utf8(parts):
    frames, _ = split(pa.array([framed(part) for part in parts], pa.binary()), b"")
    texts = texts_of(frames, Compression.NONE)
    found, of_frame = bodies(pa.array(parts, pa.binary()), Compression.NONE)

    assert texts.frame.tolist() == of_frame.tolist()
    assert found.to_pylist() == [
        texts.data[start:end].tobytes() for start, end in zip(texts.starts, texts.ends, strict=True)
    ]


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY])
@pytest.mark.parametrize("prefix", [b"", b"\0\1"])
def test_texts_of_compressed_frames_are_those_of_their_bodies(compression: Compression, prefix: bytes):
    texts = [[b'{"a":1}', b"{" + b"x" * 99, b"{}"], [b"[]", b'{"b":2}'], []]
    codec = pa.Codec(compression.value)
    packed = [[codec.compress(text, asbytes=True) for text in of_message] for of_message in texts]
    frames, counts = split(pa.array([prefix + framed(*parts) for parts in packed], pa.binary()), prefix)
    assert counts.tolist() == [3, 2, 0]

    found = texts_of(frames, compression)

    read = [found.data[start:end].tobytes() for start, end in zip(found.starts, found.ends, strict=True)]
    assert dict(zip(found.frame.tolist(), read, strict=True)) == {
        0: texts[0][0],
        1: texts[0][1],
        2: b"{}",
        4: b'{"b":2}',
    }
    assert frames.bodies.to_pylist() == [part for parts in packed for part in parts]


def test_some_messages_have_their_frames_alone():
    frames, _ = split(pa.array([framed(b"{}"), framed(b"{a}", b"{b}"), framed(b"{c}")], pa.binary()), b"")

    assert frames.of(np.array([True, True, True])) is frames
    some = frames.of(np.array([False, True, False]))
    assert (some.bodies.to_pylist(), some.message.tolist(), some.ordinal.tolist()) == ([b"{a}", b"{b}"], [1, 1], [0, 1])


@pytest.mark.parametrize(("count", "found"), [(FRAMES_MAX, FRAMES_MAX), (FRAMES_MAX + 1, 0)])
def test_a_message_of_more_frames_than_are_usual_is_left(count, found):
    _, counts = split(pa.array([framed(*[b"{}"] * count), framed(b"{}")], pa.binary()), b"")

    assert counts.tolist() == [found, 1]


@pytest.mark.parametrize("length", [b"\xff" * 8, b"\x7f" + b"\xff" * 7, (3).to_bytes(8, "big"), b"\0" * 7])
def test_a_message_whose_lengths_do_not_fit_has_no_frames(length):
    frames, counts = split(pa.array([framed(b"{}") + length + b"{}"[: len(length) - 6], framed(b"{}")]), b"")

    assert counts.tolist() == [0, 1]
    assert np.array_equal(frames.message, [1])


@pytest.mark.parametrize(("message", "count"), [(b"\0\1" + framed(b"{}"), 1), (b"\0\2" + framed(b"{}"), 0), (b"\0", 0)])
def test_frames_follow_the_prefix(message, count):
    _, counts = split(pa.array([message, None], pa.binary()), b"\0\1")

    assert counts.tolist() == [count, 0]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.binary(max_size=20),
            st.lists(st.binary(max_size=4), max_size=4).map(lambda bodies: framed(*bodies)),
        )
    )
)
def test_frames_of_a_batch_are_those_of_each_message(messages):
    found, counts = split(pa.array(messages, pa.binary()), b"")

    wanted = [_frames(message) for message in messages]
    assert [len(bodies) for bodies in wanted] == counts.tolist()
    assert [body for bodies in wanted for body in bodies] == found.bodies.to_pylist()


def _frames(message: bytes | None) -> list[bytes]:
    try:
        return list(frames(message or b"", "here"))
    except DecodeError:
        return []
