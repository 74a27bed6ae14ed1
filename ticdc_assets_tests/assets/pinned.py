"""A lake with a pinned TSO."""

from __future__ import annotations

from typing import Any

import dagster as dg

from ticdc_assets_tests.assets.feeds import QUIET, Feed
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home


def pinned(feed: Feed, **asked: Any) -> dg.ExecuteInProcessResult:
    config = {**QUIET, "ops": {"shop__as_of": {"config": asked}}}
    return feed.definitions.resolve_job_def("shop_as_of").execute_in_process(config, raise_on_error=False)
