"""A run killed at any moment, and its recovery killed too: then everything is there once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.faults.killed import dies
from ticdc_assets_tests.pipeline.faults.moments import CHANGELOG_MOMENTS, MOMENTS
from ticdc_assets_tests.pipeline.gaps import Log, as_read, as_sent, expected
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.mirror.snapshot_tsos import snapshot_tsos
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of

# Histories and views have their own tests of kills.
_OTHERS = (Failpoint.HISTORY_MADE, Failpoint.VIEWS_REPLACED)
MIRROR_MOMENTS = [m for m in MOMENTS[MOMENTS.index(Failpoint.MIRROR_MADE) :] if m not in _OTHERS]
FEEDS = (
    "storage-csv-special",
    "simple-json",
    "canal-json-tidb",
    "open",
    "simple-avro",
    "avro-ext",
    "debezium-tidb-noschema",
    "storage-csv-no-commit-ts",
    "storage-canal-json-tidb-restart",
)
IN_EVERY_RUN = ("storage-csv-special", "simple-json")


def cases() -> Iterator[ParameterSet]:
    for workload in workloads(seed="seed1"):
        variant = workload.root.parent.name
        if variant in FEEDS:
            marks = () if variant in IN_EVERY_RUN else pytest.mark.matrix
            for moment in CHANGELOG_MOMENTS:
                yield pytest.param(workload, moment, id=f"{variant}-{moment}", marks=marks)


@pytest.mark.variants(6)
@pytest.mark.parametrize(("workload", "moment"), cases())
def test_changelogs_hold_every_change_once_after_runs_that_were_killed(
    workload: Workload, moment: Failpoint, tmp_path: Path
):
    lake = FeedLake(workload, tmp_path / "lake")
    config = tmp_path / "lake" / "changefeeds.yaml"

    assert dies(config, moment), "the moment was never reached"
    dies(config, moment, occurrence=2)
    dies(config, Failpoint.AFTER_CHANGELOG_COMMIT, occurrence=2)
    lake.publish()

    gaps, log = gaps_of(lake.lake.changefeed), Log(workload)
    wanted = as_sent(expected(workload), gaps, log)
    found = as_read(lake.changes(), wanted, gaps, log)
    assert found == wanted, difference(found, wanted)
    assert lake.lake.control.quarantined() == []
    assert lake.publish() is None


@pytest.mark.spark
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(
            m, marks=() if m in (Failpoint.BEFORE_MIRROR_COMMIT, Failpoint.AFTER_MIRROR_COMMIT) else pytest.mark.matrix
        )
        for m in MIRROR_MOMENTS
    ],
)
def test_mirrors_equal_the_truth_after_runs_that_were_killed(moment: Failpoint, tmp_path: Path):
    workload = next(w for w in workloads(seed="seed1") if w.root.parent.name == "storage-csv-swapraw")
    if moment in (Failpoint.VERSION_ENTERED, Failpoint.BRANCH_WRITTEN):  # what only statements reach
        workload = next(w for w in workloads(seed="seed1") if w.root.parent.name == "storage-csv-special")
    lake = FeedLake(workload, tmp_path / "lake")

    assert dies(tmp_path / "lake" / "changefeeds.yaml", moment, mirrors=True), "the moment was never reached"
    lake.mirrors()

    assert lake.differences(snapshot_tsos(workload)[-1]) == []
    newest = lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
