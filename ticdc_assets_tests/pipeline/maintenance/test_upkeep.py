"""The upkeep between many small runs: what stays, and that it works in steps."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table import Table

from ticdc_assets.errors import LakeError
from ticdc_assets.pipeline.maintenance import tables_of
from ticdc_assets.pipeline.maintenance import upkeep as upkeep_module
from ticdc_assets.pipeline.maintenance.upkeep import Upkeep
from ticdc_assets.tables.maintenance.compaction import FILES_MAX, FileCounts
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java

RUNS = 3


def after_small_runs(folder: Path) -> Feed:
    feed = Feed(folder).table("shop", "users")
    for number in range(RUNS):
        feed.rows("shop", "users", ("I", number, "ann", 2 + number)).checkpoint(2.5 + number)
        assert feed.run().success
    return feed


def never() -> Any:
    pytest.fail("Java was asked for")


def test_upkeep_leaves_what_records_name_and_counts_files(
    tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"ROUND_EVERY_S": 0.0, "MINUTES_KEPT": 0, "EXPIRED_MIN": 1}.items():
        monkeypatch.setattr(upkeep_module, name, value)
    feed = after_small_runs(tmp_path)
    upkeep = Upkeep(never)

    upkeep.work(feed.lake)

    records = feed.lake.control.watermarks().scan().to_arrow().to_pylist()  # type: ignore[union-attr]
    after = {table.name()[-1]: len(table.snapshots()) for table in tables_of(feed.lake)}
    assert [record["tso"] for record in records if record["complete"]] == [ts(2.5 + RUNS - 1)]
    assert upkeep.totals.records_removed > 0 and upkeep.totals.files_compacted == 0
    assert upkeep.totals.snapshots_expired > RUNS
    assert after == {"watermarks": 3, "schemas": 1, "users": 1}  # one overwrite thins the records: two snapshots
    assert upkeep.files is not None and upkeep.files.data >= RUNS
    named = {table["changelog_snapshot_id"] for record in records for table in record["tables"]}
    changelog = feed.lake.catalog.load_table(("shop__changes", "users"))
    assert named <= {snapshot.snapshot_id for snapshot in changelog.snapshots()}
    feed.rows("shop", "users", ("I", 99, "eve", 20)).checkpoint(30)
    assert feed.run().success
    assert feed.records()["shop.users"].rows == RUNS + 1


def test_upkeep_does_one_step_at_least_and_goes_on_where_it_was(
    tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"ROUND_EVERY_S": 0.0, "STEPS_S": 0.0}.items():
        monkeypatch.setattr(upkeep_module, name, value)
    scattered: list[Any] = []
    java = SimpleNamespace(spark="the session")
    monkeypatch.setattr(upkeep_module, "has_many_files", lambda table: table.name() == ("shop__changes", "users"))
    monkeypatch.setattr(upkeep_module, "compact_small", lambda jvm, _, table: scattered.append(jvm) or FILES_MAX)
    feed = after_small_runs(tmp_path)
    upkeep = Upkeep(lambda: java)  # type: ignore[arg-type, return-value]

    steps = 0
    while upkeep.files is None:
        upkeep.work(feed.lake)
        steps += 1

    assert steps == len(tables_of(feed.lake)) + 1
    assert scattered == [java]
    assert upkeep.totals.files_compacted == FILES_MAX


def test_a_table_that_cannot_be_compacted_keeps_no_other_from_its_turn(
    tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"STEPS_S": 60.0, "MINUTES_KEPT": 0, "EXPIRED_MIN": 1}.items():
        monkeypatch.setattr(upkeep_module, name, value)
    compacted: list[str] = []

    def compact(jvm: Any, workers: Any, table: Table) -> int:
        name = ".".join(table.name())
        if name == "shop__changes.users":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/lake/gone.parquet")
        compacted.append(name)
        return 2

    monkeypatch.setattr(upkeep_module, "has_many_files", lambda table: True)
    monkeypatch.setattr(upkeep_module, "compact_small", compact)
    feed = after_small_runs(tmp_path)
    feed.table("shop", "orders", 6).rows("shop", "orders", ("I", 1, "x", 7)).checkpoint(8)
    assert feed.run().success
    upkeep = Upkeep(lambda: SimpleNamespace(spark="the session"))  # type: ignore[arg-type, return-value]
    upkeep.work(feed.lake)
    assert compacted == [], "its first round is not due yet"
    monkeypatch.setattr(upkeep, "_next_round_s", 0.0)

    with pytest.raises(LakeError, match=r"upkeep of shop__changes\.users.*runs go on"):
        upkeep.work(feed.lake)

    assert "shop__changes.orders" in compacted
    assert upkeep.totals.snapshots_expired > RUNS
    assert upkeep.files is not None
    compacted.clear()
    upkeep.work(feed.lake)
    assert compacted == [], "the next round is not due yet"


def test_an_outage_ends_a_round(tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def compact(jvm: Any, workers: Any, table: Table) -> int:
        asked.append(".".join(table.name()))
        raise ConnectionResetError

    monkeypatch.setattr(upkeep_module, "has_many_files", lambda table: True)
    monkeypatch.setattr(upkeep_module, "compact_small", compact)
    feed = after_small_runs(tmp_path)
    upkeep = Upkeep(lambda: SimpleNamespace(spark="the session"))  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(upkeep, "_next_round_s", 0.0)

    with pytest.raises(ConnectionResetError):
        upkeep.work(feed.lake)

    assert len(asked) == 1
    upkeep.work(feed.lake)
    assert len(asked) == 1, "the next round is not due yet"


def test_upkeep_waits_for_its_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    upkeep = Upkeep(never)

    upkeep.work(Feed(tmp_path).lake)

    assert upkeep.files is None


def test_counts_of_files_add_up():
    assert (FileCounts(1, 2) + FileCounts(10, 20)).all == 33
