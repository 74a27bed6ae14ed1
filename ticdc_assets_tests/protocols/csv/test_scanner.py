"""Where the scanner of CSV files ends a record, a field and a scan, and where it finds the next byte that matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ticdc_assets.protocols.csv import scanner
from ticdc_assets.protocols.csv.scanner import CUT, FULL, NO_QUOTE, OTHER_FORM, scan
from ticdc_assets.protocols.dump import scanner as dump_scanner
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import IS_NULL


def bytes_of(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def scanned(
    data: bytes, *, quote: bytes = b'"', delimiter: bytes = b",", rows: int = 9, columns: int = 2
) -> tuple[list[Any], int]:
    """The fields of each record, marked where they have escapes, None where they are NULL; and why the scan ended."""
    places, bounds = np.zeros((rows, columns, 2), np.int32), np.zeros(rows + 1, np.int32)
    mark = quote[0] if quote else NO_QUOTE
    count, why = scan(bytes_of(data), 0, mark, bytes_of(delimiter), bytes_of(b"\\N"), places, bounds)
    assert count == 0 or data[: bounds[count]].endswith(b"\n")
    return [[field(data, int(a), int(b)) for a, b in row] for row in places[:count]], why


def field(data: bytes, begin: int, end: int) -> Any:
    if begin == IS_NULL:
        return None
    return data[begin:end] if end >= 0 else ("escapes", data[begin : -1 - end])


CSV = b'"a",1\r\n\\N,"b""c"\n"",-5\r\n'
ROWS = [[b"a", b"1"], [None, ("escapes", b'b""c')], [b"", b"-5"]]


def test_records_are_split_into_the_fields_that_they_have():
    assert scanned(CSV) == (ROWS, CUT)
    assert [scanned(CSV, rows=rows) for rows in range(4)] == [(ROWS[:rows], FULL) for rows in range(4)]


def test_a_file_that_is_cut_at_any_byte_has_the_records_before_it():
    for size in range(len(CSV)):
        assert scanned(CSV[:size]) == (ROWS[: CSV[:size].count(b"\n")], CUT), CSV[:size]


DOTS, SIGN = "¿".encode(), "€".encode()


@pytest.mark.parametrize(
    ("data", "options", "found"),
    [
        (b"1,2,3\n", {}, OTHER_FORM),
        (b"1\n2,3\n", {}, OTHER_FORM),
        (b'"1"2,3\n', {}, OTHER_FORM),
        (b'1"2,3\n', {}, OTHER_FORM),
        (b"1,2\r3,4\n", {}, OTHER_FORM),
        (b"1,2\r", {}, CUT),
        (b"\\N,1.5e-7\n", {}, [[None, b"1.5e-7"]]),
        (b"true,false\n", {}, [[b"true", b"false"]]),
        (b'"\\N",\\NN\n', {}, OTHER_FORM),
        (b"1,\n", {}, OTHER_FORM),
        (b"-,1\n", {}, OTHER_FORM),
        (b"truest,1\n", {}, OTHER_FORM),
        (b",\\NN\n", {"quote": b""}, OTHER_FORM),
        (b",x\n", {"quote": b""}, [[b"", b"x"]]),
        (b"1||2\n", {"delimiter": b"||"}, [[b"1", b"2"]]),
        (b"1|2||3\n", {"delimiter": b"||"}, [[b"1|2", b"3"]]),
        (b"1|", {"delimiter": b"||"}, CUT),
        (b"a\\,b,c\\n\n", {"quote": b""}, [[("escapes", b"a\\,b"), ("escapes", b"c\\n")]]),
        (b"a\\\\,\\r\n", {"quote": b""}, [[("escapes", b"a\\\\"), ("escapes", b"\\r")]]),
        (b'"a",\\N\n', {"quote": b""}, [[b'"a"', None]]),
        (b"a\\x,b\n", {"quote": b""}, OTHER_FORM),
        (b"a\\\n,b\n", {"quote": b""}, OTHER_FORM),
        (b"a\\\r,b", {"quote": b""}, OTHER_FORM),
        (b"a\\", {"quote": b""}, CUT),
        (b"a\\" + DOTS + b"b" + DOTS + b"c\n", {"quote": b"", "delimiter": DOTS}, [
            [("escapes", b"a\\" + DOTS + b"b"), b"c"]
        ]),
        (b"a\\" + SIGN + b"b" + SIGN + b"c\n", {"quote": b"", "delimiter": SIGN}, [
            [("escapes", b"a\\" + SIGN + b"b"), b"c"]
        ]),
        (b"a\\" + SIGN[:2] + b"b" + SIGN + b"c\n", {"quote": b"", "delimiter": SIGN}, OTHER_FORM),
        (b"a\\" + SIGN[:2], {"quote": b"", "delimiter": SIGN}, CUT),
    ],
)  # fmt: skip
def test_a_field_ends_at_the_delimiter_or_with_its_quote(data: bytes, options: dict[str, Any], found: Any):
    rows, why = scanned(data, **options)

    assert (rows, why) == ((found, CUT) if isinstance(found, list) else ([], found))


@pytest.mark.parametrize("size", [0, 1, VECTOR - 1, VECTOR, VECTOR + 1, 2 * VECTOR, 3 * VECTOR + 5])
def test_the_next_byte_that_matters_is_found_at_any_place_and_else_the_end(size: int):
    """The data are looked at in vectors, and behind the last one byte by byte."""
    mark, other = b'"|'
    finders = [
        (lambda data, at: scanner._next(data, at, mark), b'"'),
        (lambda data, at: scanner._stop(data, at, other, mark), b'"|\r\n'),
        (lambda data, at: dump_scanner._next(data, at, mark, other), b'"|'),
    ]
    for find, bytes_that_matter in finders:
        assert [find(bytes_of(b"x" * size), at) for at in range(size + 1)] == [size] * (size + 1)
        for byte in bytes_that_matter:
            for place in {0, size // 2, size - 1} & set(range(size)):
                data = bytes_of(b"x" * place + bytes([byte]) + b"x" * (size - place - 1))
                assert {find(data, at) for at in range(place + 1)} == {place}
                assert {find(data, at) for at in range(place + 1, size + 1)} <= {size}
