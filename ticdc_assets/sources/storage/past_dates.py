"""The dates of one partition whose folders are closed, exactly, in a bit for each date.

An unknown date before the newest closed one is a folder that came late. A year of days takes 92 characters of text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

_BETWEEN: Final = ":"
_FORM: Final = re.compile(r"([0-9]{4})(?:-(0[1-9]|1[0-2])(?:-([0-9]{2}))?)?")


@dataclass(frozen=True, slots=True)
class PastDates:
    """Closed dates up to `newest`. Bit n of `bits` stands for the date n days, months or years before it.

    Every date up to `unlisted` counts as closed too: cursors of earlier versions have the newest date only.
    """

    newest: str = ""
    bits: int = 0
    unlisted: str = ""

    def __contains__(self, name: str) -> bool:
        number = _ordinal(name)
        if number < 0:
            return False
        back = _ordinal(self.newest) - number
        is_listed = len(name) == len(self.newest) and back >= 0 and bool(self.bits >> back & 1)
        return is_listed or name <= self.unlisted

    def passed(self, name: str) -> bool:
        """Whether a later date of the same form (day, month, year) is closed."""
        return len(name) == len(self.newest) and name < self.newest

    def with_date(self, name: str) -> PastDates:
        """The same with one more date. One of another form (day, month, year) begins a new list."""
        if len(name) != len(self.newest):
            return PastDates(name, 1, max(self.unlisted, self.newest))
        ahead = _ordinal(name) - _ordinal(self.newest)
        if ahead <= 0:
            return PastDates(self.newest, self.bits | 1 << -ahead, self.unlisted)
        return PastDates(name, self.bits << ahead | 1, self.unlisted)

    def without(self, name: str) -> PastDates:
        """The same with one date open again. `newest` stays."""
        if name not in self or name <= self.unlisted or len(name) != len(self.newest):
            return self
        return PastDates(self.newest, self.bits & ~(1 << _ordinal(self.newest) - _ordinal(name)), self.unlisted)

    def to_text(self) -> str:
        """The dates as text, for the cursor."""
        return _BETWEEN.join([self.newest, f"{self.bits:x}", *([self.unlisted] if self.unlisted else [])])

    @classmethod
    def from_text(cls, text: str) -> PastDates:
        """The dates written by `to_text`, or the newest date alone. Raises ValueError for another text."""
        newest, _, rest = text.partition(_BETWEEN)
        if not rest:
            return cls(newest, 0, newest)
        bits, _, unlisted = rest.partition(_BETWEEN)
        return cls(newest, int(bits, 16), unlisted)


def _ordinal(name: str) -> int:
    """The number of a date, counted in days, months or years by the form of its name; -1 for any other name."""
    form = _FORM.fullmatch(name)
    if form is None:
        return -1
    year, month, day = (int(part) if part else 0 for part in form.groups())
    if not month:
        return year
    if not day:
        return year * 12 + month - 1
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return -1
