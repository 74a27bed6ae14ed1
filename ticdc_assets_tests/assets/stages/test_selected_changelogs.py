"""One changelog alone is materialized, and the rows of other tables are left for the next run."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from ticdc_assets.pipeline.run import NOT_SELECTED, run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.assets.feeds import Feed, checks, failures, materializations
from ticdc_assets_tests.pipeline.small_streams import SmallStream, shape

USERS = [dg.AssetKey(["shop", "changelog", "shop", "users_changes"]), dg.AssetKey(["shop", "mirror", "shop", "users"])]


def ids(feed: Feed, table: str) -> list[int]:
    return sorted(feed.lake.catalog.load_table(("shop__changes", table)).scan().to_arrow()["id"].to_pylist())


@pytest.mark.usefixtures("without_java")
def test_the_rows_of_other_tables_are_left_for_the_next_run(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").table("shop", "orders")
    for table in ("users", "orders"):
        feed.rows("shop", table, ("I", 1, "x", 2))
    feed.checkpoint(10)
    assert failures(feed.run()) == []
    for table in ("users", "orders"):
        feed.rows("shop", table, ("I", 2, "y", 12))
    feed.table("shop", "new", 13).rows("shop", "new", ("I", 1, "z", 14)).checkpoint(20)

    alone = feed.run(asset_selection=USERS)

    records = feed.records()
    assert failures(alone) == []
    assert materializations(alone).keys() == {key.to_user_string() for key in USERS}
    assert (ids(feed, "users"), ids(feed, "orders")) == ([1, 2], [1])
    assert {name: (r.state, r.note) for name, r in records.items() if name != "shop.users"} == dict.fromkeys(
        ("shop.orders", "shop.new"), ("waiting", NOT_SELECTED.note.text(""))
    )
    assert records["shop.users"].watermark > records["shop.orders"].watermark
    assert checks(alone)["shop/mirror/shop/users", "not_held"].passed

    whole = feed.run()

    assert failures(whole) == []
    assert (ids(feed, "users"), ids(feed, "orders"), ids(feed, "new")) == ([1, 2], [1, 2], [1])
    assert {r.state for r in feed.records().values()} == {"live"}
    before = feed.snapshots()
    assert failures(feed.run(asset_selection=USERS)) == []
    assert feed.snapshots() == before  # nothing is new, and no table waits


def test_messages_of_tables_that_are_not_selected_are_read_by_the_next_run(tmp_path: Path):
    stream, a, b = SmallStream(tmp_path), shape("a"), shape("b")
    for number, table in enumerate((a, b)):
        stream.create(1 + number, table)
        stream.put(5, table, number)
    stream.watermark(9)
    lake = stream.lake()
    run = run_of(lake.lake)
    pending = run.scan()
    only = {i for i, n in pending.commit_ranges.items() if n.source_table.name[1] == "a"}
    run.publish_changelogs(pending, LocalWorkers(), only=only)
    stream.put(11, b, 7)
    stream.watermark(19)
    lake.publish()
    found = {t: lake.lake.catalog.load_table(("s__changes", t)).scan().to_arrow()["id"].to_pylist() for t in ("a", "b")}
    assert {t: sorted(ids) for t, ids in found.items()} == {"a": [0], "b": [1, 7]}
