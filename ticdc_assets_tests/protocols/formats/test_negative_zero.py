"""The number `-0` of JSON keeps its sign in images, and all else is read as before."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.bodies import NegativeZero, json_row
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.model import Column, Kind, MySqlType

WHOLE = (Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.BIT, Kind.YEAR)


def types(value: Any) -> Any:
    """The value with the type of each number in it."""
    if isinstance(value, dict):
        return {name: types(member) for name, member in value.items()}
    return [types(member) for member in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("written", ["-0", " -0 ", "[-0]", '{"v":-0}', "[1,-0 ,2]"])
def test_it_is_kept_in_images_alone(written: str):
    found = json_row(f'{{"a":{written},"b":{written}}}'.encode(), "", ("a",))

    assert "NegativeZero" in str(types(found["a"]))
    assert types(found["b"]) == types(orjson.loads(written))


OTHERS = ["0", "-0.0", "-0e0", "-0.5", "-10", "\"-0,\"", "18446744073709551615", "18446744073709551616", "1e-7",
          "-9223372036854775808", "-9223372036854775809", "1" * 300, "null", "true", "\"\\u00e9\""]  # fmt: skip


@pytest.mark.parametrize("written", OTHERS)
def test_all_else_is_read_as_without_it(written: str):
    found = json_row(f'{{"a":{written},"z":-0}}'.encode(), "", ("a", "z"))

    assert types(found["a"]) == types(orjson.loads(written))
    assert type(found["z"]) is NegativeZero


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_any_value_beside_it_is_read_as_without_it(value: Any):
    body = orjson.dumps({"a": value})[:-1] + b',"z":-0}'

    assert repr(json_row(body, "", ("a", "z"))["a"]) == repr(orjson.loads(body)["a"])


def test_more_levels_than_python_reads_are_a_decode_error():
    body = b'{"a":-0,"b":%s1%s}' % (b"[" * 1000, b"]" * 1000)

    try:
        found = json_row(body, "here", ("a",))
    except DecodeError as error:
        assert "levels" in error.found
    else:
        assert type(found["a"]) is NegativeZero


@pytest.mark.parametrize("protocol", ["open-protocol", "simple", "debezium"])
@pytest.mark.parametrize("kind", [Kind.FLOAT, Kind.DOUBLE])
def test_a_real_keeps_its_sign(protocol: str, kind: Kind):
    found = REGISTRY[protocol].value(Column("c", MySqlType(kind)), NegativeZero(), "UTC")

    assert (found, math.copysign(1, found)) == (0, -1)


@pytest.mark.parametrize("kind", [*WHOLE, Kind.ENUM, Kind.SET])
def test_a_column_of_the_open_protocol_that_is_no_real_has_0(kind: Kind):
    column = Column("c", MySqlType(kind, elements=("a",) if kind in (Kind.ENUM, Kind.SET) else None))

    assert open_protocol.value(column, NegativeZero(), "UTC") == open_protocol.value(column, 0, "UTC")


def test_a_vector_of_debezium_keeps_its_signs():
    found = REGISTRY["debezium"].value(Column("c", MySqlType(Kind.VECTOR)), [NegativeZero(), 1], "UTC")

    assert str(found) == "[-0.0, 1.0]"
