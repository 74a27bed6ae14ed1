"""Columns of numbers and bytes equal values read one by one, and invalid values are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.values import native_columns
from ticdc_assets.protocols.values.native import value
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column

U64 = (1 << 64) - 1
LONG = pa.int64()
WRAPPED = pa.struct([("value", LONG)])
MOMENT = pa.struct([("location", pa.string()), ("value", pa.string())])


def moments(*walls: str, location: str | None = "Asia/Shanghai") -> list[dict[str, str | None]]:
    return [{"location": location, "value": wall} for wall in walls]


# (the type, its wire values as they come, of which Arrow type, whether labels are sent)
AT_ONCE: list[tuple[str, list[Any], pa.DataType, bool]] = [
    ("TINYINT", [-128, 127], LONG, False),
    ("INT UNSIGNED", [0, 4294967295], LONG, False),
    ("BIGINT", [-(1 << 63), (1 << 63) - 1], LONG, False),
    ("BIGINT UNSIGNED", [0, -1, -(1 << 63), 5], LONG, False),
    ("YEAR", [0, 1901, 2155], pa.int32(), False),
    ("BIT(9)", [0, 511], LONG, False),
    ("BIT(9)", [b"", b"\x01", b"\x01\xff"], pa.binary(), False),
    ("BIT(64)", [b"\xff" * 8, b"\0" * 8, b"\x01\0"], pa.binary(), False),
    ("BIT(1)", [b"\0", b"\x01"], pa.binary(), False),
    ("INT", [{"value": 5}, {"value": -5}], WRAPPED, False),
    ("FLOAT", [0.1, -1.5], pa.float64(), False),
    ("FLOAT", [0.1, -1.5], pa.float32(), False),
    ("DOUBLE", [0.1, 1e300], pa.float64(), False),
    ("DOUBLE", [5, (1 << 62) + 1], LONG, False),
    ("DECIMAL(5,2)", [Decimal("1.50"), Decimal("-999.99")], pa.decimal128(9, 2), False),
    ("ENUM('a','b')", [0, 2], LONG, False),
    ("SET('a','b')", [0, 3], LONG, False),
    ("ENUM('a','b')", ["a", "b"], pa.string(), True),
    ("ENUM('a','b')", ["1", "0"], pa.string(), False),
    ("BLOB", [b"", b"\xff"], pa.binary(), False),
    ("BLOB", ["", "QUI="], pa.string(), False),
    ("VARCHAR(9)", ["", "x"], pa.string(), False),
    ("TIMESTAMP", ["2024-01-01 00:00:00"], pa.string(), False),
    ("TIMESTAMP", moments("2024-01-01 00:00:00", "2024-06-01 00:00:00.5"), MOMENT, False),
    ("TIMESTAMP", moments("2024-01-01 00:00:00", location="Local"), MOMENT, False),
]


def never(*_: Any) -> NoReturn:
    raise AssertionError("a value is read by itself")


def wire(found: Any) -> Any:
    return f"{found:f}" if isinstance(found, Decimal) else found


@pytest.mark.parametrize(("written", "sent", "of", "labels"), AT_ONCE, ids=lambda part: str(part)[:30])
@pytest.mark.parametrize("nulls", [False, True])
def test_what_a_server_sends_is_read_at_once(
    written: str, sent: list[Any], of: pa.DataType, labels: bool, nulls: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(native_columns, "_one_by_one", never)
    column = Column("c", parse_type(written))
    every = [*sent, *([None] if nulls else [])]
    expected = [value(column, wire(found), "+08:00", labels) for found in every]

    for array in (pa.array(every, of), pa.array([sent[0], *every, sent[0]], of).slice(1, len(every))):
        assert native_columns.column(column, array, "+08:00", labels).to_pylist() == expected


def test_a_column_of_nothing_is_null_of_its_type():
    column = Column("c", parse_type("INT"))

    assert native_columns.column(column, pa.nulls(2, LONG), "UTC") == pa.nulls(2, pa.int32())
    assert native_columns.column(column, pa.nulls(0, LONG), "UTC") == pa.nulls(0, pa.int32())


BY_THEMSELVES: list[tuple[str, list[Any], pa.DataType]] = [
    ("TIMESTAMP", [*moments("2024-01-01 00:00:00"), *moments("2024-01-01 00:00:00", location="UTC")], MOMENT),
    ("DECIMAL(5,2)", [Decimal("1.5")], pa.decimal128(9, 1)),
    ("DECIMAL(50,2)", [Decimal("1.50")], pa.decimal128(9, 2)),
]


@pytest.mark.parametrize(("written", "sent", "of"), BY_THEMSELVES, ids=lambda part: str(part)[:30])
def test_values_of_mixed_forms_equal_the_single_values(written: str, sent: list[Any], of: pa.DataType):
    column = Column("c", parse_type(written))

    found = native_columns.column(column, pa.array(sent, of), "UTC").to_pylist()

    assert found == [value(column, wire(one), "UTC") for one in sent]


REFUSED: list[tuple[str, Any, pa.DataType, bool]] = [
    ("TINYINT", 128, LONG, False), ("TINYINT", -129, LONG, False), ("INT UNSIGNED", -1, LONG, False),
    ("INT UNSIGNED", 1 << 32, LONG, False), ("YEAR", 1900, LONG, False), ("YEAR", 1, LONG, False),
    ("YEAR", 2156, LONG, False), ("BIT(9)", 512, LONG, False), ("BIT(9)", b"\x02\0", pa.binary(), False),
    ("BIT(64)", b"\0" * 9, pa.binary(), False), ("INT", b"\x01", pa.binary(), False),
    ("VARCHAR(9)", 5, LONG, False), ("INT", 1.5, pa.float64(), False), ("FLOAT", 1e39, pa.float64(), False),
    ("DOUBLE", float("inf"), pa.float64(), False), ("ENUM('a')", 2, LONG, False),
    ("VARCHAR(9)", {"value": 5}, WRAPPED, False), ("DATETIME", moments("2024-01-01 00:00:00")[0], MOMENT, False),
    ("TIMESTAMP", moments("x")[0], MOMENT, False), ("TIMESTAMP", moments("2024-01-01", location="x")[0], MOMENT, False),
]  # fmt: skip


@pytest.mark.parametrize(("written", "sent", "of", "labels"), REFUSED, ids=lambda part: str(part)[:30])
def test_what_is_no_value_of_its_type_is_refused(written: str, sent: Any, of: pa.DataType, labels: bool):
    column = Column("c", parse_type(written))

    with pytest.raises(DecodeError):
        value(column, sent, "UTC", labels)
    for every in ([sent], [None, sent]):
        with pytest.raises(DecodeError):
            native_columns.column(column, pa.array(every, of), "UTC", labels)
