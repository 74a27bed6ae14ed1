"""The source's checkpoint and the current time, against which watermarks are compared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ticdc_assets.tso import physical_ms, to_datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """The source's checkpoint and the current time.

    `measures_lag` is False for a stream without watermarks. A table's watermark is then its newest commit_ts, or a
    count of messages, and there is no lag.
    """

    checkpoint: int
    now: datetime
    measures_lag: bool = True

    def lag_s(self, watermark: int) -> float:
        """How long ago the watermark was, in seconds; 0.0 where it is in the future."""
        return max((self.now - to_datetime(watermark)).total_seconds(), 0.0)

    def behind_source_s(self, watermark: int) -> float:
        """How far the watermark is behind the checkpoint of the source, in seconds."""
        return max(physical_ms(self.checkpoint) - physical_ms(watermark), 0) / 1000
