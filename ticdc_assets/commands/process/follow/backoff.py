"""When a changefeed is read next: after the interval, or after a pause that doubles with each fault in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0


@dataclass(slots=True)
class Backoff:
    """The time of the next run, in seconds of one monotonic clock."""

    interval_s: float
    due_s: float = 0.0
    faults: int = 0

    def succeeded(self, began_s: float) -> None:
        """A run without a fault began then: the next one begins an interval later, or at once if it took longer."""
        self.faults = 0
        self.due_s = began_s + self.interval_s

    def failed(self, now_s: float) -> float:
        """A run has failed. Returns the seconds until the next one: at least the interval, at most PAUSE_MAX_S where
        the interval is shorter."""
        pause_s = max(self.interval_s, min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0**self.faults))
        self.faults = min(self.faults + 1, 16)
        self.due_s = now_s + pause_s
        return pause_s
