"""The tables of a dump that are not loaded yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.source import Pending

if TYPE_CHECKING:
    from ticdc_assets.sources.dump.listing import DumpedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpPending(Pending):
    """The tables of a dump by source table; `turn` are those that this round loads, `left` those after it."""

    tables: Mapping[str, DumpedTable]
    turn: frozenset[str]
    left: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether every table is loaded and recorded."""
        return not self.turn and not self.left and self.record is not None and self.record.tso >= self.high

    @property
    def checkpoint(self) -> int:
        """The dump's TSO."""
        return self.high
