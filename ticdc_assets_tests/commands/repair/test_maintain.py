"""`ticdc-assets maintain` and the job that does the same: what they say, and how they exit."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.commands.repair import maintain as maintain_module
from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.tables.control.retention import pinned
from ticdc_assets_tests.assets.feeds import QUIET, Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java

DAYS_2 = 2 * 24 * 3600


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "TICDC_ASSETS_CONFIG", "TICDC_ASSETS_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def feed(tmp_path: Path, without_java: None) -> Feed:
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3))
    feed.checkpoint(10)
    assert main(["run", "--config", str(feed.path)]) == 0
    return feed


def stray(feed: Feed) -> Path:
    """A file of two days ago in the changelog's folder that no snapshot names."""
    [table] = feed.records().values()
    changelog = feed.lake.catalog.load_table(tuple(table.changelog or ()))
    path = Path(changelog.location().removeprefix("file://")) / "data" / "killed-00001.parquet"
    path.write_bytes(b"PAR1")
    os.utime(path, (time.time() - DAYS_2,) * 2)
    return path


def maintain(feed: Feed, *arguments: str) -> int:
    return main(["maintain", "--config", str(feed.path), *arguments])


def test_maintain_removes_leftovers_and_says_what_went(feed: Feed, capfd: Any):
    path = stray(feed)
    capfd.readouterr()

    assert maintain(feed, "--dry-run") == 0

    printed = capfd.readouterr().out
    assert (
        "shop: would remove 0 records, 0 snapshots, 0 branches of killed runs and 1 orphan file of 4 bytes" in printed
    )
    assert f"file://{path}" in printed
    assert path.exists()

    assert maintain(feed, "--json") == 0

    [report] = json.loads(capfd.readouterr().out)
    assert report["leftovers"] == [{"uri": f"file://{path}", "size_bytes": 4}]
    assert not path.exists()
    assert not spark.is_running()
    assert maintain(feed) == 0
    assert "and 0 orphan files" in capfd.readouterr().out


def test_the_age_may_be_chosen(feed: Feed, capfd: Any):
    path = stray(feed)

    assert maintain(feed, "--older-than-hours", "72") == 0
    assert path.exists()
    assert maintain(feed, "--older-than-hours", "47.5") == 0
    assert not path.exists()


@pytest.mark.parametrize("number", ["-1", "0", "0.99", "nan", "x", "1e9"])
def test_an_age_that_cannot_be_meant_is_refused(number: str, capfd: Any):
    """One of less than an hour would take files that a run is about to publish."""
    with pytest.raises(SystemExit) as stopped:
        main(["maintain", f"--older-than-hours={number}"])

    assert stopped.value.code == 2
    assert "a number from 1 to" in capfd.readouterr().err


def test_a_tso_is_pinned_and_unpinned(feed: Feed, capfd: Any):
    capfd.readouterr()

    assert maintain(feed, "--pin", str(ts(11)), "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"changefeed": "shop", "dry_run": False, "pinned": [ts(10)]}
    assert maintain(feed, "--pin", "5") == 1
    assert "a recorded TSO up to 5" in capfd.readouterr().err
    assert maintain(feed, "--unpin", str(ts(11))) == 0
    assert "shop: pinned: none." in capfd.readouterr().out
    assert maintain(feed, "--unpin", str(ts(11))) == 1
    assert "a pinned TSO" in capfd.readouterr().err


def test_a_dry_run_only_tells_what_would_be_pinned(feed: Feed, capfd: Any):
    capfd.readouterr()

    assert maintain(feed, "--pin", str(ts(10)), "--dry-run") == 0

    assert capfd.readouterr().out.startswith(f"shop: would be pinned: {ts(10)} (")
    assert pinned(feed.lake.control) == ()


def test_a_location_that_cannot_be_read_is_reported_and_fails(feed: Feed, capfd: Any):
    [table] = feed.records().values()
    changelog = feed.lake.catalog.load_table(tuple(table.changelog or ()))
    folder = Path(changelog.location().removeprefix("file://"))
    (folder / "metadata" / "00000-other.metadata.json").write_text('{"table-uuid": "of somebody else"}')

    assert maintain(feed) == 1

    assert "left alone, because it also holds metadata of a table that is not in this catalog" in capfd.readouterr().err


def test_a_changefeed_that_fails_does_not_hold_the_others(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    Feed(feed.folder, "broken")
    real = maintain_module.maintain

    def fails_once(lake: Lake, *arguments: Any) -> Any:
        if lake.changefeed.name == "broken":
            raise SourceError("its tables", "to be read", "nothing", "Look at them.")
        return real(lake, *arguments)

    monkeypatch.setattr(maintain_module, "maintain", fails_once)
    capfd.readouterr()

    assert maintain(feed) == 1

    printed = capfd.readouterr()
    assert "broken: its tables: expected to be read, found nothing. Look at them." in printed.err.splitlines()
    assert "shop: removed 0 records" in printed.out


def test_the_job_removes_the_same_as_the_command_and_counts_it(feed: Feed):
    path = stray(feed)

    job = feed.definitions.resolve_job_def("shop_maintenance")
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, run_config=QUIET)

    assert result.success
    [output] = [e.event_specific_data for e in result.all_node_events if e.is_successful_output]
    assert output.metadata["leftover_files"].value == 1
    assert not path.exists()


def test_a_dry_run_reads_the_records_of_an_older_version(feed: Feed, capfd: Any):
    watermarks = feed.lake.control.watermarks()
    assert watermarks is not None
    with watermarks.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("tables.element.history_snapshot_id")
    capfd.readouterr()

    assert main(["maintain", "--config", str(feed.path), "--dry-run"]) == 0

    assert "found" not in capfd.readouterr().err
