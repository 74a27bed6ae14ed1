"""What a lake shows after a run: the changes its changelogs hold, and the mirrors folded from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.schema.lineage import Lineage
from ticdc_assets.tables.control import TableRecord
from ticdc_assets.tables.progress import columns_of
from ticdc_assets_tests.deliveries.folding import Mirror
from ticdc_assets_tests.pipeline.lakes import _change
from ticdc_assets_tests.protocols.happened import Change

Rows = list[dict[str, Any]]


@dataclass
class Observer:
    """Looks at a lake after each run; keeps what it read of a snapshot, and each mirror goes on from where it was."""

    _read: dict[str, tuple[tuple[int, int], Rows]] = field(default_factory=dict)
    _mirrors: dict[str, Mirror] = field(default_factory=dict)

    def changes(self, lake: Lake) -> Counter[Change]:
        """Every row of every changelog, as the change it says."""
        found: Counter[Change] = Counter()
        for lineage, _, table in self._tables(lake):
            places = columns_of(table.properties)
            names = {uid: table.schema().find_field(ids[0]).name for uid, ids in places.items()}
            for row in self._rows(lineage, table):
                found[_change(lineage, row, names)] += 1
        return found

    def mirrors(self, lake: Lake) -> dict[tuple[str, str], Counter[Any]]:
        """The rows of every table that is there and has a key, folded on from the run before."""
        found = {}
        for lineage, record, table in self._tables(lake):
            first = lineage.versions[0]
            if not first.table.key:
                continue
            mirror = self._mirrors.setdefault(lineage.id, Mirror(lineage.id, first.from_ts))
            mirror.catch_up(lineage, table, self._rows(lineage, table), record.watermark)
            if record.state != "dropped" or (lineage.dropped_ts or 0) > record.watermark:
                found[lineage.name_at(record.watermark)] = mirror.images(lineage.version_at(record.watermark + 1))
        return found

    def _tables(self, lake: Lake) -> list[tuple[Lineage, TableRecord, Any]]:
        newest = lake.control.newest()
        lineages = lake.history().by_id()
        recorded = [r for r in (newest.tables if newest else ()) if r.changelog is not None]
        return [(lineages[r.lineage], r, lake.catalog.load_table(tuple(r.changelog or ()))) for r in recorded]

    def _rows(self, lineage: Lineage, table: Any) -> Rows:
        snapshot = table.current_snapshot()
        if snapshot is None:
            return []
        now = (snapshot.snapshot_id, table.schema().schema_id)
        kept = self._read.get(lineage.id)
        if kept is None or kept[0] != now:
            self._read[lineage.id] = kept = (now, table.scan().to_arrow().to_pylist())
        return kept[1]
