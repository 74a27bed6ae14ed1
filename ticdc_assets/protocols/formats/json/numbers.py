"""The numbers of JSON texts, as Go writes them. All functions are compiled (see `formats.jit`).

`at` is the offset at which a number begins, `end` the end of the text.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import signed
from ticdc_assets.protocols.formats.string_arrays import Bytes
from ticdc_assets.tso import INT64_MAX

_ZERO, _NINE, _MINUS, _DOT, _E, _PLUS, _ONE, _SIX = b"09-.e+16"
_SAFE_DIGITS: Final = 18
"""Any number of this many digits fits 64 bits."""
CODE_MAX: Final = 10**9 - 1
_DIGITS_MAX: Final = 21
_FRACTION_DIGITS_MAX: Final = 30
"""No float that Go writes has more digits."""
_UINT64_MAX_DIGITS: Final = np.frombuffer(b"18446744073709551615", np.uint8)
_INT64_MIN_DIGITS: Final = np.frombuffer(b"9223372036854775808", np.uint8)
_EXPONENT_DIGITS_MAX: Final = 3
_SAFE_EXPONENT: Final = np.frombuffer(b"307", np.uint8)
_LARGEST_EXPONENT: Final = np.frombuffer(b"308", np.uint8)
_LARGEST_FRACTION: Final = np.frombuffer(b"7976931348623157", np.uint8)
"""1.7976931348623157e+308 is the largest float, with any smaller exponent all digits are finite."""


@inlined
def read_count(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The offset after a whole number of at most `most`, or -1; and the number."""
    start, value = at, 0
    while at < end and _ZERO <= data[at] <= _NINE:
        digit = signed(data[at]) - _ZERO
        if at - start >= _SAFE_DIGITS and value > (INT64_MAX - digit) // 10:
            return -1, 0
        value = value * 10 + digit
        at += 1
    if at == start or value > most or (at - start > 1 and data[start] == _ZERO):
        return -1, 0
    return at, value


@inlined
def read_integer(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The offset after a whole number that may be negative, or -1; and the number."""
    if at >= end or data[at] != _MINUS:
        return read_count(data, at, end, INT64_MAX)
    after, value = read_count(data, at + 1, end, INT64_MAX)
    return after if value else -1, -value


@inlined
def after_code(data: Bytes, at: int, end: int) -> int:
    """The offset after a small number, or -1."""
    if at < end and data[at] == _MINUS:
        if at + 1 < end and data[at + 1] == _ZERO:
            return -1
        at += 1
    start = at
    at, _ = read_count(data, at, end, CODE_MAX)
    return at if at > start else -1


@compiled
def after_number(data: Bytes, at: int, end: int) -> int:
    """The offset after a number that Go writes, or -1: a whole one of 64 bits, or a finite float.

    A whole float without an exponent is read only if it has 21 digits, which no integer has.
    """
    is_negative = at < end and data[at] == _MINUS
    start = at + is_negative
    at = _after_digits(data, start, end)
    size = at - start
    if size == 0 or size > _DIGITS_MAX or (size > 1 and data[start] == _ZERO):
        return -1
    if at >= end or (data[at] != _DOT and data[at] != _E):
        return at if size == _DIGITS_MAX or _is_of_64_bits(data, start, at, is_negative) else -1
    if data[at] == _DOT:
        fraction = at + 1
        at = _after_digits(data, fraction, end)
        if not 0 < at - fraction <= _FRACTION_DIGITS_MAX:
            return -1
        if at >= end or data[at] != _E:
            return at
    return _after_exponent(data, start, at, end) if size == 1 and data[start] != _ZERO else -1


@inlined
def _after_digits(data: Bytes, at: int, end: int) -> int:
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@inlined
def _is_of_64_bits(data: Bytes, start: int, end: int, is_negative: bool) -> bool:
    """Whether digits stand for a number of 64 bits, signed or not; there is no negative zero."""
    if is_negative:
        is_short = end - start <= _SAFE_DIGITS and data[start] != _ZERO
        return is_short or _is_at_most(data, start, end, _INT64_MIN_DIGITS)
    return end - start <= _SAFE_DIGITS + 1 or _is_at_most(data, start, end, _UINT64_MAX_DIGITS)


@inlined
def _after_exponent(data: Bytes, start: int, at: int, end: int) -> int:
    """The offset after a float whose digits begin at `start` and whose exponent begins at `at`, or -1."""
    if at + 1 >= end or (data[at + 1] != _PLUS and data[at + 1] != _MINUS):
        return -1
    after = _after_digits(data, at + 2, end)
    size = after - at - 2
    if size < 1 or size > _EXPONENT_DIGITS_MAX:
        return -1
    if data[at + 1] == _MINUS or size < _EXPONENT_DIGITS_MAX or _is_at_most(data, at + 2, after, _SAFE_EXPONENT):
        return after
    is_finite = data[start] == _ONE and (
        at == start + 1 or data[start + 2] <= _SIX or _is_at_most(data, start + 2, at, _LARGEST_FRACTION)
    )
    return after if is_finite and _is_at_most(data, at + 2, after, _LARGEST_EXPONENT) else -1


@inlined
def _is_at_most(data: Bytes, start: int, end: int, bound: Bytes) -> bool:
    """Whether the digits are as many as those of `bound` and stand for a number that is not larger."""
    if end - start != len(bound):
        return False
    for place in range(len(bound)):
        if data[start + place] < bound[place]:
            return True
        if data[start + place] > bound[place]:
            return False
    return True
