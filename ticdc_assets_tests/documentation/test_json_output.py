"""The JSON of every command has the keys that docs/commands.md lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.commands.read.verify import as_object as verdict_as_object
from ticdc_assets.commands.repair.rebuild import as_objects as rebuilt_as_objects
from ticdc_assets.commands.repair.repair import as_objects as resynced_as_objects
from ticdc_assets.pipeline.history.verification import Comparison, RowDifference
from ticdc_assets.pipeline.history.verify import TableVerdict
from ticdc_assets.pipeline.rebuild.run import RebuildReport
from ticdc_assets.pipeline.reconcile.resync import ResyncReport
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
FREE = {"options"}
"""Keys whose objects have keys of their own: options of TiCDC."""


def documented() -> dict[str, set[str]]:
    """The keys of each command in the table below "JSON"."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## JSON\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    return {row[0].strip("`"): set(re.findall(r"`([a-z_]+)`", row[2])) for row in rows[2:]}


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield name
            yield from () if name in FREE else keys(below)
    elif isinstance(value, list):
        for below in value:
            yield from keys(below)


@pytest.fixture
def feed(tmp_path: Path, without_java: None, capfd: Any) -> Feed:
    """A lake with a record and a statement."""
    made = shop(tmp_path)
    made.run()
    capfd.readouterr()
    return made


def printed(feed: Feed, capfd: Any, *calls: Sequence[str]) -> list[Any]:
    found = []
    for command, *arguments in calls:
        main([command, *arguments] if command == "inspect" else on(feed, command, *arguments))
        found.append(json.loads(capfd.readouterr().out))
    return found


def of_doctor(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(spark, "session", lambda config: None)
    monkeypatch.setattr(spark, "SparkWorkers", lambda session: spark.LocalWorkers())
    return printed(feed, capfd, ["doctor", "--json"])


def of_verify(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    compared = Comparison(2, 1, "", 1, [RowDifference("extra", (7,), ())])
    verdict = TableVerdict("1", ("shop", "users"), ("id",), ts(10), compared)
    Terminal().json([verdict_as_object(verdict, with_keys=True)])
    return [json.loads(capfd.readouterr().out)]


def of_rebuild(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    record = feed.lake.control.newest()
    assert record is not None
    report = RebuildReport("run", record, errors={table.source_table: "why" for table in record.tables})
    Terminal().json(rebuilt_as_objects("shop", feed.lake, report))
    return [json.loads(capfd.readouterr().out)]


def of_resync(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Terminal().json(resynced_as_objects(ResyncReport(["run"], {"shop.users": ts(10)}, {"shop.users": 2})))
    return [json.loads(capfd.readouterr().out)]


COMMANDS: dict[str, Callable[..., list[Any]]] = {
    "tables": lambda *a: printed(*a[:2], ["tables", "--json"]),
    "snapshot": lambda *a: printed(
        *a[:2], ["snapshot", "--at", str(ts(10)), "--pin", "p", "--json"], ["snapshot", "--list", "--json"],
        ["snapshot", "--release", "p", "--json"],
    ),
    "diff": lambda *a: printed(*a[:2], ["diff", "0", str(ts(10)), "--json"]),
    "schema": lambda *a: printed(*a[:2], ["schema", "shop.users", "--at", str(ts(10)), "--json"]),
    "verify": of_verify,
    "check": lambda *a: printed(*a[:2], ["check", "--json"]),
    "doctor": of_doctor,
    "inspect": lambda *a: printed(*a[:2], ["inspect", str(a[0].bucket.base), "--json"]),
    "inspect changefeeds.yaml": lambda *a: printed(*a[:2], ["inspect", str(a[0].path), "--json"]),
    "maintain": lambda *a: printed(*a[:2], ["maintain", "--json"], ["maintain", "--pin", str(ts(10)), "--json"]),
    "resync": of_resync,
    "rebuild": of_rebuild,
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_documented_keys(feed: Feed, capfd: Any, monkeypatch: pytest.MonkeyPatch, command: str):
    found = COMMANDS[command](feed, capfd, monkeypatch)

    assert set(keys(found)) - documented()[command] == set()


def test_every_command_with_json_is_documented():
    assert set(documented()) == set(COMMANDS)
