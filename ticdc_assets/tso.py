"""TiDB's timestamps (TSO): `physical_ms << 18 | logical`, always int, never float."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NewType

Tso = NewType("Tso", int)

INT64_MAX: Final = (1 << 63) - 1
"""The largest number that TiDB and the lake count in."""
LOGICAL_BITS: Final = 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIDB_BEGAN: Final = 2015


def physical_ms(tso: int) -> int:
    """Milliseconds since 1970 of a TSO."""
    return tso >> LOGICAL_BITS


def from_physical_ms(ms: int) -> Tso:
    """The first TSO of a millisecond."""
    return Tso(ms << LOGICAL_BITS)


def is_tso(number: int) -> bool:
    """Whether a watermark is a TSO; of a stream that tells no time it is a count of messages."""
    return to_datetime(number).year > _TIDB_BEGAN


def to_datetime(tso: int) -> datetime:
    """The UTC time of a TSO, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=physical_ms(tso))
