"""Batches and single messages give the same result: each kind of stream is run in bulk and with the reference
decoder."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.sources import message_block
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import in_bulk_or_one_by_one
from ticdc_assets_tests.protocols.hostile.mutations import Mutator, Seed, key_and_value

FAMILIES = ("open", "simple-avro", "canal-json", "avro-ext")
STREAMS = [w for w in workloads(seed="seed1") if w.root.parent.name in FAMILIES]


def lake_content(lake: FeedLake) -> dict[str, Any]:
    """All that a run leaves, but for what differs from run to run."""
    record = lake.lake.control.newest()
    assert record is not None
    rows = {}
    for table in record.tables:
        if table.changelog is not None:
            found = lake.lake.catalog.load_table(tuple(table.changelog)).scan().to_arrow().to_pylist()
            rows[table.source_table] = Counter(repr(sorted(row.items())) for row in found)
    tables = [(t.source_table, t.schema, t.table, t.state, t.note, t.key, t.watermark, t.rows) for t in record.tables]
    quarantined = [(q.path, q.line, q.reason) for q in lake.lake.control.quarantined()]
    return {"tso": record.tso, "cursor": record.cursor, "tables": tables, "rows": rows, "quarantined": quarantined}


@pytest.mark.parametrize("workload", STREAMS, ids=lambda w: w.name)
def test_a_run_in_bulk_leaves_what_a_run_by_the_reference_leaves(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    capture = workload.root / "messages.jsonl"

    bulk, reference = both(workload, capture, tmp_path, monkeypatch)

    assert bulk == reference


MESSAGES_MAX = 150
ONE_OF_EACH = ("open", "simple-avro", "simple-json", "canal-json-tidb", "avro-ext", "debezium-tidb-noschema")


@pytest.mark.parametrize(
    "workload",
    [w for w in workloads(seed="seed1") if w.root.parent.name in ONE_OF_EACH],
    ids=lambda w: w.name,
)
def test_the_size_of_batches_does_not_change_what_a_run_leaves(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A message alone, a few, and all together: some of them damaged, so that rows wait and messages are set aside."""
    capture, found = damaged(workload, tmp_path, MESSAGES_MAX), []
    in_bulk_or_one_by_one(monkeypatch, True)
    for messages in (1, 7, MESSAGES_MAX):
        monkeypatch.setattr(message_block, "BLOCK_MESSAGES", messages)
        lake = FeedLake(workload, tmp_path / str(messages), capture, time_zone=workload.time_zone)
        lake.publish()
        found.append(lake_content(lake))

    assert any(found[0]["rows"].values())
    assert found[0] == found[1] == found[2]


def both(
    workload: Workload, capture: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run in bulk leaves, and one by the reference alone."""
    monkeypatch.setattr(message_block, "BLOCK_MESSAGES", 300)  # several batches and tasks
    in_bulk_or_one_by_one(monkeypatch, True)
    bulk = FeedLake(workload, folder / "bulk", capture, time_zone=workload.time_zone)
    bulk.publish()
    in_bulk_or_one_by_one(monkeypatch, False)
    reference = FeedLake(workload, folder / "reference", capture, time_zone=workload.time_zone)
    reference.publish()
    return lake_content(bulk), lake_content(reference)


IN_EVERY_RUN = ("open",)


def damaged(workload: Workload, folder: Path, messages: int | None = None) -> Path:
    """The capture of a workload, or so many messages of it, with every twelfth message damaged."""
    if (workload.root / "registry.json").exists():
        shutil.copy(workload.root / "registry.json", folder)
    lines = [json.loads(line) for line in (workload.root / "messages.jsonl").read_text().splitlines()[:messages]]
    for number in range(5, len(lines), 12):
        key, value = (b64decode(lines[number][part] or "") for part in ("key", "value"))
        [mutant] = Mutator([Seed((key, value), key_and_value)], number).mutants(1)
        parts = ((part, getattr(mutant, part)) for part in ("key", "value"))
        lines[number] |= {part: None if not raw else b64encode(raw).decode() for part, raw in parts}
    capture = folder / "messages.jsonl"
    capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return capture


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(w, id=w.name, marks=() if w.root.parent.name in IN_EVERY_RUN else pytest.mark.matrix)
        for w in STREAMS
    ],
)
def test_a_damaged_capture_leaves_in_bulk_what_it_leaves_by_the_reference(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bulk, reference = both(workload, damaged(workload, tmp_path), tmp_path, monkeypatch)

    assert bulk["quarantined"]
    assert any(bulk["rows"].values())
    assert bulk == reference
