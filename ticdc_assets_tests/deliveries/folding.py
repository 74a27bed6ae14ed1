"""A mirror in a dictionary: the pipeline plans its segments, which are applied row by row.

So the planning of mirrors and the effects of statements are the real code's; Spark's part, to merge a segment, is the
plainest there can be. Rows are by the names their columns have now.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ticdc_assets.changes import layout
from ticdc_assets.pipeline.mirror.segments import segments
from ticdc_assets.schema.evolution.schema_state import FillColumn, TruncateRows
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.tables.iceberg.properties import VERSION
from ticdc_assets.tables.mirror.writer import Segment
from ticdc_assets.tables.progress import Progress, field_ids_by_uid

Cells = dict[int, Any]


@dataclass
class Mirror:
    """The rows of one source table by key, each by the uids of its columns; how far it is, as its table would say
    it."""

    source_table: str
    version_ts: int
    watermark: int = 0
    rows: dict[Any, Cells] = field(default_factory=dict)

    @property
    def table(self) -> Any:
        """What the planning asks of a mirror's table."""
        summary = SimpleNamespace(additional_properties=Progress(self.watermark).summary("feed", Progress()))
        snapshot = SimpleNamespace(summary=summary, parent_snapshot_id=None) if self.watermark else None
        return SimpleNamespace(
            properties={VERSION: str(self.version_ts)}, current_snapshot=lambda: snapshot, metadata=None
        )

    def catch_up(
        self, source_table: SourceTable, changelog: Any, changes: list[dict[str, Any]], watermark: int
    ) -> None:
        """Apply what the pipeline plans for it up to `watermark`."""
        for segment in list(segments(source_table, changelog, self.table, watermark, by_arrival=False)):
            for version in source_table.versions:
                if self.version_ts < version.from_ts <= segment.version.from_ts:
                    self._enter(version)
            if segment.files:
                self._merge(segment, changelog, changes)
                self.watermark = segment.watermark

    def _enter(self, version: Version) -> None:
        self.version_ts = version.from_ts
        for effect in version.effects:
            if isinstance(effect, TruncateRows):
                self.rows.clear()
            elif isinstance(effect, FillColumn):
                value = effect.value.value
                filled = int(value) if value is not None and str(effect.type.kind).endswith("INT") else value
                for row in self.rows.values():
                    row[effect.uid] = filled
            else:
                raise AssertionError(f"the model has no statement with the effect {type(effect).__name__}")

    def _merge(self, segment: Segment, changelog: Any, changes: list[dict[str, Any]]) -> None:
        names = {
            uid: changelog.schema().find_field(ids[0]).name
            for uid, ids in field_ids_by_uid(changelog.properties).items()
        }
        columns = segment.version.table.stored_columns
        key = next(c.uid for c in columns if c.name in segment.version.table.key)
        chosen = [row for row in changes if segment.low < row[layout.COMMIT_TS] <= segment.high]
        for row in sorted(chosen, key=lambda row: (row[layout.COMMIT_TS], row[layout.SEQ])):
            self.rows.pop(row[names[key]], None)
            if row[layout.OP] != "D":
                self.rows[row[names[key]]] = {c.uid: row[names[c.uid]] for c in columns}

    def images(self, version: Version) -> Counter[Any]:
        """Its rows by the names that their columns have in `version`."""
        columns = version.table.stored_columns
        return Counter(tuple(sorted((c.name, row.get(c.uid)) for c in columns)) for row in self.rows.values())
