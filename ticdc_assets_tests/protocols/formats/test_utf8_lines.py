"""Blocks of lines: every line has its bounds, and what is not UTF-8 is refused, as Python's decoder says."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.utf8_lines import line_bounds

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
