"""Mirrors on Spark and Iceberg: the current rows, cell by cell, at the end and at every watermark on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.mirror import rounds as mirror_rounds
from ticdc_assets.pipeline.mirror import segments
from ticdc_assets.pipeline.mirror.merge import plan as mirror_merge
from ticdc_assets.pipeline.mirror.merge.task import MergeReport, MergeTask
from ticdc_assets.pipeline.mirror.merge.worker import merge
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay
from ticdc_assets_tests.pipeline.mirror.snapshot_tsos import snapshot_tsos
from ticdc_assets_tests.pipeline.upstreams import upstream_of

STORAGE = workloads("storage-")
STREAMS = [
    w
    for name in (
        "open/",
        "simple-json/",
        "simple-avro-special/",
        "canal-json-tidb-restart/",
        "simple-json-late-bootstrap/",
        "canal-json-tidb-handle-key-only/",
    )
    for w in workloads()
    if w.name == f"{name}seed1"
]
STEPWISE = ("storage-canal-json-tidb-restart",)
REPLAYED = ("storage-csv-swapraw", "storage-csv-restart")
ONE_OF_EACH = [w for w in STORAGE if w.root.name == "seed1"]
WHOLE = (  # one of each kind of log; other options of the sink change the files, not the mirrors
    "storage-canal-json-tidb",
    "storage-canal-json-tidb-swapraw",
    "storage-csv-extra",
    "storage-csv-no-commit-ts",
    "storage-csv-old-value-keyless",
    "storage-csv-preexist",
    "storage-csv-special",
    "storage-csv-zone",
)


def check_whole_run(workload: Workload, folder: Path) -> None:
    with upstream_of(workload) as settings:
        lake = FeedLake(workload, folder / "lake", **settings)
        report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert lake.differences(snapshot_tsos(workload)[-1]) == []
    assert lake.run() is None


def check_stepwise(workload: Workload, folder: Path, **settings: Any) -> None:
    """Runs bounded by every snapshot TSO; each leaves the truth of that TSO and can still be read at the end."""
    with upstream_of(workload) as upstream:
        lake = FeedLake(workload, folder / "lake", **upstream, **settings)
        for ts in snapshot_tsos(workload):
            report = lake.run(until=ts)
            assert report is not None
            assert report.errors == {}
            assert lake.differences(ts) == [], f"at {ts}"
    for ts in snapshot_tsos(workload):
        assert lake.recorded_differences(ts) == [], f"later, at {ts}"


def check_replayed(workload: Workload, folder: Path, writes_each: int) -> None:
    """The bucket fills as TiCDC filled it, with a run after every few writes and at each TSO of the truth."""
    replay = Replay(workload, folder / "bucket")
    replay.write()
    lake = FeedLake(workload, folder / "lake", storage=replay.folder)
    snapshots, hit = set(snapshot_tsos(workload)), 0
    while not replay.is_over:
        replay.write()
        news = replay.checkpoint > hit and replay.checkpoint in snapshots
        hit = max(hit, replay.checkpoint)  # a restarted TiCDC begins again below it
        if news or replay.at % writes_each == 0 or replay.is_over:
            report = lake.run()
            assert report is None or report.errors == {}
            if news:
                assert lake.differences(hit) == [], f"after {replay.at} writes"
    assert lake.differences(snapshot_tsos(workload)[-1]) == []
    for ts in snapshots:
        assert lake.recorded_differences(ts) == [], f"later, at {ts}"


@pytest.mark.variants(3)
@pytest.mark.spark
@pytest.mark.parametrize(
    "workload", [*(w for w in ONE_OF_EACH if w.root.parent.name in WHOLE), *STREAMS], ids=lambda w: w.name
)
def test_mirrors_equal_the_truth_after_one_run(workload: Workload, tmp_path: Path):
    check_whole_run(workload, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("workload", [w for w in ONE_OF_EACH if w.root.parent.name in STEPWISE], ids=lambda w: w.name)
def test_mirrors_equal_the_truth_at_every_snapshot_tso(workload: Workload, tmp_path: Path):
    check_stepwise(workload, tmp_path)


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("settings", [{"format_version": 2}, {"partition": "bucket(3)"}], ids=["format 2", "buckets"])
def test_mirrors_that_only_spark_merges_equal_the_truth_too(settings: dict[str, Any], tmp_path: Path):
    workload = next(w for w in ONE_OF_EACH if w.root.parent.name == "storage-csv-swapraw")

    check_stepwise(workload, tmp_path, **settings)


@pytest.mark.spark
def test_long_segments_are_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 20)
    workload = next(w for w in ONE_OF_EACH if w.root.parent.name == "storage-canal-json-tidb-restart")

    check_whole_run(workload, tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_what_workers_are_unfit_for_is_merged_by_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One share of two finds itself unfit; what the other wrote is removed."""
    monkeypatch.setattr(mirror_merge, "SHARE_ROWS", 1)
    monkeypatch.setattr(mirror_rounds, "merge", unfit_at_times)
    workload = next(w for w in ONE_OF_EACH if w.root.parent.name == "storage-canal-json-tidb-restart")

    check_whole_run(workload, tmp_path)

    lake = FeedLake(workload, tmp_path / "lake").lake
    for record in lake.control.newest().tables:  # type: ignore[union-attr]
        mirror = lake.catalog.load_table(tuple(record.mirror or ()))
        known = {Path(uri).name for uri in mirror.inspect.all_data_files()["file_path"].to_pylist()}
        assert {path.name for path in Path(mirror.location().removeprefix("file://")).rglob("*.parquet")} == known


def unfit_at_times(task: MergeTask) -> MergeReport:
    return MergeReport(task.source_table_id, unfit="a test") if task.share else merge(task)


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("workload", [w for w in ONE_OF_EACH if w.root.parent.name in REPLAYED], ids=lambda w: w.name)
def test_mirrors_follow_a_bucket_that_fills_while_they_run(workload: Workload, tmp_path: Path):
    check_replayed(workload, tmp_path, writes_each=97)


WITHOUT_TSO = ("canal-json/", "storage-canal-json/", "storage-csv-no-commit-ts/", "avro", "debezium")
MATRIX = [w for w in workloads() if not w.name.startswith(("avro", "debezium"))]


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("workload", MATRIX, ids=lambda w: w.name)
def test_every_variant_and_seed_equals_the_truth(workload: Workload, tmp_path: Path):
    """At every snapshot TSO where the stream has a TSO, else at the end."""
    if workload.name.startswith(WITHOUT_TSO):
        check_whole_run(workload, tmp_path)
    else:
        check_stepwise(workload, tmp_path)


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("workload", [w for w in STORAGE if not w.name.startswith(WITHOUT_TSO)], ids=lambda w: w.name)
def test_every_bucket_is_followed_while_it_fills(workload: Workload, tmp_path: Path):
    check_replayed(workload, tmp_path, writes_each=97)
