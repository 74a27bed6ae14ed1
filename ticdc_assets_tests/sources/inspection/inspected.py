"""Inspections of the recorded streams, and where those lie."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_source
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES, Workload, workloads

ALL = workloads(seed="seed1")
EVERYTHING = Bounds(None, None)
FIXTURE_ROOT = FIXTURES or CORPUS / "fixtures"


def place(workload: Workload) -> Path:
    data = workload.root / "data"
    return data if data.is_dir() else workload.root / "messages.jsonl"


def inspected(path: Path, bounds: Bounds = EVERYTHING) -> Inspection:
    return inspect_source(str(path), bounds)


@cache
def seen(workload: Workload) -> Inspection:
    return inspected(place(workload))


def fixture(variant: str) -> Path:
    return FIXTURE_ROOT / variant / "seed1"
