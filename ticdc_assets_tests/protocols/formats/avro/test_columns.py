"""A field of many Avro messages as a column: the values of the reader of single ones, and the lanes that fail."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.avro.batches import AvroBatchReader, ByteSlab
from ticdc_assets.protocols.formats.avro.columns import reader, texts
from ticdc_assets.protocols.formats.avro.reader import read_whole, reader_of


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def raw(of: Any, value: Any) -> bytes:
    """The bytes of a value; decimals are given as bytes."""
    plain = [_raw_type(one) for one in of] if isinstance(of, list) else _raw_type(of)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), value)
    return out.getvalue()


def _raw_type(of: Any) -> Any:
    return "bytes" if isinstance(of, dict) and "logicalType" in of else of


def read(of: Any, *messages: bytes) -> tuple[list[Any], list[bool]]:
    """The values of the lanes that did not fail, and which ones these are."""
    slab = ByteSlab(pa.array(messages, pa.binary()))
    lanes = AvroBatchReader(slab, slab.starts.copy(), slab.ends)
    step = reader(of)
    assert step is not None
    vector = step(lanes, None)
    lanes.fail_unfinished()
    rows = np.flatnonzero(lanes.ok)
    built = vector.build(rows)
    assert len(built.array) == len(rows)
    assert built.rows is None or vector.is_text
    found = [f"{value:f}" if isinstance(value, Decimal) else value for value in built.array.to_pylist()]
    if built.rows is not None:
        lanes.ok[rows[built.rows]] = False
        found = [value for value, is_bad in zip(found, built.rows.tolist(), strict=True) if not is_bad]
    return found, lanes.ok.tolist()


def agree(of: Any, *messages: bytes) -> list[bool]:
    """Which messages are read as the reader of single messages reads them; it refuses all others."""
    wanted, ok = [], []
    one = reader_of(of, "here")
    for message in messages:
        try:
            wanted.append(read_whole(one, message, "here"))
        except DecodeError:
            ok.append(False)
        else:
            ok.append(True)
    values, read_ones = read(of, *messages)
    assert read_ones == ok
    assert values == wanted
    return ok


VALUES: list[tuple[Any, list[Any]]] = [
    ("boolean", [True, False]), ("int", [5, -(1 << 31), (1 << 31) - 1]), ("long", [0, 1 << 62, -(1 << 63)]),
    ("float", [1.5, -0.25]), ("double", [1e300, -0.5]), ("bytes", [b"", b"\xff\0"]), ("string", ["", "é", "x" * 70]),
    (decimal(9, 2), [b"\x01\x00", b"\xff", b"\x80", b"\x7f" * 8]), (decimal(65, 30), [b"\x7f" * 27, b"\x80", b"\0"]),
    (decimal(38, 0), [(10**38 - 1 >> 1).to_bytes(16, "big"), b"\x00", (-5).to_bytes(16, "big", signed=True)]),
]  # fmt: skip


@pytest.mark.parametrize(("of", "values"), VALUES, ids=lambda part: str(part)[:20])
def test_a_column_has_each_value_and_null_where_the_branch_of_null_is_taken(of: Any, values: list[Any]):
    whole = [raw(of, value) for value in values]
    assert all(agree(of, *whole))
    for union in (["null", of], [of, "null"]):
        some = [raw(union, value) for value in (values[0], None, *values[1:], None)]
        assert all(agree(union, *some))
        assert all(agree(union, some[1], some[1]))
        assert all(agree(union, *some[::2]))
    assert all(agree([of], *[b"\0" + one for one in whole]))


@pytest.mark.parametrize(("of", "values"), VALUES, ids=lambda part: str(part)[:20])
def test_a_value_that_is_cut_or_longer_fails_alone(of: Any, values: list[Any]):
    message = raw(of, values[-1])
    broken = [message[:cut] for cut in range(len(message))] + [message + b"\0"]

    ok = agree(of, message, *broken, message)
    assert (ok[0], ok[-1]) == (True, True)
    union = agree(["null", of], b"\x02" + message, *(b"\x02" + one for one in broken), b"\0", b"\x04", b"\x01", b"")
    assert (union[0], union[-4:]) == (True, [True, False, False, False])


@pytest.mark.parametrize(
    ("of", "broken"),
    [
        ("boolean", b"\x02"), ("int", raw("long", 1 << 31)), ("int", raw("long", -(1 << 31) - 1)),
        ("string", b"\x02\xff"), ("string", b"\x04\xc3("), (decimal(9, 2), b"\0"), (decimal(65, 2), b"\0"),
        (decimal(65, 2), raw("bytes", bytes(65))),
    ],
)  # fmt: skip
def test_a_value_that_its_type_does_not_have_fails_alone(of: Any, broken: bytes):
    sound = raw(of, {"boolean": True, "int": 5, "string": "ab"}.get(of if isinstance(of, str) else "", b"\x05"))

    assert agree(of, sound, broken, sound) == [True, False, True]
    union = ["null", of]
    assert agree(union, b"\x02" + sound, b"\x02" + broken, b"\0") == [True, False, True]


def test_a_number_of_more_digits_than_arrow_holds_is_left_to_the_reader_of_single_messages():
    of = decimal(38, 0)
    sixteen = [number.to_bytes(16, "big", signed=True) for number in (10**38 - (1 << 65), -(10**38) + (1 << 65))]
    beyond = [number.to_bytes(16, "big", signed=True) for number in (10**38, -(10**38))] + [bytes(17)]
    messages = [raw(of, value) for value in (*sixteen, *beyond)]

    values, ok = read(of, *messages)

    assert (values, ok) == ([str(10**38 - (1 << 65)), str(-(10**38) + (1 << 65))], [True] * 2 + [False] * 3)


@pytest.mark.parametrize(
    "of",
    ["null", {"type": "array", "items": "int"}, ["null"], ["null", "int", "string"], ["int", "string"], [], 5,
     {"type": 5}, ["null", {"type": "map", "values": "int"}]],
)  # fmt: skip
def test_types_that_no_column_has_are_not_read(of: Any):
    assert reader(of) is None


def test_a_type_may_be_wrapped_in_an_object():
    assert read({"type": {"type": "int"}}, b"\x0a") == ([5], [True])
    assert read({"type": "bytes", "logicalType": "other"}, b"\x02a") == ([b"a"], [True])


def test_binary_values_are_text_where_they_are_utf8():
    assert texts(pa.array([b"a", None, "é".encode()])).rows is None
    found = texts(pa.array([b"a", b"\xff", None, "é".encode()]))
    assert found.rows is not None
    assert (found.array.to_pylist(), found.rows.tolist()) == (["a", None, None, "é"], [False, True, False, False])


def test_a_column_that_is_built_again_for_the_same_rows_is_kept():
    slab = ByteSlab(pa.array([b"\x02a", b"\x02b"]))
    step = reader("string")
    assert step is not None
    vector = step(AvroBatchReader(slab, slab.starts.copy(), slab.ends), None)
    rows, others = np.array([0]), np.array([1])

    first = vector.build(rows)
    assert vector.build(rows) is first
    assert vector.build(others).array.to_pylist() == ["b"]
    assert vector.build(rows).array.to_pylist() == ["a"]
