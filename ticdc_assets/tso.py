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
_EXAMPLE: Final = "2025-07-31T23:59:10Z"
_EXPECTED: Final = f"expected a TSO in digits only, such as 459802261460090884, or a time such as {_EXAMPLE}"


def physical_ms(tso: int) -> int:
    """The milliseconds since 1970 in a TSO."""
    return tso >> LOGICAL_BITS


def from_physical_ms(ms: int) -> Tso:
    """The first TSO of a millisecond."""
    return Tso(ms << LOGICAL_BITS)


def parse_tso(text: str) -> Tso:
    """The TSO of a text: its digits, or the first TSO of the millisecond of a time, as in TiDB's AS OF TIMESTAMP.

    A time is ISO 8601 with a zone, such as 2025-07-31T23:59:10.540Z. Raises ValueError with a sentence for any other
    text.
    """
    if text.isascii() and text.isdigit():
        if int(text) > INT64_MAX:
            raise ValueError(f"expected at most {INT64_MAX}")
        return Tso(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if moment.tzinfo is None:
        raise ValueError(f"expected a time with its zone, such as {_EXAMPLE}")
    ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if ms < 0:
        raise ValueError(_EXPECTED)
    return from_physical_ms(ms)


def is_tso(number: int) -> bool:
    """Whether a watermark is a TSO; without commit_ts in the stream it is a count of messages."""
    return to_datetime(number).year > _TIDB_BEGAN


def to_datetime(tso: int) -> datetime:
    """The UTC time of a TSO, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=physical_ms(tso))


def now() -> datetime:
    """The time of this machine, in UTC."""
    return datetime.now(UTC)
