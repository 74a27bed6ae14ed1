"""The TiDB that a workload's changefeed read from, for the workloads whose large rows came as their handle key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.sources.upstream.tidb_server import Snapshots, TidbServer


def is_cut(workload: Workload) -> bool:
    """Whether large rows of the workload were sent as their handle key."""
    return "handle-key-only" in workload.name


@contextmanager
def upstream_of(workload: Workload) -> Iterator[dict[str, Any]]:
    """The additional config of a changefeed while that TiDB runs; empty for the other workloads."""
    if not is_cut(workload):
        yield {}
        return
    with TidbServer(Snapshots.of(workload)).running() as server:
        yield {"upstream": server.config}
