"""Simple protocol: a wire value of either encoding is its canonical value, or is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.bodies import NegativeZero
from ticdc_assets.protocols.simple.decoder import value
from ticdc_assets.schema.model import Column, Kind, MySqlType


def the(kind: Kind, **more: Any) -> Column:
    return Column("c", MySqlType(kind, **more))


@pytest.mark.parametrize(
    ("of_column", "wire", "expected"),
    [
        (the(Kind.INT), None, None),
        (the(Kind.TINYINT), "-128", -128),
        (the(Kind.INT), 5, 5),
        (the(Kind.BIGINT, unsigned=True), "18446744073709551615", (1 << 64) - 1),
        (the(Kind.BIGINT, unsigned=True), (1 << 64) - 1, (1 << 64) - 1),
        (the(Kind.BIGINT, unsigned=True), {"value": -1}, (1 << 64) - 1),
        (the(Kind.BIT, length=64), -1, (1 << 64) - 1),
        (the(Kind.BIT, length=10), "1023", 1023),
        (the(Kind.YEAR), "0", 0),
        (the(Kind.FLOAT), "0.1", 0.10000000149011612),
        (the(Kind.FLOAT), 0.1, 0.10000000149011612),
        (the(Kind.DOUBLE), "100000000000000000000", 1e20),
        (the(Kind.DOUBLE), 3, 3.0),
        (the(Kind.INT), NegativeZero(), 0),
        (the(Kind.INT), {"value": NegativeZero()}, 0),
        (the(Kind.ENUM, elements=("a", "b")), NegativeZero(), ""),
        (the(Kind.DECIMAL, length=5, scale=2), "-1.50", Decimal("-1.50")),
        (the(Kind.DECIMAL, length=65, scale=2), "1.50", "1.50"),
        (the(Kind.TEXT), "ü", "ü"),
        (the(Kind.BLOB), "/w==", b"\xff"),
        (the(Kind.BLOB), b"\xff", b"\xff"),
        (the(Kind.DATE), "2024-02-29", date(2024, 2, 29)),
        (the(Kind.DATE), "0000-00-00", None),
        (the(Kind.DATETIME, length=3), "2024-02-29 01:02:03.100", datetime(2024, 2, 29, 1, 2, 3, 100000)),
        (the(Kind.TIME), "-838:59:59.000", "-838:59:59.000"),
        (the(Kind.JSON), '{"a": 1}', '{"a": 1}'),
        (the(Kind.ENUM, elements=("a", "b")), "2", "b"),
        (the(Kind.ENUM, elements=("a", "b")), 2, "b"),
        (the(Kind.ENUM, elements=("a", "b")), "0", ""),
        (the(Kind.ENUM), "2", "2"),
        (the(Kind.SET, elements=("a", "b", "c")), "5", "a,c"),
        (the(Kind.SET, elements=tuple("abcdefgh" * 8)), -(1 << 63), "h"),
        (the(Kind.VECTOR), "[0.5,-1.25]", [0.5, -1.25]),
        (the(Kind.VECTOR), "[]", []),
    ],
)
def test_a_wire_value_of_either_encoding_is_its_canonical_value(of_column, wire, expected):
    found = value(of_column, wire, "UTC")

    assert (type(expected), expected) == (type(found), found)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("UTC", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("Asia/Shanghai", datetime(2024, 1, 1, 4, tzinfo=UTC)),
        ("Local", datetime(2024, 1, 1, 17, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_read_in_the_zone_it_names_and_the_servers_own_in_the_configured_one(location, expected):
    wire = {"location": location, "value": "2024-01-01 12:00:00"}

    assert expected == value(the(Kind.TIMESTAMP), wire, "America/New_York")


@pytest.mark.parametrize(
    ("of_column", "wire"),
    [
        (the(Kind.TINYINT), "128"),
        (the(Kind.INT), True),
        (the(Kind.INT), 1.0),
        (the(Kind.BIGINT, unsigned=True), float(1 << 64)),
        (the(Kind.BIGINT, unsigned=True), str(1 << 64)),
        (the(Kind.INT), {"value": "1"}),
        (the(Kind.INT), b"1"),
        (the(Kind.BIT, length=4), "16"),
        (the(Kind.FLOAT), "1e39"),
        (the(Kind.DOUBLE), float("nan")),
        (the(Kind.DOUBLE), "inf"),
        (the(Kind.BLOB), "?"),
        (the(Kind.TEXT), 5),
        (the(Kind.TEXT), b"x"),
        (the(Kind.DATE), "2024-02-30"),
        (the(Kind.TIMESTAMP), {"location": "Mars/Base", "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": "../../etc/passwd", "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": 5, "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": "UTC"}),
        (the(Kind.ENUM, elements=("a",)), "2"),
        (the(Kind.SET, elements=("a",)), "2"),
        (the(Kind.VECTOR), "[1"),
    ],
)
def test_a_wire_value_that_its_column_cannot_hold_is_refused(of_column, wire):
    with pytest.raises(DecodeError) as caught:
        value(of_column, wire, "UTC")
    assert str(wire) not in str(caught.value) or len(str(wire)) < 3
