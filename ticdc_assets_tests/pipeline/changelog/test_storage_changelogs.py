"""The changelogs of storage changefeeds, without Spark: every change of the log once, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ticdc_assets.pipeline.storage import reader as storage_files
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay, expected_changes

STORAGE = workloads("storage-")


def sends_old_values(workload: Workload) -> bool:
    csv = workload.variant["config"]["sink"].get("csv")
    return csv is None or csv.get("output-old-value", False)


@pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
def test_one_run_holds_every_change_once(workload: Workload, tmp_path: Path):
    """Repeats after restarts, DDL in mid-stream, other zones, tables without a key: all come out as the log says."""
    assert_holds_every_change(workload, tmp_path)


@pytest.mark.parametrize("workload", [w for w in STORAGE if "canal-json" in w.name], ids=lambda w: w.name)
def test_small_files_hold_the_same_changes_in_bulk(workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage_files, "SMALL_JSON_BYTES", 0)

    assert_holds_every_change(workload, tmp_path)


def assert_holds_every_change(workload: Workload, tmp_path: Path) -> None:
    lake = FeedLake(workload, tmp_path / "lake")

    report = lake.publish()

    assert report is not None
    assert {r.state for r in report.record.tables} <= {"live", "dropped"}
    found, wanted = lake.changes(), expected_changes(workload, sends_old_values(workload))
    if lake.lake.by_arrival:
        found = Counter(c._replace(commit_ts=0, schema="", table="") for c in found.elements())
        wanted = Counter(c._replace(commit_ts=0, schema="", table="") for c in wanted.elements())
    assert found == wanted, difference(found, wanted)


def replayed() -> Iterator[ParameterSet]:
    often = ("csv-restart", "canal-json-tidb-special", "csv-no-commit-ts", "csv-keyless", "csv-preexist", "csv-zone")
    for workload in (w for w in STORAGE if w.root.name == "seed1"):
        in_every_run = workload.root.parent.name.removeprefix("storage-") in often
        yield pytest.param(workload, id=workload.name, marks=() if in_every_run else pytest.mark.matrix)


@pytest.mark.parametrize("workload", list(replayed()))
def test_runs_after_every_few_writes_hold_the_same_changes(workload: Workload, tmp_path: Path):
    """Files arrive in TiCDC's order, with indexes before data and a checkpoint that lags."""
    replay = Replay(workload, tmp_path / "bucket")
    lake = FeedLake(workload, tmp_path / "lake", replay.folder)

    while not replay.is_over:
        replay.write(29)
        lake.publish()

    found, wanted = lake.changes(), expected_changes(workload, sends_old_values(workload))
    if lake.lake.by_arrival:
        found = Counter(c._replace(commit_ts=0, schema="", table="") for c in found.elements())
        wanted = Counter(c._replace(commit_ts=0, schema="", table="") for c in wanted.elements())
    assert found == wanted, difference(found, wanted)


def test_a_second_run_with_nothing_new_makes_no_snapshot(tmp_path: Path):
    workload = workloads("storage-csv", "seed1")[0]
    lake = FeedLake(workload, tmp_path / "lake")
    lake.publish()
    before = lake.snapshots()

    assert lake.publish() is None
    assert lake.snapshots() == before
