"""The job that brings tables to what TiDB has."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from ticdc_assets_tests.assets.feeds import QUIET, Feed
from ticdc_assets_tests.assets.feeds import without_java as without_java

NOWHERE = {"host": "127.0.0.1", "port": 1, "user": "root"}


def jobs(feed: Feed) -> set[str]:
    return {job.name for job in feed.definitions.get_repository_def().get_all_jobs()}


def test_it_exists_where_upstream_is_set_and_fails_as_the_command_does(tmp_path: Path, without_java: None):
    feed = Feed(tmp_path, upstream=NOWHERE).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2))
    feed.checkpoint(10).run()
    config = {**QUIET, "ops": {"shop__resync": {"config": {"tables": ["shop.users", "shop.new"]}}}}

    result = feed.definitions.resolve_job_def("shop_resync").execute_in_process(config, raise_on_error=False)

    assert not result.success
    [failure] = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert "upstream 127.0.0.1:1: expected a TiDB server" in str(failure.event_specific_data)
    assert "shop_resync" not in jobs(Feed(tmp_path / "plain").table("shop", "users").checkpoint(10))
