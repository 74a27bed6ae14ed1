"""Runs that somebody terminates in the UI while `dagster dev` runs them: what is left, and what the next run does."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import DagsterRunStatus

from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.services.dagster import dagster_dev, until

RUN_TIMEOUT_S = 300
MOMENTS = ("publishing changelogs", "merging")
ENDED = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)
JOB = "feed__run"
pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.matrix]


def test_a_run_that_is_terminated_leaves_whole_tables_and_the_next_one_goes_on(tmp_path: Path):
    [workload] = [w for w in workloads("storage-csv", "seed1") if w.root.parent.name == "storage-csv"]
    lake = FeedLake(workload, tmp_path / "lake")
    last = max(entry["ts"] for entry in workload.truth)
    with dagster_dev(tmp_path, lake.config.path) as dagster:
        for moment in MOMENTS:
            run = dagster.launch(JOB)
            until(lambda run=run, moment=moment: dagster.said(run, moment), RUN_TIMEOUT_S)
            assert dagster.terminate(run) == "TerminateRunSuccess"
            until(lambda run=run: dagster.status(run) is DagsterRunStatus.CANCELED, RUN_TIMEOUT_S)
            assert all(record.state in ("live", "dropped") for record in lake.records().values())
        for _ in range(2):
            run = dagster.launch(JOB)
            until(lambda run=run: dagster.status(run) in ENDED, RUN_TIMEOUT_S)
            assert dagster.status(run) is DagsterRunStatus.SUCCESS
            snapshots = lake.snapshots()
            assert lake.differences(last) == []

    assert lake.publish() is None
    assert lake.snapshots() == snapshots
