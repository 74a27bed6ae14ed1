"""Workloads of whole databases that a TiDB ran: the lake has what the server had at their TSOs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.replayed import TableState
from ticdc_assets_tests.tidb.workloads.judge import mirror_differences, schema_differences
from ticdc_assets_tests.tidb.workloads.recording import MODES
from ticdc_assets_tests.tidb.workloads.sinks import IN_ZONES, SINKS
from ticdc_assets_tests.tidb.workloads.stream import Name, WorkloadStream

RUNS = 3


@pytest.fixture(params=IN_ZONES, ids="-".join)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> WorkloadStream:
    sink, zone = request.param
    found = [workload for workload in recorded("workloads") if workload["zone"] == zone]
    assert {workload["mode"] for workload in found} == {*MODES}
    return WorkloadStream(SINKS[sink](tmp_path, zone), found)


@pytest.mark.variants(1)
def test_tables_are_what_the_server_had_at_every_tso(stream: WorkloadStream):
    states: list[tuple[int, dict[Name, TableState]]] = []
    while not stream.is_over:
        stream.go_on(1)
        states.append((stream.ts, dict(stream.tables)))
    lake = stream.lake()

    lake.publish(LocalWorkers())

    history = lake.history
    assert [found for ts, tables in states for found in schema_differences(history, ts, tables)] == []
    assert sum(record.state == "live" for record in lake.records().values()) >= len(stream.tables) * 0.6


@pytest.mark.variants(1)
@pytest.mark.spark
def test_mirrors_hold_what_the_server_had_when_each_run_ended(stream: WorkloadStream):
    lake = stream.lake()
    for number in range(RUNS):
        stream.go_on(stream.length // RUNS + (number == 0))

        lake.run()

        assert list(mirror_differences(lake, stream)) == []
    assert stream.is_over
    assert sum(record.mirror is not None and record.state == "live" for record in lake.records().values()) >= 8
