"""Loads of dumps that tests write of a workload's tables at a TSO."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.load.source import DumpChanges
from ticdc_assets.pipeline.load.task import DumpRequest
from ticdc_assets.pipeline.run.load import LoadReport, load_changelogs
from ticdc_assets.sources.dump.listing import read_dump
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake


def workload(variant: str) -> Workload:
    return next(one for one in workloads(variant, "seed1") if one.root.parent.name == variant)


def middle(workload: Workload) -> int:
    """A TSO with changes and statements before and after it."""
    found = sorted({entry["ts"] for entry in workload.truth})
    return found[len(found) // 2]


def at(workload: Workload, ts: int) -> list[dict]:
    return [entry for entry in workload.truth if entry["ts"] == ts]


def source_of(lake: FeedLake, folder: Path, ts: int, round_bytes: int = 1 << 30, **more) -> DumpChanges:
    request = DumpRequest(read_dump(open_root(str(folder))), str(folder), ts, zone=lake.workload.time_zone, **more)
    return DumpChanges(Lake(lake.config, lake.config.changefeed("feed")), request, round_bytes)


def loaded(lake: FeedLake, source: DumpChanges) -> LoadReport:
    return load_changelogs(Lake(lake.config, lake.config.changefeed("feed")), source, LocalWorkers, lambda _: None)
