"""The Arrow types of column types whose type depends on their length."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ticdc_assets.schema.arrow_types import arrow_type, bit_width, decimal_shape, integer_range, wraps
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.schema.history.histories import event


@pytest.mark.parametrize(
    ("written", "shape", "found"),
    [
        ("DECIMAL", (10, 0), pa.decimal128(10, 0)),
        ("DECIMAL(5)", (5, 0), pa.decimal128(5, 0)),
        ("DECIMAL(38,2)", (38, 2), pa.decimal128(38, 2)),
        ("DECIMAL(39,2)", (39, 2), pa.string()),  # wider than Iceberg's
        ("DECIMAL(65,30)", (65, 30), pa.string()),
    ],
)
def test_a_decimal_has_the_digits_that_were_written(written: str, shape: tuple[int, int], found: pa.DataType):
    assert decimal_shape(parse_type(written)) == shape
    assert arrow_type(parse_type(written)) == found


@pytest.mark.parametrize(
    ("written", "width", "found"),
    [
        ("BIT", 1, pa.int64()),
        ("BIT(1)", 1, pa.int64()),
        ("BIT(63)", 63, pa.int64()),
        ("BIT(64)", 64, pa.decimal128(20, 0)),
    ],
)
def test_bits_are_a_number_of_their_width(written: str, width: int, found: pa.DataType):
    assert bit_width(parse_type(written)) == width
    assert arrow_type(parse_type(written)) == found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("INT", pa.int32()),
        ("INT UNSIGNED", pa.int64()),
        ("BIGINT", pa.int64()),
        ("BIGINT UNSIGNED", pa.decimal128(20, 0)),
        ("VARCHAR(9)", pa.string()),
        ("VARCHAR(9) CHARACTER SET BINARY", pa.binary()),
        ("VARBINARY(9)", pa.binary()),
    ],
)
def test_numbers_have_room_for_their_signs_and_bytes_are_no_text(written: str, found: pa.DataType):
    [column] = fold([event(1, "t", f"CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` {written})")]).source_tables
    assert arrow_type(column.newest.columns[1].type) == found


TYPES = [
    ("TINYINT(1)", pa.int32()),
    ("MEDIUMINT UNSIGNED", pa.int32()),
    ("INT", pa.int32()),
    ("INT UNSIGNED", pa.int64()),
    ("BIGINT", pa.int64()),
    ("BIGINT UNSIGNED", pa.decimal128(20, 0)),
    ("BIT", pa.int64()),
    ("BIT(63)", pa.int64()),
    ("BIT(64)", pa.decimal128(20, 0)),
    ("YEAR", pa.int32()),
    ("FLOAT UNSIGNED", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("DECIMAL", pa.decimal128(10, 0)),
    ("DECIMAL(38,30)", pa.decimal128(38, 30)),
    ("DECIMAL(39,0)", pa.string()),
    ("CHAR(3)", pa.string()),
    ("LONGTEXT", pa.string()),
    ("BINARY(3)", pa.binary()),
    ("TINYBLOB", pa.binary()),
    ("DATE", pa.date32()),
    ("DATETIME(6)", pa.timestamp("us")),
    ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    ("TIME", pa.string()),
    ("ENUM('a')", pa.string()),
    ("SET('a')", pa.string()),
    ("JSON", pa.string()),
    ("VECTOR(2)", pa.list_(pa.float32())),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_each_type_has_its_arrow_type(text, expected):
    assert expected == arrow_type(parse_type(text))


def test_each_kind_has_an_arrow_type():
    types = {kind: arrow_type(parse_type(kind.value)) for kind in Kind}

    assert {kind.value for kind, of in types.items() if of == pa.string()} == {
        *("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "TIME", "ENUM", "SET", "JSON"),
    }
    assert {kind.value for kind, of in types.items() if of == pa.binary()} == {
        *("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"),
    }


RANGES = [
    ("TINYINT", (-128, 127)),
    ("TINYINT UNSIGNED", (0, 255)),
    ("MEDIUMINT", (-(1 << 23), (1 << 23) - 1)),
    ("BIGINT", (-(1 << 63), (1 << 63) - 1)),
    ("BIGINT UNSIGNED", (0, (1 << 64) - 1)),
    ("BIT", (0, 1)),
    ("BIT(63)", (0, (1 << 63) - 1)),
    ("BIT(64)", (0, (1 << 64) - 1)),
    ("YEAR", (0, 2155)),
    ("YEAR UNSIGNED", (0, 2155)),
]


@pytest.mark.parametrize(("written", "found"), RANGES)
def test_a_whole_number_is_between_two_others(written: str, found: tuple[int, int]):
    assert integer_range(parse_type(written)) == found
    assert wraps(parse_type(written)) is (found[1] == (1 << 64) - 1)
