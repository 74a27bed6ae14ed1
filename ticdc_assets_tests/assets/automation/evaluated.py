"""Evaluates sensors of a changefeed as Dagster's daemon does."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from ticdc_assets_tests.assets.feeds import Feed


def evaluate(feed: Feed, cursor: str | None, instance: dg.DagsterInstance | None = None) -> dg.SensorResult:
    repository = feed.definitions.get_repository_def()
    [sensor] = repository.sensor_defs
    context = dg.build_sensor_context(
        cursor=cursor, instance=instance or dg.DagsterInstance.ephemeral(), repository_def=repository
    )
    return sensor(context)


def feed_of(folder: Path, tables: int = 1) -> Feed:
    feed = Feed(folder)
    for number in range(tables):
        feed.table("shop", f"t{number}").rows("shop", f"t{number}", ("I", 1, "a", 2))
    return feed.checkpoint(10)
