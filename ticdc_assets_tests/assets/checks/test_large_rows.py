"""Large rows that cannot be completed from upstream: a red check of their tables, which says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets_tests.assets.feeds import QUIET, checks, event_texts, without_java
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.upstreams import is_cut
from ticdc_assets_tests.sources.upstream.tidb_server import PASSWORD, Snapshots, TidbServer

__all__ = ["without_java"]

CUT = [w for w in workloads("canal-json-tidb", "seed1") if is_cut(w)]
SAID_BY_TIDB = "nachtigall"
OLD = (8055, f"snapshot is older than GC safe point {SAID_BY_TIDB}")


def run(lake: FeedLake) -> Any:
    job = definitions_of(lake.config).resolve_job_def("feed__run")
    return job.execute_in_process(QUIET, raise_on_error=False)


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("workload", CUT, ids=lambda w: w.name)
def test_the_check_is_red_while_large_rows_wait_and_green_afterwards(workload: Workload, tmp_path: Path):
    too_old = lambda statement: OLD if statement.startswith("SELECT") else None  # noqa: E731
    with TidbServer(Snapshots.of(workload), too_old).running() as server:
        lake = FeedLake(workload, tmp_path / "lake", upstream=server.config)
        run(lake)  # tables have assets, and checks, once they were seen
        first = run(lake)
        held = {name for name, record in lake.records().items() if record.state == "waiting"}
        server.on = lambda statement: None
        second = run(lake)

    results = {key[0]: check for key, check in checks(first).items() if key[1] == "not_held"}
    assert not checks(first)["feed/watermarks", "no_table_held"].passed
    red = [check for check in results.values() if not check.passed]
    assert len(red) == len(held) > 0
    assert len(red) < len(results)
    assert all("tidb_gc_life_time" in str(check.metadata) + str(check.description) for check in red)
    assert all(check.passed for key, check in checks(second).items() if key[1] == "not_held")
    for result in (first, second):
        assert PASSWORD not in event_texts(result)
        assert SAID_BY_TIDB not in event_texts(result)
