"""The state of a history table, from its newest snapshot with progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.tables.iceberg.properties import EFFECTS, REPLAYED
from ticdc_assets.tables.progress import Progress, from_summary, newest_summary

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A history is complete up to the watermark of its `progress`.

    `effects` is a digest of the statements that its rows have gone through. `followed` is the run of the last mark of
    late rows (`tables.replayed`) that it has; empty for none. A snapshot stores all three, so a history that is rolled
    back to an earlier snapshot continues from there.
    """

    progress: Progress = field(default_factory=Progress)
    effects: str = ""
    followed: str = ""

    @property
    def noted(self) -> dict[str, str]:
        """The state as properties of a snapshot, without the progress."""
        return {EFFECTS: self.effects, REPLAYED: self.followed}


NOTHING: Final = HistoryState()
"""The state of a history that is not made yet, or that has no rows yet."""


def state_of(table: Table) -> HistoryState:
    """The newest published state on the table's main branch."""
    summary = newest_summary(table)
    if summary is None:
        return NOTHING
    return HistoryState(from_summary(summary), summary.get(EFFECTS, ""), summary.get(REPLAYED, ""))
