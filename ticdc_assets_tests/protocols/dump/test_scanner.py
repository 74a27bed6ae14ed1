"""Where the rows and fields of a dump's files lie, and why a scan of them ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ticdc_assets.protocols.dump.scanner import (
    BARE,
    CUT,
    FULL,
    HEX,
    NO_QUOTE,
    OTHER_FORM,
    QUOTED,
    scan_csv,
    scan_inserts,
)
from ticdc_assets.protocols.formats.string_arrays import IS_NULL

PREFIX = b"INSERT INTO `t` VALUES\n"
INSERTS = PREFIX + rb"(1,'a','b''c',x'61',NULL)," + b"\n" + rb"(-2.5,'',NULL,'d','e');" + b"\n"


def bytes_of(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def inserts(data: bytes, *, rows: int = 9, columns: int = 5, backslashes: bool = False) -> tuple[list[Any], int, Any]:
    """The rows that were found, each as its fields' texts, why the scan ended, and the forms of the columns."""
    places, bounds, forms = (
        np.zeros((rows, columns, 2), np.int64),
        np.zeros(rows + 1, np.int64),
        np.zeros(columns, np.uint8),
    )
    count, why = scan_inserts(bytes_of(data), 0, backslashes, bytes_of(PREFIX), places, bounds, forms)
    return texts(data, places[:count]), why, (forms.tolist(), bounds[: count + 1].tolist())


def texts(data: bytes, places: Any) -> list[list[Any]]:
    """The text of each field; with a mark where it has escapes, None where it is NULL."""
    return [[text(data, int(a), int(b)) for a, b in row] for row in places]


def text(data: bytes, begin: int, end: int) -> Any:
    if begin == IS_NULL:
        return None
    return data[begin:end] if end >= 0 else ("escapes", data[begin : -1 - end])


ROWS = [[b"1", b"a", ("escapes", b"b''c"), b"61", None], [b"-2.5", b"", None, b"d", b"e"]]


def test_rows_of_inserts_are_split_into_the_fields_that_they_have():
    found, why, (forms, bounds) = inserts(INSERTS)

    assert (found, why) == (ROWS, CUT)
    assert forms == [BARE, QUOTED, QUOTED, HEX | QUOTED, QUOTED]
    assert bounds == [0, INSERTS.index(b"\n(-2.5"), len(INSERTS) - 1]


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_scan_ends_where_as_many_rows_as_there_is_room_for_are_found(rows: int):
    assert inserts(INSERTS, rows=rows)[:2] == (ROWS[:rows], FULL)


def test_inserts_that_are_cut_at_any_byte_have_the_rows_before_it():
    ends = [INSERTS.index(b",\n(-2.5") + 1, INSERTS.index(b";") + 1]

    for size in range(len(INSERTS)):
        whole = sum(end <= size for end in ends)
        assert inserts(INSERTS[:size])[:2] == (ROWS[:whole], CUT), INSERTS[:size]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (b"(1)", [[b"1"]]),
        (b" (1)", OTHER_FORM),
        (b"('a')", [[b"a"]]),
        (b"(NULL)", [[None]]),
        (b"(NUL)", [[b"NUL"]]),
        (b"(NULLS)", [[b"NULLS"]]),
        (b"(null)", [[b"null"]]),
        (b"('NULL')", [[b"NULL"]]),
        (b"(x'00')", [[b"00"]]),
        (b"(x1)", [[b"x1"]]),
        (b"('')", [[b""]]),
        (b"(x'')", [[b""]]),
        (b"()", OTHER_FORM),
        (b"(1,2)", OTHER_FORM),
        (b"(1 'a')", OTHER_FORM),
        (b"('a'b)", OTHER_FORM),
        (b"(1\n)", OTHER_FORM),
        (b"1)", OTHER_FORM),
        (b"INSERT INTO `t` VALUES\n1)", OTHER_FORM),
        (b"INSERT INTO `u` VALUES\n(1)", OTHER_FORM),
        (b"(1) ", OTHER_FORM),
    ],
)
def test_a_value_is_quoted_hexadecimal_bare_or_null_and_else_of_another_form(row: bytes, found: Any):
    rows, why, _ = inserts(PREFIX + row + b";(3);", columns=1)

    assert (rows[:1], why) == (([], OTHER_FORM) if found == OTHER_FORM else (found, CUT))


@pytest.mark.parametrize(
    ("string", "backslashes", "found"),
    [
        (rb"a\'b", True, ("escapes", rb"a\'b")),
        (rb"a\\", True, ("escapes", rb"a\\")),
        (rb"a''b", True, OTHER_FORM),
        (rb"a''b", False, ("escapes", b"a''b")),
        (b"a\\", False, b"a\\"),
        (b"x" * 100 + b"''", False, ("escapes", b"x" * 100 + b"''")),
        (b"x" * 100 + rb"\n", True, ("escapes", b"x" * 100 + rb"\n")),
    ],
)
def test_a_quote_inside_a_string_is_escaped_in_one_of_two_ways(string: bytes, backslashes: bool, found: Any):
    rows, why, _ = inserts(PREFIX + b"('" + string + b"');", columns=1, backslashes=backslashes)

    assert (rows, why) == (([], OTHER_FORM) if found == OTHER_FORM else ([[found]], CUT))


