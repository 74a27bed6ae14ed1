"""`run`: what it prints, how it exits, and that one changefeed does not hold the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets import spark
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages import mirrors
from ticdc_assets.cli import main
from ticdc_assets.errors import MachineError
from ticdc_assets.spark import sessions
from ticdc_assets_tests.assets.feeds import Feed, run_mirrors_without_java, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop

ROOT = Path(__file__).parents[3]


def test_run_processes_everything_and_says_how_far_it_is(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)

    code = main(on(feed, "run"))

    printed = capfd.readouterr()
    assert code == 0
    assert printed.out == f"shop: 3 changes of 1 table, complete up to {ts(10)} (2025-10-09 08:53:30 UTC).\n"
    assert "decoding" not in printed.err
    assert "Traceback" not in printed.err
    assert feed.records()["shop.users"].rows == 1


def test_run_again_has_nothing_to_do_and_starts_no_run(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    before = feed.snapshots()
    monkeypatch.setattr(mirrors, "run_mirrors", lambda *arguments: pytest.fail("a run was started"))
    monkeypatch.setattr("ticdc_assets.commands.process.pending.pending_work", lambda *arguments, **named: [])
    capfd.readouterr()

    assert main(on(feed, "run")) == 0

    printed = capfd.readouterr()
    assert "shop: nothing is pending" in printed.out
    assert "warning: shop: The source's checkpoint is " in printed.err  # long ago: TiCDC may write here no more
    assert feed.snapshots() == before
    assert not spark.is_running()


def test_run_ends_what_a_run_began_that_was_interrupted_before_its_record(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(mirrors, "run_mirrors", lambda *arguments: None)
        main(on(feed, "run"))
    monkeypatch.setattr("ticdc_assets.commands.process.pending.pending_work", lambda *arguments, **named: [])

    main(on(feed, "run"))
    newest = feed.lake.control.newest()

    assert newest is not None
    assert newest.complete


def test_run_ends_at_the_tso_of_until(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)

    assert main(on(feed, "run", "--until", str(ts(3)))) == 0

    assert f"2 changes of 1 table, complete up to {ts(3)}" in capfd.readouterr().out


def test_run_stops_before_everything_at_until_0(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)

    assert main(on(feed, "run", "--until", "0")) == 0

    assert capfd.readouterr().out == "shop: nothing is pending, and nothing is recorded yet.\n"
    assert feed.records() == {}


def test_run_refuses_until_where_rows_have_no_commit_ts(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path, config={"sink": {"date-separator": "none"}})

    assert main(on(feed, "run", "--until", str(ts(3)))) == 2

    assert "expected a stream with commit_ts, which can stop at a TSO" in capfd.readouterr().err
    assert feed.records() == {}


def test_run_fails_with_one_sentence_for_each_table_that_is_held(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "odd")
    feed.statement("shop", "odd", "ALTER TABLE `odd` FROBNICATE `id`", 5, type_=5)

    code = main(on(feed, "run"))

    printed = capfd.readouterr()
    assert code == 1
    assert [line.partition(":")[0] for line in printed.err.splitlines() if "FROBNICATE" in line] == ["shop, shop.odd"]
    assert "not complete" in printed.out
    assert main(on(feed, "run")) == 1


def test_run_names_tables_of_one_cause_in_one_sentence(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "orders")
    feed.rows("shop", "orders", ("I", 1, "pen", 12)).checkpoint(20)
    written = yaml.safe_load(feed.path.read_text())
    written["changefeeds"]["shop"]["sink_uri"] = "file:///sink?protocol=canal-json&enable-tidb-extension=true"
    feed.path.write_text(yaml.safe_dump(written))

    assert main(on(feed, "run")) == 1

    [sentence] = [line for line in capfd.readouterr().err.splitlines() if "one of .csv" in line]
    assert "and 1 more table: Stopped before its first change: " in sentence


def test_run_without_java_is_one_sentence(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def no_java(*arguments: object) -> None:
        raise MachineError("Java", "version 17 or newer", "none", "Install a Java runtime 17 or newer.")

    monkeypatch.setattr(sessions, "start", no_java)

    code = main(on(shop(tmp_path), "run"))

    printed = capfd.readouterr()
    assert code == 1
    assert (
        "Java: expected version 17 or newer, found none. Install a Java runtime 17 or newer."
        in printed.err.splitlines()
    )
    assert "Traceback" not in printed.err


def test_run_keeps_the_noise_of_others_off_the_terminal(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: Any
):
    def noisy(*arguments: Any) -> Any:
        subprocess.run(["sh", "-c", "echo noise; echo noise >&2"], check=True)
        return run_mirrors_without_java(*arguments)

    monkeypatch.setattr(mirrors, "run_mirrors", noisy)
    main(on(shop(tmp_path), "run"))

    printed = capfd.readouterr()
    assert "noise" not in printed.out + printed.err
    assert (tmp_path / ".ticdc_assets" / "run.log").read_text().count("noise") == 2


def test_run_needs_no_folder_to_write_to_next_to_the_config(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    (tmp_path / ".ticdc_assets").write_text("")

    assert main(on(feed, "run")) == 0

    printed = capfd.readouterr()
    assert "shop: 3 changes of 1 table" in printed.out


def test_run_names_the_log_where_a_step_fails(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: object) -> None:
        raise type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", broken)

    assert main(on(shop(tmp_path), "run")) == 1

    assert f"found Py4JError. Read {tmp_path}/.ticdc_assets/run.log;" in capfd.readouterr().err


def test_run_names_what_it_did_not_expect_without_its_text(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: object) -> None:
        raise RuntimeError("row 42 holds a secret")

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", broken)

    code = main(on(shop(tmp_path), "run"))

    printed = capfd.readouterr()
    assert code == 1
    assert "RuntimeError" in printed.err
    assert "secret" not in printed.out + printed.err
    assert "Traceback" not in printed.err


def test_run_keeps_its_history_in_dagster_home(tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch):
    import dagster as dg

    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    main(on(shop(tmp_path), "run"))

    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert [record.dagster_run.job_name for record in instance.get_run_records()] == ["shop__run"]
    assert not list(home.rglob("*.err"))  # what Java prints belongs into the one file that faults name


def test_ctrl_c_ends_with_one_line_and_the_next_run_goes_on(tmp_path: Path):
    feed = shop(tmp_path)
    reached = tmp_path / "reached"
    code = (
        "import pathlib, sys, time\n"
        "from ticdc_assets.assets.resources import ChangefeedRun\n"
        f"def stuck(self, say): pathlib.Path({str(reached)!r}).touch(); time.sleep(60)\n"
        "ChangefeedRun.publish_changelogs = stuck\n"
        "from ticdc_assets.cli import main\n"
        f"sys.exit(main(['run', '--config', {str(feed.path)!r}]))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    while not reached.exists():
        assert running.poll() is None
        time.sleep(0.1)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    left = running.stderr.read()
    running.wait(timeout=30)

    assert running.returncode == 130
    assert left.splitlines() == ["Interrupted. No partial result is visible. Run the command again to continue."]
    assert feed.records() == {}


@pytest.mark.parametrize("place", ["the step", "the end of Spark"])
def test_a_fault_that_came_of_an_interruption_is_the_interruption(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, place: str
):
    def broken(*arguments: object) -> None:
        raise type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})

    def interrupted(*arguments: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        finally:
            if place == "the step":
                broken()

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", interrupted)
    if place == "the end of Spark":
        monkeypatch.setattr(spark, "stop", broken)

    assert main(on(shop(tmp_path), "run")) == 130

    printed = capfd.readouterr().err
    assert "Interrupted. No partial result is visible" in printed
    assert "Py4JError" not in printed


@pytest.mark.parametrize("command", ["run", "tables"])
def test_what_looks_wrong_in_a_changefeeds_configuration_is_a_warning(
    tmp_path: Path, without_java: None, capfd: Any, command: str
):
    csv = {"include-commit-ts": True, "include-comit-ts": False}
    feed = shop(tmp_path, config={"sink": {"csv": csv, "date-separator": "none", "date-seperator": "day"}})

    assert main(on(feed, command)) == 0

    warnings = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: shop: ")]
    assert len(warnings) == 2
    assert "did you mean sink.csv.include-commit-ts?" in warnings[0]
    assert "did you mean sink.date-separator?" in warnings[1]


def test_run_names_late_rows_in_one_line_and_only_once(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    feed.rows("shop", "users", ("I", 77, "late", 9), ("I", 78, "late", 9))
    for warned in (True, False):
        capfd.readouterr()

        assert main(on(feed, "run")) == 0

        lines = [line for line in capfd.readouterr().err.splitlines() if "Late rows" in line]
        assert [": shop.users 2. " in line for line in lines] == [True] * warned


def test_run_warns_where_a_table_can_have_no_history(tmp_path: Path, without_java: None, capfd: Any):
    feed = Feed(tmp_path, history=["shop.*"]).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2))
    feed.statement("shop", "users", "ALTER TABLE `users` DROP PRIMARY KEY, ADD PRIMARY KEY (`name`)", 5)
    feed.checkpoint(10).run()

    assert main(on(feed, "run")) == 0

    assert "warning: shop: shop.users has no history: the statement at" in capfd.readouterr().err


def test_run_warns_where_tables_asks_for_nothing_that_there_is(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path, tables=["shopp.*"])

    assert main(on(feed, "run")) == 0

    assert "warning: shop: `tables` selects none of the tables of the source: shop." in capfd.readouterr().err


# -- several changefeeds -----------------------------------------------------------------------------------------------


def two_of_which_one_is_gone(folder: Path) -> Feed:
    gone = Feed(folder, "gone")
    gone.bucket.base.rename(folder / "elsewhere")
    return shop(folder)


def test_run_goes_on_with_the_others_where_one_changefeed_fails(tmp_path: Path, without_java: None, capfd: Any):
    feed = two_of_which_one_is_gone(tmp_path)

    code = main(on(feed, "run"))

    printed = capfd.readouterr()
    assert code == 1
    assert [line.partition(",")[0] for line in printed.out.splitlines()] == [
        "gone: failed.",
        "shop: 3 changes of 1 table",
    ]
    assert [line for line in printed.err.splitlines() if line.startswith("gone: ") and "bucket_gone" in line]
    assert "Traceback" not in printed.err
    assert feed.records()["shop.users"].rows == 1
