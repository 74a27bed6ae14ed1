"""Every hostile value at every column type of every protocol: a value that the lake holds, or a DecodeError."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import orjson
import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.checksum import Checksum, with_checksum
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.protocols.values.text import value as text_value
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets_tests.protocols.hostile.mutations import HOSTILE_TOKENS

ZONES = ("UTC", "Asia/Shanghai", "America/New_York", "-12:00", "+14:00")
LABELS = ("a", "b", "c,d", "", "SECRET-label")


def types() -> list[MySqlType]:
    found = [MySqlType(kind) for kind in Kind if kind not in (Kind.ENUM, Kind.SET)]
    found += [MySqlType(kind, unsigned=True) for kind in (Kind.TINYINT, Kind.INT, Kind.BIGINT, Kind.DOUBLE)]
    found += [MySqlType(Kind.DECIMAL, *shape) for shape in ((38, 0), (38, 30), (65, 30), (1, 1), (20, 0))]
    found += [MySqlType(Kind.BIT, length) for length in (1, 10, 64)]
    found += [MySqlType(kind, elements=labels) for kind in (Kind.ENUM, Kind.SET) for labels in (None, LABELS)]
    found += [MySqlType(kind, 6) for kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)]
    return [*found, MySqlType(Kind.VARCHAR, 10, charset="binary")]


def wires() -> list[Any]:
    found: list[Any] = []
    for token in HOSTILE_TOKENS:
        try:
            found.append(orjson.loads(token))
        except orjson.JSONDecodeError:
            continue
    texts = [wire for wire in found if isinstance(wire, str)]
    found += [text.encode() for text in texts] + [b"\xff" * 9, b"\xff" * 8, b"\x80", b""]
    found += [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -(1 << 63), (1 << 64) - 1, 1 << 70]
    found += [{"value": wire} for wire in (-(1 << 63), (1 << 64) - 1, "1", None, [])]
    zones = ["+99:99", "-99:00", "", "Local", "../../etc/passwd", "America", "tzdata.zi", "a\0b", "/UTC", "x" * 5000, 5]
    times = ["2024-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0000-00-00 00:00:00", "", "x"]
    found += [{"location": zone, "value": time} for zone, time in product([*zones, *ZONES], times)]
    found += [f"SECRET-{text}" for text in ("2024-01-01", "1", "MTIz")]
    return found


TYPES, WIRES = types(), wires()


def carried(protocol: str) -> list[Any]:
    """What a message of the protocol can hold where a value is: Canal-JSON text, the others JSON, Avro all."""
    if protocol == "canal-json":
        return [wire for wire in WIRES if wire is None or isinstance(wire, str)]
    return WIRES if protocol in ("avro", "simple") else [wire for wire in WIRES if _is_json(wire)]


def _is_json(wire: Any) -> bool:
    if isinstance(wire, int) and not -(1 << 63) <= wire < 1 << 64:
        return False
    return not isinstance(wire, bytes) and not (isinstance(wire, float) and not math.isfinite(wire))


TEXTS = [wire for wire in WIRES if isinstance(wire, str)]
every_type = pytest.mark.parametrize("type_", TYPES, ids=str)


def zones_of(type_: MySqlType) -> tuple[str, ...]:
    return ZONES if type_.kind is Kind.TIMESTAMP else ZONES[:1]


def in_the_lake(type_: MySqlType, found: Any) -> None:
    """The lake holds it, and gives it back."""
    held = pa.array([found], arrow_type(type_))

    assert held.null_count == (found is None)


@every_type
@pytest.mark.parametrize("protocol", REGISTRY)
def test_a_hostile_value_is_held_by_the_lake_or_refused_unquoted(protocol, type_):
    column = Column("c", type_)
    for wire, zone in product(carried(protocol), zones_of(type_)):
        try:
            in_the_lake(type_, REGISTRY[protocol].value(column, wire, zone))
        except DecodeError as error:
            assert "SECRET" not in f"{error} {error!r}"
        except Exception as error:
            raise AssertionError(f"{wire!r} in {zone}") from error


@every_type
def test_a_checksum_of_hostile_values_is_compared_or_refused(type_):
    table = TableSchema("s", "t", (Column("c", type_),))
    for wire, zone, verify in product(WIRES, zones_of(type_), (simple.verify, confluent_avro.verify)):
        row = RowEvent("s", "t", Op.INSERT, 1, {"c": wire})
        try:
            verify(with_checksum(row, Checksum(1, 1)), table, zone)
        except DecodeError as error:
            assert "SECRET" not in f"{error} {error!r}"
        except Exception as error:
            raise AssertionError(f"{wire!r} in {zone}") from error


@every_type
@pytest.mark.parametrize("binary", ["base64", "hex", "latin1"])
@pytest.mark.parametrize("enum", ["label", "number"])
def test_columns_of_hostile_texts_are_what_single_texts_are(type_, binary, enum):
    """One bad text refuses its column; alone, the two forms agree on each."""
    forms = TextForms(binary, enum, "Asia/Shanghai")
    for text in TEXTS:
        try:
            one = text_value(type_, text, forms)
        except DecodeError as error:
            assert "SECRET" not in f"{error} {error!r}"
            with pytest.raises(DecodeError):
                text_columns.column(type_, pa.array([text], pa.string()), forms)
            continue
        in_the_lake(type_, one)
        assert pa.array([one], arrow_type(type_)).equals(
            text_columns.column(type_, pa.array([text], pa.string()), forms)
        ), text
