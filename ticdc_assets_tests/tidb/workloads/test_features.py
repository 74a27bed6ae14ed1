"""What a TiDB server does with its own features, as `features` lists them: the lake has what the server had."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.replayed import TableState
from ticdc_assets_tests.tidb.workloads.features import SCRIPTS, UNTOLD
from ticdc_assets_tests.tidb.workloads.judge import mirror_differences, schema_differences
from ticdc_assets_tests.tidb.workloads.sinks import SINKS
from ticdc_assets_tests.tidb.workloads.stream import Name, WorkloadStream

RECORDED = dict(zip(SCRIPTS, recorded("features"), strict=True))

BEGUN_LATER = {history["id"] for history in RECORDED.values() if history["begins_at"]}
"""Databases whose tables are known from their first event on."""

IN_CI_OR_MATRIX = [
    sink if sink in ("canal_json", "csv") else pytest.param(sink, marks=pytest.mark.matrix) for sink in SINKS
]
"""Mirrors of messages and of files are compared in CI, those of the other two sinks in the matrix."""


@pytest.fixture(params=SINKS)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> WorkloadStream:
    untold = UNTOLD.get(request.param, ())
    chosen = [history for name, history in RECORDED.items() if name not in untold]
    return WorkloadStream(SINKS[request.param](tmp_path, "UTC"), chosen)


@pytest.mark.variants(1)
def test_tables_are_what_the_server_had_at_every_tso(stream: WorkloadStream):
    states: list[tuple[int, dict[Name, TableState]]] = []
    while not stream.is_over:
        stream.go_on(1)
        states.append((stream.ts, {name: state for name, state in stream.tables.items() if name[0] not in BEGUN_LATER}))
    lake = stream.lake()

    lake.publish()

    history = lake.history
    found = (schema_differences(history, ts, tables, only_stored=True) for ts, tables in states)
    assert [one for of_step in found for one in of_step] == []
    assert {name: record.note for name, record in lake.records().items() if record.state != "live"} == {}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("stream", IN_CI_OR_MATRIX, indirect=True)
def test_mirrors_hold_what_the_server_had_when_each_run_ended(stream: WorkloadStream):
    lake = stream.lake()
    for _ in range(3):
        stream.go_on(-(-stream.length // 3))

        lake.run()

        assert list(mirror_differences(lake, stream)) == []
    assert stream.is_over
