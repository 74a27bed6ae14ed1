"""Rebuilds tables of a small lake and reads them."""

from __future__ import annotations

from typing import Any

from ticdc_assets import spark
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.rebuild.run import RebuildReport, RebuildRequest, rebuild_tables
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Feed, column

PLAIN, LATER = ("s", "plain"), ("s", "later")

N = column("n", "INT", ColumnNullable="false", ColumnDefault="5")


def rebuild(lake: FeedLake, *tables: str, **wish: Any) -> RebuildReport:
    session = spark.session(lake.config)
    fresh = Lake(lake.config, lake.config.changefeed("feed"))
    return rebuild_tables(fresh, lambda: JvmCatalog(session, lake.catalog_name), RebuildRequest(tables, **wish))


def shown(feed: Feed, table: str, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
    mirror = feed.lake.lake.catalog.load_table(("s", table))
    rows = mirror.scan(snapshot_id=snapshot_id).to_arrow().drop_columns(["_ticdc_commit_ts"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def sql(feed: Feed, statement: str) -> None:
    spark.session(feed.lake.config).sql(statement.format(f"{feed.lake.catalog_name}.s"))


def clones(feed: Feed) -> list[str]:
    return [t[-1] for t in feed.lake.lake.catalog.list_tables(("ticdc_feed",)) if t[-1].startswith("clone_")]
