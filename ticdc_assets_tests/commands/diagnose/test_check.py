"""`check` and `run --strict`: every asset check from the command line, with an exit code for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop
from ticdc_assets_tests.commands.diagnose.checkpoint_clock import clock_at_the_checkpoint as clock_at_the_checkpoint


def stopped(folder: Path) -> Feed:
    return shop(folder).statement("shop", "users", "ALTER TABLE `users` FROBNICATE `id`", 5, type_=5)


def test_check_passes_where_every_table_goes_on_and_starts_no_spark(
    tmp_path: Path, without_java: None, clock_at_the_checkpoint: None, capfd: Any
):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    before = feed.snapshots()
    capfd.readouterr()

    assert main(on(feed, "check")) == 0

    printed = capfd.readouterr()
    assert printed.out == "shop: 9 checks: 9 passed, 0 warnings, 0 failed.\n"
    assert "Traceback" not in printed.err
    assert feed.snapshots() == before
    assert not spark.is_running()


def stopped_checks(capfd: Any) -> set[tuple[str, str]]:
    results = json.loads(capfd.readouterr().out)
    assert {"changefeed", "asset", "check", "passed", "severity", "description"} == set(results[0])
    return {(r["asset"], r["check"]) for r in results if not r["passed"] and r["severity"] == "ERROR"}


def test_check_fails_and_names_the_table_that_is_stopped(
    tmp_path: Path, without_java: None, clock_at_the_checkpoint: None, capfd: Any
):
    feed = stopped(tmp_path)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "check")) == 1

    lines = capfd.readouterr().out.splitlines()
    note = feed.records()["shop.users"].note
    assert any(line.startswith("ERROR shop/mirror/shop/users not_held: Stopped at ") and note in line for line in lines)
    assert any(line.startswith("ERROR shop/watermarks no_table_held: ") for line in lines)
    assert lines[-1].endswith(" 2 failed.")

    assert main(on(feed, "check", "--json")) == 1
    failed = {("shop/mirror/shop/users", "not_held"), ("shop/watermarks", "no_table_held")}
    assert stopped_checks(capfd) == failed


def test_check_before_the_first_run_fails_and_says_what_to_do(tmp_path: Path, without_java: None, capfd: Any):
    assert main(on(shop(tmp_path), "check")) == 1

    assert "found none. Run `ticdc-assets run` first." in capfd.readouterr().err


def test_a_strict_run_fails_where_a_check_does_although_the_run_went_well(
    tmp_path: Path, without_java: None, capfd: Any
):
    feed = shop(tmp_path)

    assert main(on(feed, "run")) == 0
    assert main(on(feed, "run", "--strict")) == 1

    assert "ERROR shop/watermarks checkpoint_near_clock: The source's checkpoint is " in capfd.readouterr().out
