"""What watermarks are held against: the source's checkpoint and the present."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ticdc_assets.tso import physical_ms, to_datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """What a table's watermark is held against: the source's checkpoint and the present.

    Where a stream has no watermarks of its own (`tells_time` is False), there is no lag to tell: what it was read up to
    is then its newest commit time, or only a count of messages.
    """

    checkpoint: int
    now: datetime
    tells_time: bool = True

    def lag_s(self, watermark: int) -> float:
        return max((self.now - to_datetime(watermark)).total_seconds(), 0.0)

    def behind_source_s(self, watermark: int) -> float:
        return max(physical_ms(self.checkpoint) - physical_ms(watermark), 0) / 1000
