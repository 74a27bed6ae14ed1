"""TSOs as text."""

from __future__ import annotations

from ticdc_assets.tso import is_tso, to_datetime


def moment(tso: int) -> str:
    """A TSO with its time; without commit_ts in the stream, a count of messages."""
    return f"{tso} ({when(tso)} UTC)" if is_tso(tso) else f"message {tso}"


def when(tso: int) -> str:
    """The time of a TSO, or the count of messages; empty for 0."""
    if is_tso(tso):
        return f"{to_datetime(tso):%Y-%m-%d %H:%M:%S}"
    return f"message {tso}" if tso else ""
