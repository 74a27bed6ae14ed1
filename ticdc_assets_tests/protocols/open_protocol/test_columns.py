"""Columns of Open Protocol have the values of the reference, whether they come as numbers or as strings."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.raw_rows import NUMBER_TYPE
from ticdc_assets.protocols.open_protocol.columns import column
from ticdc_assets.protocols.open_protocol.decoder import value
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column


def array_of(wires: list[Any]) -> pa.Array:
    """The values as a batch has them: all numbers, or all strings."""
    if any(isinstance(wire, int | float) for wire in wires):
        numbers = [None if wire is None else {"number": orjson.dumps(wire).decode()} for wire in wires]
        return pa.array(numbers, NUMBER_TYPE)
    return pa.array(wires, pa.string())


WIRES = [
    ("INT", [1, None, -2147483648]),
    ("BIGINT UNSIGNED", [18446744073709551615, 0]),
    ("DOUBLE", [1.5, None, -2e300]),
    ("BIT(8)", [255, 0]),
    ("SET('a','b')", [3, 0, None]),
    ("ENUM('a','b')", [2, None]),
    ("YEAR", [2024, 0]),
    ("VARCHAR(9)", ["a", None, "ü"]),
    ("VARBINARY(9)", ["\\x00\\xff", "a\\n", None, ""]),
    ("VARBINARY(9)", ["\\377", "ü"]),
    ("TEXT", ["YWI=", None, "w7w="]),
    ("BLOB", ["/wA=", ""]),
    ("DATETIME(3)", ["2024-01-01 00:00:00.100", None]),
    ("TIMESTAMP", ["2024-01-01 12:00:00"]),
    ("DECIMAL(9,2)", ["1.50", None]),
    ("JSON", ['{"a": 1}']),
    ("INT", [None, None]),
    ("VARBINARY(3)", [None]),
]


@pytest.mark.parametrize(("written", "wires"), WIRES)
def test_a_column_has_the_values_that_the_reference_reads(written: str, wires: list[Any]):
    of = Column("c", parse_type(written))

    found = column(of, array_of(wires), "Asia/Shanghai")

    assert found.type == arrow_type(of.type)
    assert found.to_pylist() == pa.array([value(of, wire, "Asia/Shanghai") for wire in wires], found.type).to_pylist()


WRONG = [
    ("INT", ["1"]), ("VARCHAR(9)", [1]), ("TEXT", ["a-b"]), ("BLOB", ["%"]), ("TEXT", ["/w=="]), ("DATE", [20240101]),
    ("VARBINARY(9)", ["\\q"]), ("TINYINT", [128]), ("BLOB", [1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "wires"), WRONG)
def test_a_column_of_values_that_do_not_fit_is_refused(written: str, wires: list[Any]):
    of = Column("c", parse_type(written))

    with pytest.raises(DecodeError):
        value(of, wires[0], "UTC")
    with pytest.raises(DecodeError):
        column(of, array_of(wires), "UTC")
