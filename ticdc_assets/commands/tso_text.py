"""TSOs as people read them."""

from __future__ import annotations

from typing import Final

from ticdc_assets.tso import to_datetime

_TIDB_BEGAN: Final = 2015


def moment(tso: int) -> str:
    """A TSO with its time; where a stream has no commit_ts, watermarks count messages."""
    return f"{tso} ({when(tso)} UTC)" if _is_tso(tso) else f"message {tso}"


def when(tso: int) -> str:
    """The time of a TSO, or the count of messages; nothing for none."""
    if _is_tso(tso):
        return f"{to_datetime(tso):%Y-%m-%d %H:%M:%S}"
    return f"message {tso}" if tso else ""


def _is_tso(tso: int) -> bool:
    return to_datetime(tso).year > _TIDB_BEGAN
