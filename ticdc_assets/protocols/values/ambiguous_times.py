"""Finds TIMESTAMP values whose wall time occurs twice because a clock was set back.

Their text is ambiguous, and `values.text` reads it as the first of the two times. This module finds such values among
the typed ones, so that a run can count them and refuse them in keys.
"""

from __future__ import annotations

from datetime import UTC, datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.values.native import LOCATION, zone_of
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.protocols.values.text_columns import ZONE_RULES_FROM, ZONE_RULES_TO
from ticdc_assets.schema.model import Column, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

_MICROS = pa.timestamp("us")


def is_ambiguous(column: Column, wire: Any, value: Any, zone: str) -> bool:
    """Whether the wall time of a column's value, sent as `wire`, occurs twice."""
    if column.type.kind is not Kind.TIMESTAMP or not isinstance(value, datetime):
        return False
    return _occurs_twice(value, time_zone(zone_of(column, wire, zone)))


def count_ambiguous(column: Column, wires: pa.Array, values: pa.Array, zone: str) -> int:
    """The number of a column's typed values, sent as `wires`, whose wall time occurs twice."""
    if column.type.kind is not Kind.TIMESTAMP:
        return 0
    if not pa.types.is_struct(wires.type):
        return pc.sum(_occur_twice(values, zone)).as_py() or 0
    parts = ((name, values.filter(mask)) for name, mask in _zones(column, wires, zone))
    return sum(pc.sum(_occur_twice(part, name)).as_py() or 0 for name, part in parts)


def occurs_twice(values: pa.Array, zone: str) -> bool:
    """Whether the wall time of any of these TIMESTAMPs occurs twice in `zone`."""
    return bool(pc.any(_occur_twice(values, zone)).as_py())


def _zones(column: Column, wires: pa.Array, zone: str) -> Iterator[tuple[str, pa.Array]]:
    """The time zones that values name, each with a mask of its values."""
    locations = pc.struct_field(wires, LOCATION)
    for location in locations.unique().to_pylist():
        mask = pc.is_null(locations) if location is None else pc.fill_null(pc.equal(locations, location), False)
        yield zone_of(column, {LOCATION: location}, zone), mask


def _occur_twice(values: pa.Array, name: str) -> pa.Array:
    zone = time_zone(name)
    if zone is UTC or isinstance(zone, timezone) or values.null_count == len(values):
        return pa.repeat(False, len(values))
    utc = values.cast(pa.timestamp("us", tz="UTC"))
    found = pc.min_max(utc.cast(_MICROS)).as_py()
    if not ZONE_RULES_FROM < found["min"] <= found["max"] < ZONE_RULES_TO:
        return pa.array([value is not None and _occurs_twice(value, zone) for value in utc.to_pylist()], pa.bool_())
    walls = pc.local_timestamp(utc.cast(pa.timestamp("us", tz=name)))
    first, second = (
        pc.assume_timezone(walls, name, ambiguous=one, nonexistent="earliest") for one in ("earliest", "latest")
    )
    return pc.fill_null(pc.not_equal(first, second), False)


def _occurs_twice(value: datetime, zone: tzinfo) -> bool:
    try:
        wall = value.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        return False
    return wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()
