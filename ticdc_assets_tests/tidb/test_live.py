"""A TiDB server that TICDC_ASSETS_TIDB names: new random tables and workloads, judged as recorded ones.

TICDC_ASSETS_TIDB_SEED says which, TICDC_ASSETS_TIDB_TABLES how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ticdc_assets_tests.tidb import defaults, partitions, recording
from ticdc_assets_tests.tidb.evaluated import evaluate
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import differences, steps_of
from ticdc_assets_tests.tidb.server import SERVER, Tidb
from ticdc_assets_tests.tidb.workloads.judge import mirror_differences, schema_differences
from ticdc_assets_tests.tidb.workloads.recording import workloads
from ticdc_assets_tests.tidb.workloads.sinks import IN_ZONES, SINKS
from ticdc_assets_tests.tidb.workloads.stream import WorkloadStream

SEED = int(os.environ.get("TICDC_ASSETS_TIDB_SEED", "7"))
TABLES = int(os.environ.get("TICDC_ASSETS_TIDB_TABLES", "40"))
pytestmark = [
    pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server"),
    pytest.mark.spark,
]


def lived(tidb: Tidb) -> Iterator[History]:
    yield from recording.histories(tidb, TABLES, SEED)
    yield from partitions.histories(tidb, TABLES // 2, SEED)
    yield from defaults.histories(tidb, max(1, TABLES // 10), SEED)


@pytest.fixture(params=IN_ZONES, ids="-".join)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> WorkloadStream:
    sink, zone = request.param
    return WorkloadStream(SINKS[sink](tmp_path, zone), workloads(zone, max(1, TABLES // 40), SEED))


def test_a_lake_has_what_the_server_had_at_the_tso_of_each_run(stream: WorkloadStream):
    lake = stream.lake()
    for _ in range(2):
        stream.go_on(stream.length // 2 + 1)

        lake.run()

        assert list(schema_differences(lake.history, stream.ts, stream.tables)) == []
        assert list(mirror_differences(lake, stream)) == []
    assert stream.is_over


def test_a_server_and_this_project_make_the_same_of_statements(tmp_path: Path):
    with closing(Tidb("ticdc_assets_lived")) as tidb:
        steps = [step for history in lived(tidb) for step in steps_of(history)]
    evaluate([e for step in steps for e in (*step.converts.values(), *step.deletes)], tmp_path)

    assert differences(steps) == []
    assert sum(not step.held for step in steps) > TABLES
