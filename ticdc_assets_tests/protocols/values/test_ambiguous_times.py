"""TIMESTAMPs whose wall time occurs twice are found again among the typed values, in every zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from ticdc_assets.protocols.values import native_columns
from ticdc_assets.protocols.values.ambiguous_times import count_ambiguous, is_ambiguous, occurs_twice
from ticdc_assets.schema.model import Column, Kind, MySqlType

COLUMN = Column("c", MySqlType(Kind.TIMESTAMP, 6))
ZONES = ["America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "America/St_Johns", "UTC", "+05:30"]
AROUND = [
    datetime(1986, 9, 13, 12), datetime(2024, 3, 10, 5), datetime(2024, 4, 6, 12), datetime(2024, 11, 3, 3),
    datetime(2037, 11, 1, 3),
]  # fmt: skip


def texts(zone: str, around: datetime) -> list[str]:
    """Wall times of two days, a quarter of an hour apart."""
    moments = (around.replace(tzinfo=UTC) + timedelta(minutes=15 * n) for n in range(-50, 100))
    offset = timedelta(hours=5, minutes=30) if zone == "+05:30" else None
    walls = (m + offset if offset else m.astimezone(ZoneInfo(zone)) for m in moments)
    return [f"{wall:%Y-%m-%d %H:%M:%S.%f}" for wall in walls]


def twice(text: str, zone: str) -> bool:
    """Whether two moments have this wall time, by trying them."""
    if zone in ("UTC", "+05:30"):
        return False
    near = datetime.fromisoformat(text).replace(tzinfo=UTC)
    moments = (near + timedelta(minutes=15 * n) for n in range(-60, 61))
    return sum(f"{m.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S.%f}" == text for m in moments) == 2


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("around", AROUND, ids=str)
def test_wall_times_of_two_moments_are_counted(zone: str, around: datetime):
    wires = pa.array([None, *texts(zone, around)], pa.string())
    values = native_columns.column(COLUMN, wires, zone)
    expected = [text is not None and twice(text, zone) for text in wires.to_pylist()]

    assert count_ambiguous(COLUMN, wires, values, zone) == sum(expected)
    assert occurs_twice(values, zone) is any(expected)
    pairs: list[tuple[Any, Any]] = list(zip(wires.to_pylist(), values.to_pylist(), strict=True))
    assert [is_ambiguous(COLUMN, wire, value, zone) for wire, value in pairs] == expected


def test_a_zone_that_a_value_names_counts_and_not_the_changefeeds():
    given = [
        ("UTC", "2024-11-03 01:30:00"),
        ("America/New_York", "2024-11-03 01:30:00"),
        ("Local", "2024-11-03 01:30:00"),
    ]
    wires = pa.array([{"location": location, "value": value} for location, value in given])
    values = native_columns.column(COLUMN, wires, "America/New_York")

    assert count_ambiguous(COLUMN, wires, values, "America/New_York") == 2
    assert count_ambiguous(COLUMN, wires, values, "UTC") == 1
    pairs = list(zip(wires.to_pylist(), values.to_pylist(), strict=True))
    assert [is_ambiguous(COLUMN, wire, value, "America/New_York") for wire, value in pairs] == [False, True, True]
    assert [is_ambiguous(COLUMN, wire, value, "UTC") for wire, value in pairs] == [False, True, False]
    assert not is_ambiguous(COLUMN, pairs[1][0], None, "UTC")


def test_columns_of_other_types_have_no_ambiguous_times():
    column = Column("c", MySqlType(Kind.DATETIME))
    wires = pa.array(["2024-11-03 01:30:00"])
    values = native_columns.column(column, wires, "America/New_York")

    assert count_ambiguous(column, wires, values, "America/New_York") == 0


@pytest.mark.parametrize(("value", "zone"), [(datetime.max, "Asia/Tokyo"), (datetime.min, "America/New_York")])
def test_a_time_at_an_end_of_the_calendar_occurs_once(value: datetime, zone: str):
    column = Column("a", MySqlType(Kind.TIMESTAMP, length=6))

    assert not is_ambiguous(column, str(value), value.replace(tzinfo=UTC), zone)
