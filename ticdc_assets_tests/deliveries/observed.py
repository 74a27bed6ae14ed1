"""The content of a lake after a run: the changes in its changelogs, and the mirrors folded from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.progress import field_ids_by_uid
from ticdc_assets_tests.deliveries.folding import Mirror
from ticdc_assets_tests.pipeline.lakes import _change
from ticdc_assets_tests.protocols.happened import Change

Rows = list[dict[str, Any]]


@dataclass
class Observer:
    """Looks at a lake after each run; keeps what it read of a snapshot, and continues each mirror from there."""

    _read: dict[str, tuple[tuple[int, int], Rows]] = field(default_factory=dict)
    _mirrors: dict[str, Mirror] = field(default_factory=dict)

    def changes(self, lake: Lake) -> Counter[Change]:
        """Every row of every changelog, as a change."""
        found: Counter[Change] = Counter()
        for source_table, _, table in self._tables(lake):
            places = field_ids_by_uid(table.properties)
            names = {uid: table.schema().find_field(ids[0]).name for uid, ids in places.items()}
            for row in self._rows(source_table, table):
                found[_change(source_table, row, names)] += 1
        return found

    def mirrors(self, lake: Lake) -> dict[tuple[str, str], Counter[Any]]:
        """The rows of every table that is there and has a key, folded on from the run before."""
        found = {}
        for source_table, record, table in self._tables(lake):
            first = source_table.versions[0]
            if not first.table.key:
                continue
            mirror = self._mirrors.setdefault(source_table.id, Mirror(source_table.id, first.from_ts))
            mirror.catch_up(source_table, table, self._rows(source_table, table), record.watermark)
            if record.state != "dropped" or (source_table.dropped_ts or 0) > record.watermark:
                found[source_table.name_at(record.watermark)] = mirror.images(
                    source_table.version_at(record.watermark + 1)
                )
        return found

    def _tables(self, lake: Lake) -> list[tuple[SourceTable, TableRecord, Any]]:
        newest = lake.control.newest()
        source_tables = lake.history().by_id()
        recorded = [r for r in (newest.tables if newest else ()) if r.changelog is not None]
        return [(source_tables[r.source_table], r, lake.catalog.load_table(tuple(r.changelog or ()))) for r in recorded]

    def _rows(self, source_table: SourceTable, table: Any) -> Rows:
        snapshot = table.current_snapshot()
        if snapshot is None:
            return []
        now = (snapshot.snapshot_id, table.schema().schema_id)
        kept = self._read.get(source_table.id)
        if kept is None or kept[0] != now:
            self._read[source_table.id] = kept = (now, table.scan().to_arrow().to_pylist())
        return kept[1]