def test_blanks_are_passed_between_rows_and_statements():
    data = b" \r\n" + PREFIX + b"(1), \n\r(2);\n" + PREFIX + b"(3);"

    assert inserts(data, columns=1)[:2] == ([[b"1"], [b"2"], [b"3"]], CUT)


# -- CSV --------------------------------------------------------------------------------------------------------------


def csv(
    data: bytes,
    *,
    quote: bytes = b'"',
    separator: bytes = b",",
    terminator: bytes = b"\r\n",
    backslashes: bool = True,
    rows: int = 9,
    columns: int = 2,
) -> tuple[list[Any], int]:
    places, bounds = np.zeros((rows, columns, 2), np.int64), np.zeros(rows + 1, np.int64)
    mark = quote[0] if quote else NO_QUOTE
    ends = (bytes_of(separator), bytes_of(terminator), bytes_of(b"\\N"))
    count, why = scan_csv(bytes_of(data), 0, mark, backslashes, *ends, places, bounds)
    assert bounds[:count].tolist() == sorted(bounds[:count].tolist())
    assert count == 0 or data[: bounds[count]].endswith(terminator)
    return texts(data, places[:count]), why


CSV = rb'1,"a"' + b"\r\n" + rb'\N,"b\"c"' + b"\r\n" + b'"",2\r\n'
CSV_ROWS = [[b"1", b"a"], [None, ("escapes", rb"b\"c")], [b"", b"2"]]


def test_rows_of_csv_are_split_into_the_fields_that_they_have():
    assert csv(CSV) == (CSV_ROWS, CUT)
    assert [csv(CSV, rows=rows) for rows in range(4)] == [(CSV_ROWS[:rows], FULL) for rows in range(4)]


def test_csv_that_is_cut_at_any_byte_has_the_rows_before_it():
    for size in range(len(CSV)):
        whole = CSV[:size].count(b"\r\n")
        assert csv(CSV[:size]) == (CSV_ROWS[:whole], CUT), CSV[:size]


@pytest.mark.parametrize(
    ("data", "options", "found"),
    [
        (b"1||2\n", {"separator": b"||", "terminator": b"\n"}, [[b"1", b"2"]]),
        (b"1|2||3\n", {"separator": b"||", "terminator": b"\n", "quote": b""}, [[b"1|2", b"3"]]),
        (b"1||-2.5e+7\n", {"separator": b"||", "terminator": b"\n"}, [[b"1", b"-2.5e+7"]]),
        (b"1,2\n3,4\r\n", {}, OTHER_FORM),
        (b"1,2,3\r\n", {}, OTHER_FORM),
        (b"1,2,3\r\n", {"quote": b""}, OTHER_FORM),
        (b"1\r\n2,3\r\n", {"quote": b""}, OTHER_FORM),
        (b"1,2\\,3\r\n", {"quote": b""}, [[b"1", ("escapes", b"2\\,3")]]),
        (b'"1"2,3\r\n', {}, OTHER_FORM),
        (b'1,"2"3\r\n', {}, OTHER_FORM),
        (b'"1""2",3\r\n', {}, OTHER_FORM),
        (b'"1""2",3\r\n', {"backslashes": False}, [[("escapes", b'1""2'), b"3"]]),
        (b"\\N,\\NN\r\n", {"quote": b""}, [[None, ("escapes", b"\\NN")]]),
        (b"\\N,\\NN\r\n", {}, OTHER_FORM),
        (b'"\\N",1\r\n', {}, [[("escapes", b"\\N"), b"1"]]),
        (b'"\\N",N\r\n', {}, OTHER_FORM),
        (b'"a",-\r\n', {}, OTHER_FORM),
        (b"a\\,b,c\r\n", {"quote": b""}, [[("escapes", b"a\\,b"), b"c"]]),
        (b"a\\,b\r\n", {"quote": b"", "backslashes": False}, [[b"a\\", b"b"]]),
        (b"a\\,b\r\n", {}, OTHER_FORM),
        (b",\r\n", {}, OTHER_FORM),
        (b",\r\n", {"quote": b""}, [[b"", b""]]),
        (b"\r\n", {"columns": 1, "quote": b""}, [[b""]]),
    ],
)
def test_a_field_ends_at_the_separator_or_with_its_quote(data: bytes, options: dict[str, Any], found: Any):
    rows, why = csv(data, **options)

    assert (rows, why) == (([], OTHER_FORM) if found == OTHER_FORM else (found, CUT))
