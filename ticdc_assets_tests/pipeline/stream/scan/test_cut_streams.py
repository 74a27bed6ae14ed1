"""Streams that begin in the middle: topics keep messages for a limited time, and a capture may begin at any time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.protocols.events import Event, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes

OLDER = [
    w
    for w in workloads(seed="seed1")
    if w.root.parent.name in ("open-preexist", "simple-json-preexist", "canal-json-tidb-preexist")
    or w.root.parent.name == "simple-avro-late-bootstrap"
]
WITH_DDL = [w for w in workloads(seed="seed1") if w.root.parent.name in ("open", "simple-json", "canal-json-tidb")]


def cut_lake(workload: Workload, folder: Path, first: int, **settings: Any) -> FeedLake:
    """A lake of the stream without the first messages of each partition."""
    seen: Counter[tuple[str, int]] = Counter()
    kept = []
    for line in (workload.root / "messages.jsonl").read_text().splitlines():
        message = json.loads(line)
        partition = (message["topic"], message["partition"])
        seen[partition] += 1
        if seen[partition] > first:
            kept.append(line + "\n")
    capture = folder / "messages.jsonl"
    capture.write_text("".join(kept))
    return FeedLake(workload, folder / "lake", capture, **settings)


def sent_rows(lake: FeedLake, capture: Path) -> Counter[tuple[Any, ...]]:
    """Table, operation and commit_ts of every row in the rest of the stream."""
    rows = (e for e in sent_events(lake, capture) if isinstance(e, RowEvent))
    return Counter((e.schema, e.table, str(e.op), e.commit_ts) for e in rows)


def sent_events(lake: FeedLake, capture: Path) -> list[Event]:
    feed = lake.lake.changefeed
    protocol, options = REGISTRY[str(feed.sink.protocol)], options_of(feed)
    return [e for m in messages(capture) for e in protocol.decode(m.key, m.value, m.where, options)]


def tables_with_lost_statements(lake: FeedLake, capture: Path) -> set[str]:
    """The tables that schema_files describe as they were before a statement that was cut off."""
    kept = {e.commit_ts for e in sent_events(lake, capture) if isinstance(e, DdlEvent) and e.query}
    lost = [e for e in lake.workload.events if e["kind"] == "ddl" and e["commit_ts"] not in kept]
    return {e["table"] for e in lost} | {e.get("new_table", e["table"]) for e in lost}


@pytest.mark.parametrize("first", [1, 17, 60])
@pytest.mark.parametrize("workload", of_full_set(OLDER), ids=lambda w: w.name)
def test_with_schema_files_a_stream_without_its_beginning_is_exact(workload: Workload, first: int, tmp_path: Path):
    lake = cut_lake(workload, tmp_path, first)

    report = lake.publish()

    assert report is not None
    assert {r.state for r in report.record.tables} == {"live"}
    capture, found = tmp_path / "messages.jsonl", lake.changes()
    assert Counter(change[:4] for change in found.elements()) == sent_rows(lake, capture)
    lost = tables_with_lost_statements(lake, capture)
    assert not Counter(c for c in found.elements() if c.table not in lost) - expected_changes(workload, True)


@pytest.mark.variants(6)
@pytest.mark.parametrize("first", [17, 60])
@pytest.mark.parametrize("workload", [*OLDER, *WITH_DDL], ids=lambda w: w.name)
def test_without_schema_files_each_table_has_the_rows_that_can_be_read_or_a_reason(
    workload: Workload, first: int, tmp_path: Path
):
    lake = cut_lake(workload, tmp_path, first, schema_files=[])

    report = lake.publish()

    assert report is not None
    assert report.quarantined == 0
    sent = sent_rows(lake, tmp_path / "messages.jsonl")
    held = {(r.schema, r.table) for r in report.record.tables if r.state in ("waiting", "stopped")}
    assert all(r.note for r in report.record.tables if (r.schema, r.table) in held)
    found = Counter(change[:4] for change in lake.changes().elements())
    assert not found - sent
    assert {(row[0].lower(), row[1].lower()) for row in sent - found} <= {(s.lower(), t.lower()) for s, t in held}


@pytest.mark.parametrize("workload", of_full_set(w for w in OLDER if w.name.startswith("canal")), ids=lambda w: w.name)
def test_a_schema_file_from_before_a_lost_statement_hides_no_column(workload: Workload, tmp_path: Path):
    lake = cut_lake(workload, tmp_path, 60)

    lake.publish()

    sent = {(e.schema, e.table, e.commit_ts): e for e in sent_events(lake, tmp_path / "messages.jsonl")
            if isinstance(e, RowEvent) and e.op != "D"}  # fmt: skip
    found = [c for c in lake.changes() if c.op != "D" and (c.schema, c.table, c.commit_ts) in sent]
    assert found
    for change in found:
        row = sent[change.schema, change.table, change.commit_ts]
        assert {name for name, _ in change.new} == set(row.wire)
