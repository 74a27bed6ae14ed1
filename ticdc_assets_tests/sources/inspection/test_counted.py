"""An inspection counts what is in a stream."""

from __future__ import annotations

from collections import Counter

import pytest

from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.sources.inspection.inspected import ALL, seen


def happened(workload: Workload) -> tuple[Counter[str], Counter[str]]:
    """By table: rows that are there after a change (inserts and updates), rows that were there before it."""
    after: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for event in workload.events:
        if event["kind"] == "dml":
            name = f"{event['schema']}.{event['table']}"
            after[name] += event["op"] != "delete"
            before[name] += event["op"] != "insert"
    return after, before


@pytest.mark.parametrize(
    "workload", [w for w in ALL if not w.name.startswith("avro") and "restart" not in w.name], ids=lambda w: w.name
)
def test_rows_and_statements_are_those_that_happened(workload: Workload):
    """An update of a key is sent as two changes: so new rows and gone rows count, not kinds of changes."""
    after, before = happened(workload)
    found = seen(workload)
    counts = {f"{t.schema}.{t.table}": t.counts for t in found.tables.values() if t.counts.rows}

    assert {
        name: c.inserts + c.updates + c.upserts for name, c in counts.items() if c.inserts + c.updates + c.upserts
    } == +after
    if not found.counts.upserts:
        assert {name: c.updates + c.deletes for name, c in counts.items() if c.updates + c.deletes} == +before
    assert found.events.statements == sum(event["kind"] == "ddl" for event in workload.events)
    assert found.read.whole
    assert not found.counts.upserts or "no-old-value" in workload.name


@pytest.mark.parametrize("workload", [w for w in ALL if w.name.startswith("avro")], ids=lambda w: w.name)
def test_avro_rows_count_by_what_their_schemas_tell(workload: Workload):
    found = seen(workload).counts
    sent = sum(event["kind"] == "dml" for event in workload.events)

    assert found.rows >= sent
    assert bool(found.upserts) == (
        "ext" not in workload.name and "checksum" not in workload.name and "watermark" not in workload.name
    )


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_times_lie_in_the_stream_and_the_watermark_is_its_last(workload: Workload):
    found = seen(workload)
    resolved = [event["ts"] for event in workload.events if event["kind"] == "resolved"]
    ends = [event["commit_ts"] for event in workload.events if event["kind"] in ("ddl", "dml")]

    for table in found.tables.values():
        assert table.first_ts is None or min(ends) >> 18 <= table.first_ts >> 18 <= table.last_ts >> 18
    if found.events.watermark is not None and "internal" not in workload.name:
        assert found.events.watermark in {*resolved, *ends}


def test_only_what_is_wrong_with_the_fixtures_is_called_a_problem():
    wrong = {w.root.parent.name: [p.expected for p in seen(w).problems.values()] for w in ALL}

    assert {name: problems for name, problems in wrong.items() if problems} == {
        name: ["whole rows"] for name in wrong if "handle-key-only" in name
    }
