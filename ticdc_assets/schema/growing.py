"""A lineage while it is folded: what `schema.history` adds statement by statement, and freezes in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets.schema.evolution import Shape
from ticdc_assets.schema.lineage import Lineage, SourceName, Stop, Tenure, Version


@dataclass(slots=True)
class Growing:
    """One lineage so far: its shape now, and all that is told of it.

    `is_whole` where the stream told all rows that it has: it was made in the stream, or emptied there.
    """

    id: str
    shape: Shape
    tenures: list[Tenure]
    versions: list[Version]
    dropped_ts: int | None = None
    stop: Stop | None = None
    marks: list[str] = field(default_factory=list)
    is_whole: bool = False

    @property
    def name(self) -> SourceName:
        return (self.tenures[-1].schema, self.tenures[-1].table)

    def frozen(self) -> Lineage:
        return Lineage(
            self.id, tuple(self.tenures), tuple(self.versions), self.dropped_ts, self.stop, tuple(self.marks)
        )
