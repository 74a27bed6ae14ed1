"""The commands: what they print, how they exit, and that no fault ends in a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import __version__, spark
from ticdc_assets.assets import mirrors
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.cli import main
from ticdc_assets.errors import MachineError
from ticdc_assets.tables.control import now
from ticdc_assets_tests.assets.feeds import Feed, run_mirrors_without_java, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "TICDC_ASSETS_CONFIG", "TICDC_ASSETS_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def shop(folder: Path, **settings: Any) -> Feed:
    feed = Feed(folder, **settings)
    feed.table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("D", 1, "ann", 4))
    return feed.checkpoint(10)


def on(feed: Feed, command: str, *arguments: str) -> list[str]:
    return [command, "--config", str(feed.path), *arguments]


# -- run ---------------------------------------------------------------------------------------------------------------


def test_run_processes_everything_and_says_how_far_it_is(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)

    code = main(on(feed, "run"))

    told = capfd.readouterr()
    assert code == 0
    assert told.out == f"shop: 3 changes of 1 table, complete up to {ts(10)} (2025-10-09 08:53:30 UTC).\n"
    assert "shop: decoding 1 file in 1 task" in told.err
    assert "Traceback" not in told.err
    assert feed.records()["shop.users"].rows == 1


def test_run_again_has_nothing_to_do_and_starts_no_run(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    before = feed.snapshots()
    monkeypatch.setattr(mirrors, "run_mirrors", lambda *arguments: pytest.fail("a run was started"))
    monkeypatch.setattr("ticdc_assets.commands.pending.pending_work", lambda *arguments: [])
    capfd.readouterr()

    assert main(on(feed, "run")) == 0

    told = capfd.readouterr()
    assert "shop: nothing is pending" in told.out
    assert "warning: shop: The source's checkpoint is " in told.err  # long ago: TiCDC may write here no more
    assert feed.snapshots() == before
    assert not spark.is_running()


def test_run_ends_what_a_run_began_that_was_interrupted_before_its_record(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(mirrors, "run_mirrors", lambda *arguments: None)
        main(on(feed, "run"))
    monkeypatch.setattr("ticdc_assets.commands.pending.pending_work", lambda *arguments: [])

    main(on(feed, "run"))
    newest = feed.lake.control.newest()

    assert newest is not None
    assert newest.complete


def test_run_stops_at_until(tmp_path: Path, without_java: None, capfd: Any):
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

    assert "expected a stream that can be cut at a TSO" in capfd.readouterr().err
    assert feed.records() == {}


def test_run_fails_with_one_sentence_for_each_table_that_is_held(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "odd")
    feed.statement("shop", "odd", "ALTER TABLE `odd` FROBNICATE `id`", 5, type_=5)

    code = main(on(feed, "run"))

    told = capfd.readouterr()
    assert code == 1
    assert [line.partition(":")[0] for line in told.err.splitlines() if "FROBNICATE" in line] == ["shop, shop.odd"]
    assert "not complete" in told.out
    assert main(on(feed, "run")) == 1


def test_run_without_java_is_one_sentence(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def no_java(*arguments: object) -> None:
        raise MachineError("Java", "version 17 or newer", "none", "Install a Java runtime 17 or newer.")

    monkeypatch.setattr(spark, "session", no_java)

    code = main(on(shop(tmp_path), "run"))

    told = capfd.readouterr()
    assert code == 1
    assert (
        "Java: expected version 17 or newer, found none. Install a Java runtime 17 or newer." in told.err.splitlines()
    )
    assert "Traceback" not in told.err


def test_run_keeps_the_noise_of_others_off_the_terminal(
    tmp_path: Path, without_java: None, capfd: Any, monkeypatch: Any
):
    def noisy(*arguments: Any) -> Any:
        subprocess.run(["sh", "-c", "echo noise; echo noise >&2"], check=True)
        return run_mirrors_without_java(*arguments)

    monkeypatch.setattr(mirrors, "run_mirrors", noisy)
    main(on(shop(tmp_path), "run"))

    told = capfd.readouterr()
    assert "noise" not in told.out + told.err
    assert (tmp_path / ".ticdc_assets" / "run.log").read_text().count("noise") == 2


def test_run_needs_no_folder_to_write_to_beside_the_config(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    (tmp_path / ".ticdc_assets").write_text("")

    assert main(on(feed, "run")) == 0

    told = capfd.readouterr()
    assert "shop: 3 changes of 1 table" in told.out
    assert "shop.tables.json cannot be written" in told.err


def test_run_names_the_log_where_a_step_fails(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: object) -> None:
        raise type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", broken)

    assert main(on(shop(tmp_path), "run")) == 1

    assert f"found Py4JError. Look at {tmp_path}/.ticdc_assets/run.log;" in capfd.readouterr().err


def test_run_names_what_it_did_not_expect_without_its_text(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: object) -> None:
        raise RuntimeError("row 42 holds a secret")

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", broken)

    code = main(on(shop(tmp_path), "run"))

    told = capfd.readouterr()
    assert code == 1
    assert "RuntimeError" in told.err
    assert "secret" not in told.out + told.err
    assert "Traceback" not in told.err


def test_run_keeps_its_history_in_dagster_home(tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch):
    import dagster as dg

    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    main(on(shop(tmp_path), "run"))

    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert [record.dagster_run.job_name for record in instance.get_run_records()] == ["shop_job"]
    assert not list(home.rglob("*.err"))  # what Java prints belongs into the one file that faults name


def test_ctrl_c_ends_with_one_line_and_the_next_run_goes_on(tmp_path: Path):
    feed = shop(tmp_path)
    code = (
        "import sys, time\n"
        "from ticdc_assets.assets.resources import ChangefeedRun\n"
        "def stuck(self, say): say('stuck'); time.sleep(60)\n"
        "ChangefeedRun.publish_changelogs = stuck\n"
        "from ticdc_assets.cli import main\n"
        f"sys.exit(main(['run', '--config', {str(feed.path)!r}]))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "stuck" in line:
            break
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    left = running.stderr.read()
    running.wait(timeout=30)

    assert running.returncode == 130
    assert left.splitlines() == ["Interrupted. Nothing half-done is visible; run again to go on."]
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

    told = capfd.readouterr().err
    assert "Interrupted. Nothing half-done is visible" in told
    assert "Py4JError" not in told


@pytest.mark.parametrize("command", ["run", "tables", "discover"])
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


# -- several changefeeds -----------------------------------------------------------------------------------------------


def test_run_warns_where_tables_asks_for_nothing_that_there_is(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path, tables=["shopp.*"])

    assert main(on(feed, "run")) == 0

    assert "warning: shop: `tables` asks for none of the tables that the source has: shop." in capfd.readouterr().err


def two_of_which_one_is_gone(folder: Path) -> Feed:
    gone = Feed(folder, "gone")
    gone.bucket.base.rename(folder / "elsewhere")
    return shop(folder)


def test_run_goes_on_with_the_others_where_one_changefeed_fails(tmp_path: Path, without_java: None, capfd: Any):
    feed = two_of_which_one_is_gone(tmp_path)

    code = main(on(feed, "run"))

    told = capfd.readouterr()
    assert code == 1
    assert [line.partition(",")[0] for line in told.out.splitlines()] == [
        "gone: failed.",
        "shop: 3 changes of 1 table",
    ]
    assert [line for line in told.err.splitlines() if line.startswith("gone: ") and "bucket_gone" in line]
    assert "Traceback" not in told.err
    assert feed.records()["shop.users"].rows == 1


def test_discover_goes_on_with_the_others_too(tmp_path: Path, capfd: Any):
    feed = two_of_which_one_is_gone(tmp_path)

    assert main(on(feed, "discover")) == 1

    told = capfd.readouterr()
    assert "shop: 1 table" in told.out
    assert [line.partition(": ")[0] for line in told.err.splitlines()] == ["gone"]


# -- tables, snapshot, discover ----------------------------------------------------------------------------------------


def test_tables_is_a_json_list_of_every_table_dropped_ones_included(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "gone").rows("shop", "gone", ("I", 1, "x", 2))
    feed.statement("shop", "gone", "DROP TABLE `gone`", 5, type_=4)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0

    rows = json.loads(capfd.readouterr().out)
    users = feed.records()["shop.users"]
    assert [(row["table"], row["state"]) for row in rows] == [("gone", "dropped"), ("users", "live")]
    assert rows[1] == {
        "changefeed": "shop",
        "schema": "shop",
        "table": "users",
        "table_id": None,
        "mirror": ["shop", "users"],
        "changelog": ["shop__changes", "users"],
        "key": ["id"],
        "watermark": ts(10),
        "messages_read": None,
        "rows": 1,
        "state": "live",
        "note": "",
        "mirror_snapshot_id": users.mirror_snapshot_id,
    }


def test_tables_says_why_a_table_is_held(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).statement("shop", "users", "ALTER TABLE `users` FROBNICATE `id`", 5, type_=5)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0

    [row] = json.loads(capfd.readouterr().out)
    assert row["state"] == "stopped"
    assert row["note"] == feed.records()["shop.users"].note != ""


def test_tables_tells_a_count_of_messages_apart_from_a_tso(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    newest = feed.lake.control.newest()
    assert newest is not None
    tables = tuple(replace(table, watermark=17) for table in newest.tables)
    feed.lake.control.record(replace(newest, recorded_at=now(), tables=tables))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0
    [row] = json.loads(capfd.readouterr().out)
    assert main(on(feed, "tables")) == 0

    assert (row["watermark"], row["messages_read"]) == (None, 17)
    assert "message 17" in capfd.readouterr().out


def test_tables_for_people_shows_names_whole(tmp_path: Path, without_java: None, capfd: Any):
    feed = Feed(tmp_path).table("shop", "[bold]表").rows("shop", "[bold]表", ("I", 1, "x", 2)).checkpoint(10)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables")) == 0

    assert "shop.[bold]表" in capfd.readouterr().out


def test_tables_before_any_run_is_an_empty_list(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "tables", "--json")) == 0
    assert json.loads(capfd.readouterr().out) == []


def test_snapshot_gives_the_newest_record_up_to_a_tso_under_the_names_of_then(
    tmp_path: Path, without_java: None, capfd: Any
):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    then = feed.records()["shop.users"]
    feed.statement("shop", "people", "RENAME TABLE `shop`.`users` TO `shop`.`people`", 11, type_=14)
    feed.rows("shop", "people", ("I", 3, "x", 12)).checkpoint(20)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "snapshot", "--at", str(ts(15)), "--json")) == 0

    assert json.loads(capfd.readouterr().out) == {
        "tso": ts(10),
        "tables": [
            {
                "schema": "shop",
                "table": "users",
                "mirror": ["shop", "people"],
                "snapshot_id": then.mirror_snapshot_id,
            }
        ],
    }


def test_snapshot_before_the_first_record_is_one_sentence(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "snapshot", "--at", "5", "--json")) == 1

    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith("changefeed shop: expected a recorded TSO up to 5, found none.")


def test_snapshot_of_several_changefeeds_asks_which(tmp_path: Path, capfd: Any):
    Feed(tmp_path, "a")

    assert main(on(Feed(tmp_path, "b"), "snapshot", "--at", "5")) == 2
    assert "--changefeed" in capfd.readouterr().err


def test_discover_finds_tables_without_running_anything(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path)

    assert main(on(feed, "discover")) == 0

    assert "shop: 1 table" in capfd.readouterr().out
    assert '"users"' in (tmp_path / ".ticdc_assets" / "shop.tables.json").read_text()
    assert feed.records() == {}


@pytest.mark.parametrize("command", [["tables", "--json"], ["snapshot", "--at", "5"], ["discover"], ["maintain"]])
def test_who_only_looks_makes_no_lake(tmp_path: Path, capfd: Any, command: list[str]):
    main(on(shop(tmp_path), *command))

    assert not (tmp_path / "lake").exists()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_without_a_config_the_packaged_sample_is_named(
    tmp_path: Path, capfd: Any, there: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    if there:
        shop(tmp_path)

    assert main(["tables"]) == 0

    told = capfd.readouterr().err
    assert "No config is given: this is the packaged sample. Give --config FILE" in told
    assert ("--config changefeeds.yaml" in told) == there
    assert not (tmp_path / "lake").exists()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exited:
        main(["--version"])

    assert exited.value.code == 0
    assert capsys.readouterr().out == f"ticdc-assets {__version__}\n"


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "tables", "discover"])
def test_a_config_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any, command: str):
    assert main([command, "--config", str(tmp_path / "none.yaml")]) == 2

    told = capfd.readouterr()
    assert len(told.err.splitlines()) == 1
    assert "none.yaml" in told.err


def test_a_changefeed_that_the_config_does_not_have_is_named_with_those_it_has(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "run", "--changefeed", "shpo")) == 2
    assert "shop" in capfd.readouterr().err


def test_a_source_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path)
    feed.bucket.base.rename(tmp_path / "elsewhere")

    assert main(on(feed, "run")) == 1

    told = capfd.readouterr()
    assert [line for line in told.err.splitlines() if "bucket_shop" in line]
    assert "Traceback" not in told.err


def test_a_tso_that_is_none_is_refused_on_the_command_line(tmp_path: Path, capfd: Any):
    with pytest.raises(SystemExit) as exited:
        main(on(shop(tmp_path), "snapshot", "--at", "4.5e17"))

    assert exited.value.code == 2
    assert "digits only" in capfd.readouterr().err
