"""A cache of histories: one run asks for the history of the same statements up to six times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import Known, fold, in_order
from ticdc_assets.schema.history.source_table import History

_KEPT_MAX: Final = 4


class Folds:
    """`fold` with the user's schemas and keys; it keeps the newest histories and returns them for equal events."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._kept: list[tuple[list[DdlEvent], History]] = []

    def of(self, events: Iterable[DdlEvent]) -> History:
        """The history of these events, in any order."""
        ordered = in_order(events)
        for number, (before, history) in enumerate(self._kept):
            if before == ordered:
                self._kept.insert(0, self._kept.pop(number))
                return history
        history = fold(ordered, self.known)
        self._kept = [(ordered, history), *self._kept[: _KEPT_MAX - 1]]
        return history
