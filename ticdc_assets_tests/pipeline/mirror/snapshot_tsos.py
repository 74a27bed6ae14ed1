"""The TSOs of a mirror's snapshots."""

from __future__ import annotations

from ticdc_assets_tests.fixtures import Workload


def snapshot_tsos(workload: Workload) -> list[int]:
    return sorted({entry["ts"] for entry in workload.truth})
