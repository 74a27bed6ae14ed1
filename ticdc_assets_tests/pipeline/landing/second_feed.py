"""A changefeed that decodes the landed messages of another one."""

from __future__ import annotations

from typing import Any

import yaml

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.lakes import FeedLake


def second(feed: FeedLake, **settings: Any) -> FeedLake:
    """Another changefeed of the same file, in the same catalog, with tables of its own."""
    config = yaml.safe_load(feed.config.path.read_text())
    target = {"mirror": "again_{schema}.{table}", "changelog": "again_{schema}__changes.{table}"}
    first = config["changefeeds"]["feed"]
    replayed = {**first, "source": {"messages": "feed"}, "target": target, **settings}
    feed.config.path.write_text(yaml.safe_dump({**config, "changefeeds": {"feed": first, "again": replayed}}))
    again = FeedLake.__new__(FeedLake)
    again.workload, again.config = feed.workload, load(feed.config.path, {})
    again.lake = Lake(again.config, again.config.changefeed("again"))
    return again


def publish(again: FeedLake) -> Any:
    run = run_of(Lake(again.config, again.lake.changefeed))
    pending = run.scan()
    return None if pending.is_empty else run.publish_changelogs(pending, LocalWorkers())
