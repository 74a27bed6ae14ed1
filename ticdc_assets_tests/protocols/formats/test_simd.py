"""Many bytes at a time: as machine code and, where nothing is compiled, as Python."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.formats.simd import VECTOR, below, copied, differing, equal, lowest

BYTES = st.lists(st.integers(0, 255), min_size=2 * VECTOR, max_size=2 * VECTOR)
PLACES = st.integers(0, VECTOR)
COMPILES = settings(deadline=None, max_examples=50)


@numba.njit
def compared(data, at, byte):
    return equal(data, at, byte), below(data, at, byte)


@numba.njit
def unlike(data, at, other, start):
    return differing(data, at, other, start)


@numba.njit
def copy(data, at, into, place):
    copied(data, at, into, place)


@numba.njit
def first(bits):
    return lowest(bits)


def bits_of(found: list[bool]) -> int:
    return sum(1 << place for place, is_so in enumerate(found) if is_so)


@COMPILES
@given(given=BYTES, at=PLACES, byte=st.integers(0, 255))
def test_bytes_are_compared_with_one(given: list[int], at: int, byte: int):
    data = [*given[:-1], byte]
    seen = data[at : at + VECTOR]

    equal_ones, lesser_ones = compared(np.array(data, np.uint8), at, byte)

    assert equal_ones == bits_of([one == byte for one in seen])
    assert lesser_ones == bits_of([one < byte for one in seen])


@COMPILES
@given(given=BYTES, at=PLACES, start=PLACES, other=BYTES)
def test_bytes_are_compared_with_others(given: list[int], at: int, start: int, other: list[int]):
    others = other[:VECTOR] + given[VECTOR:]
    pairs = zip(given[at : at + VECTOR], others[start : start + VECTOR], strict=True)

    found = unlike(np.array(given, np.uint8), at, np.array(others, np.uint8), start)

    assert found == bits_of([one != another for one, another in pairs])


@COMPILES
@given(given=BYTES, at=PLACES, place=PLACES)
def test_bytes_are_copied_and_nothing_else_is_touched(given: list[int], at: int, place: int):
    into = np.zeros(2 * VECTOR, np.uint8)
    copy(np.array(given, np.uint8), at, into, place)

    assert list(into) == [0] * place + given[at : at + VECTOR] + [0] * (VECTOR - place)


@COMPILES
@given(st.integers(0, VECTOR - 1), st.integers(0, (1 << VECTOR) - 1))
def test_the_lowest_bit_is_found(lowest_bit: int, higher: int):
    assert first((higher << lowest_bit | 1 << lowest_bit) & ((1 << VECTOR) - 1)) == lowest_bit


def test_compiled_loops_also_run_as_python():
    if numba.config.DISABLE_JIT:
        assert isinstance(equal, type(lambda: None))
        return
    environ = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    files = [str(Path(__file__).parent / name) for name in ("test_simd.py", "json/test_texts.py")]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]

    found = subprocess.run(tests, env=environ, capture_output=True, text=True, timeout=120, check=False)

    assert found.returncode == 0, found.stdout
