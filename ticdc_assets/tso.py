"""TiDB's timestamps (TSO): `physical_ms << 18 | logical`, always int, never float."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NewType

Tso = NewType("Tso", int)

INT64_MAX: Final = (1 << 63) - 1
"""The largest number in TiDB and in the lake."""
LOGICAL_BITS: Final = 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIDB_BEGAN: Final = 2015


def physical_ms(tso: int) -> int:
    """The milliseconds since 1970 in a TSO."""
    return tso >> LOGICAL_BITS


def from_physical_ms(ms: int) -> Tso:
    """The first TSO of a millisecond."""
    return Tso(ms << LOGICAL_BITS)


def is_tso(number: int) -> bool:
    """Whether a watermark is a TSO; without commit_ts in the stream it is a count of messages."""
    return to_datetime(number).year > _TIDB_BEGAN


def to_datetime(tso: int) -> datetime:
    """The UTC time of a TSO, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=physical_ms(tso))
