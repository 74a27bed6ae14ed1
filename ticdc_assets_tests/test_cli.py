"""Faults of any command: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets.pipeline.maintenance import DAYS_KEPT, OLDER_THAN_HOURS
from ticdc_assets.sources.upstream.ranges import RANGE_ROWS
from ticdc_assets_tests.assets.feeds import ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop
from ticdc_assets_tests.commands.plain_user import called_as_plain_user


@pytest.mark.parametrize("command", ["run", "tables"])
def test_a_config_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any, command: str):
    assert main([command, "--config", str(tmp_path / "none.yaml")]) == 2

    printed = capfd.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert "none.yaml" in printed.err


def test_a_changefeed_that_the_config_does_not_have_is_named_with_those_it_has(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "run", "--changefeed", "shpo")) == 2
    assert "shop" in capfd.readouterr().err


def test_a_source_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path)
    feed.bucket.base.rename(tmp_path / "elsewhere")

    assert main(on(feed, "run")) == 1

    printed = capfd.readouterr()
    assert [line for line in printed.err.splitlines() if "bucket_shop" in line]
    assert "Traceback" not in printed.err


def test_a_tso_that_is_none_is_refused_on_the_command_line(tmp_path: Path, capfd: Any):
    with pytest.raises(SystemExit) as exited:
        main(on(shop(tmp_path), "snapshot", "--at", "4.5e17"))

    assert exited.value.code == 2
    assert "digits only" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["tabels"], "tables"),
        (["tables", "--jsn"], "--json"),
        (["run", "--untill=5"], "--until"),
        (["snapshot", "--reader", "duck"], "duckdb"),
    ],
)
def test_a_misspelt_command_or_option_is_refused_with_the_nearest_one(arguments: list[str], meant: str, capfd: Any):
    with pytest.raises(SystemExit) as exited:
        main(arguments)

    assert exited.value.code == 2
    assert capfd.readouterr().err.endswith(f"Did you mean {meant}?\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["tables", "--config", ""],
        ["tables", "--changefeed", ""],
        ["load", ""],
        ["inspect", ""],
        ["demo", "--dir", ""],
        ["capture", "--to="],
        ["snapshot", "--release", ""],
    ],
    ids=" ".join,
)
def test_an_empty_value_is_refused_and_does_not_mean_all_or_this_folder(arguments: list[str], capfd: Any):
    with pytest.raises(SystemExit) as exited:
        main(arguments)

    assert exited.value.code == 2
    assert capfd.readouterr().err.endswith("expected a text, found an empty one\n")


@pytest.mark.parametrize("command", ["tables", "inspect"])
def test_a_config_that_may_not_be_read_is_one_sentence_with_the_way_out(tmp_path: Path, command: str):
    config = tmp_path / "changefeeds.yaml"
    config.write_text("changefeeds: {}")
    config.chmod(0)
    place = [str(config)] if command == "inspect" else ["--config", str(config)]

    done = called_as_plain_user(command, *place, folder=tmp_path)

    assert done.returncode == 2
    found = "Permission denied. Let this process's user read it."
    assert done.stderr == f"{config}: expected a file that can be read, found {found}\n"


def test_the_usage_after_an_unknown_option_is_that_of_its_command(capfd: Any):
    with pytest.raises(SystemExit):
        main(["tables", "--xyz"])

    assert capfd.readouterr().err.startswith("usage: ticdc-assets tables ")


def test_a_misspelt_table_is_refused_with_the_nearest_one(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    main(on(feed, "run"))

    assert main(on(feed, "schema", "shop.usres", "--at", str(ts(10)))) == 2

    assert "Did you mean shop.users?" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["schema", "shop.usres", "--at", str(ts(10))],
        ["schema", "shop.users", "--at", str(ts(0.5))],
        ["diff", str(ts(5)), str(ts(10)), "--table", "shop.usres"],
        ["rebuild", "--table", "shop.usres"],
    ],
    ids=" ".join,
)
def test_a_table_that_is_not_there_is_a_fault_of_the_command_line_and_before_a_run_it_is_none(
    tmp_path: Path, without_java: None, capfd: Any, arguments: list[str]
):
    feed = shop(tmp_path)

    assert main(on(feed, *arguments)) == 1
    main(on(feed, "run"))
    assert main(on(feed, *arguments)) == 2


@pytest.mark.parametrize("command", ["tables", "tables --json", "inspect"])
def test_a_closed_pipe_ends_a_command_without_a_message(tmp_path: Path, command: str):
    done = _shell(f"{{ ticdc-assets {command}; echo $? >&2; }} | true", tmp_path)

    assert done.stderr.splitlines()[-1] == "141"
    assert "pipe" not in done.stderr.lower()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")
@pytest.mark.parametrize("command", ["tables", "tables --json", "inspect"])
def test_a_full_disk_behind_standard_output_is_one_sentence_that_names_it(tmp_path: Path, command: str):
    done = _shell(f"ticdc-assets {command} >/dev/full", tmp_path)

    assert done.returncode == 1
    found = (
        "No space left on device. Free space where the output goes, or send it elsewhere; then run the command again."
    )
    assert done.stderr.splitlines()[-1].endswith(f"standard output: expected to write the result there, found {found}")
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_ends_no_command(tmp_path: Path, closed: str):
    assert _shell(f"ticdc-assets tables {closed}", tmp_path).returncode == 0


def _shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    feed = shop(folder)
    command = f"{sys.executable} -m ticdc_assets.cli"
    places = {"tables": f"--config {feed.path}", "inspect": str(feed.bucket.base)}
    script = re.sub("ticdc-assets ([a-z]+)", lambda found: f"{command} {found[1]} {places[found[1]]}", line)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("command", "defaults"), [("maintain", (OLDER_THAN_HOURS, DAYS_KEPT)), ("verify", (RANGE_ROWS,))]
)
def test_the_help_of_a_command_names_its_defaults(command: str, defaults: tuple[int, ...], capfd: Any):
    with pytest.raises(SystemExit):
        main([command, "--help"])

    printed = " ".join(capfd.readouterr().out.split())
    assert [f"(default: {value})" in printed for value in defaults] == [True] * len(defaults)


def test_the_help_of_every_command_says_what_it_does(capfd: Any):
    with pytest.raises(SystemExit):
        main(["--help"])
    names = re.findall(r"^    ([a-z]+) ", capfd.readouterr().out, re.MULTILINE)

    for name in names:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        usage, does, *_ = capfd.readouterr().out.split("\n\n")
        assert usage.startswith(f"usage: ticdc-assets {name}")
        assert re.fullmatch(r"[A-Z][^:]+\.|[A-Z].+: .+\.", does, re.DOTALL), name
    assert len(names) > 10


def test_the_help_says_how_to_begin(capfd: Any):
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "ticdc-assets demo" in capfd.readouterr().out
