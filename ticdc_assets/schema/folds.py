"""Histories of one changefeed, remembered: one look asks for that of the same statements up to six times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.history import Known, fold, in_order
from ticdc_assets.schema.lineage import History

_REMEMBERED: Final = 4


class Folds:
    """`fold` over what the user told; the newest results are given again where the events are equal."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._remembered: list[tuple[list[DdlEvent], History]] = []

    def of(self, events: Iterable[DdlEvent]) -> History:
        """The history of these events, in any order."""
        ordered = in_order(events)
        for number, (before, history) in enumerate(self._remembered):
            if before == ordered:
                self._remembered.insert(0, self._remembered.pop(number))
                return history
        history = fold(ordered, self.known)
        self._remembered = [(ordered, history), *self._remembered[: _REMEMBERED - 1]]
        return history
