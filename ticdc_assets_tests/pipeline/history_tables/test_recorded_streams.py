"""History tables compared with the true rows at every snapshot of recorded streams, after several runs.

`test_histories` compares small ones with the rows that their changelogs give.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.pipeline.history_tables.compared import compared
from ticdc_assets_tests.pipeline.lakes import FeedLake

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

VARIANTS = (
    "storage-csv",
    "open",
    "simple-json",
    "simple-avro",
    "storage-csv-special",
    "storage-canal-json-tidb-restart",
)
RUNS = 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_at_every_recorded_snapshot_are_those_of_the_truth(variant: str, tmp_path: Path):
    workload = Workload(CORPUS / "fixtures" / variant / "seed1")
    lake = FeedLake(workload, tmp_path, history=["*.*"])

    run_in_steps(lake, workload)

    assert lake.run() is None
    assert compared(lake, workload) == []


def run_in_steps(lake: FeedLake, workload: Workload) -> None:
    moments = sorted({entry["ts"] for entry in workload.truth})
    for _, until in pairwise([0, *moments[:: max(1, len(moments) // RUNS)], None]):  # type: ignore[list-item]
        report = lake.run(until)
        assert report is None or report.errors == {}
