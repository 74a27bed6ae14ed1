"""Whole batches and single messages come to the same: each kind of stream is run in bulk and by the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline import message_look
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

FAMILIES = ("open", "simple-avro", "canal-json", "avro-ext")
STREAMS = [w for w in workloads(seed="seed1") if w.root.parent.name in FAMILIES]


def told(lake: FeedLake) -> dict[str, Any]:
    """All that a run leaves, but for what differs from run to run."""
    record = lake.lake.control.newest()
    assert record is not None
    rows = {}
    for table in record.tables:
        if table.changelog is not None:
            found = lake.lake.catalog.load_table(tuple(table.changelog)).scan().to_arrow().to_pylist()
            rows[table.lineage] = Counter(repr(sorted(row.items())) for row in found)
    tables = [(t.lineage, t.schema, t.table, t.state, t.note, t.key, t.watermark, t.rows) for t in record.tables]
    quarantined = [(q.path, q.line, q.reason) for q in lake.lake.control.quarantined()]
    return {"tso": record.tso, "cursor": record.cursor, "tables": tables, "rows": rows, "quarantined": quarantined}


@pytest.mark.parametrize("workload", STREAMS, ids=lambda w: w.name)
def test_a_run_in_bulk_leaves_what_a_run_by_the_reference_leaves(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(message_look, "BATCH_MESSAGES", 300)  # several batches and tasks
    bulk = FeedLake(workload, tmp_path / "bulk", time_zone=workload.time_zone)
    bulk.publish()
    for name, protocol in REGISTRY.items():
        monkeypatch.setitem(REGISTRY, name, replace(protocol, bulk=None))
    reference = FeedLake(workload, tmp_path / "reference", time_zone=workload.time_zone)
    reference.publish()

    assert told(bulk) == told(reference)
