"""What a TiDB server does with its own features, as `features` lists them: the lake has what the server had."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.small_streams import SmallStream
from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import TableState
from ticdc_assets_tests.tidb.workloads.features import SCRIPTS
from ticdc_assets_tests.tidb.workloads.judge import mirror_differences, schema_differences
from ticdc_assets_tests.tidb.workloads.stream import Name, WorkloadStream

RECORDED = dict(zip(SCRIPTS, recorded("features"), strict=True))


@pytest.mark.parametrize("history", RECORDED.values(), ids=RECORDED.keys())
def test_tables_are_what_the_server_had_at_every_tso(history: History, tmp_path: Path):
    stream = WorkloadStream(SmallStream(tmp_path), [history])
    states: list[tuple[int, dict[Name, TableState]]] = []
    while not stream.is_over:
        stream.go_on(1)
        states.append((stream.ts, dict(stream.tables)))
    lake = stream.stream.lake()

    lake.publish()

    found = (schema_differences(lake.history, ts, tables, only_stored=True) for ts, tables in states)
    assert [one for of_step in found for one in of_step] == []
    assert {name: record.note for name, record in lake.records().items() if record.state != "live"} == {}


@pytest.mark.spark
def test_mirrors_hold_what_the_server_had_when_each_run_ended(tmp_path: Path):
    stream = WorkloadStream(SmallStream(tmp_path), [*RECORDED.values()])
    lake = stream.stream.lake()
    for _ in range(3):
        stream.go_on(-(-stream.length // 3))

        lake.run()

        assert list(mirror_differences(lake, stream)) == []
    assert stream.is_over
