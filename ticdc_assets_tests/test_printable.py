"""Characters that act on a terminal or a page are shown as escapes, in all that is printed and on Dagster's pages."""

from __future__ import annotations

import json
import pickle
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.cli import main
from ticdc_assets.errors import ConfigError, ConfigFaultsError
from ticdc_assets.printable import printable
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import on

ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
CLEARS, FORGES = "a\x1b[2J\x9b2Jb", "t\nfeed  \r\tforged\u2028line\u202ekcab"


def test_every_control_and_format_character_is_escaped_and_no_other():
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        category = unicodedata.category(char)
        if category not in ("Co", "Cn"):
            assert (printable(char) != char) is (category in ("Cc", "Cf", "Zl", "Zp", "Cs")), hex(code)


def test_an_escape_is_that_of_json():
    text = "a\x1b[2J \u202e\U000e0041 😀 é \\ \n"

    assert printable(text) == "a\\u001b[2J \\u202e\\udb40\\udc41 😀 é \\ \\u000a"
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text
    assert printable(printable(text)) == printable(text)


def test_an_error_is_one_line():
    error = ConfigError(f"table {FORGES}", "a name", f"{CLEARS}", "Rename it.")

    assert str(error).isprintable()


def test_each_fault_of_a_config_is_one_line():
    error = ConfigFaultsError("a.yaml", "a config without faults", "2 faults", "Correct them:", f"a{FORGES}", "b")

    assert str(error).split("\n")[1:] == [f"- a{printable(FORGES)}", "- b"]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_command_line_lists_the_faults_of_a_config(tmp_path: Path, capsys: Any):
    (path := tmp_path / "changefeeds.yaml").write_text("catalog: {type: x}\nchangefeeds: {}\n")

    assert main(["tables", "--config", str(path)]) == 2
    assert [line[:2] for line in capsys.readouterr().err.splitlines()][1:] == ["- ", "- "]


@pytest.fixture
def hostile(tmp_path: Path, without_java: None) -> Feed:
    """A live table and a stopped one, with such names of tables, columns and databases."""
    feed = Feed(tmp_path).table("d\u202eb", FORGES).table("shop", CLEARS)
    feed.rows("shop", CLEARS, ("I", 1, "\x1b]0;x\x07", 2)).rows("d\u202eb", FORGES, ("I", 1, "ann", 3))
    feed.statement("d\u202eb", FORGES, f"ALTER TABLE `{FORGES}` ADD COLUMN `{CLEARS}` INT SECRET", 5)
    return feed.checkpoint(10)


def commands(feed: Feed) -> list[list[str]]:
    name, at, bucket = f"shop.{CLEARS}", str(ts(9)), str(feed.bucket.base)
    configured = [
        on(feed, "run"), on(feed, "tables"), on(feed, "tables", "--json"), on(feed, "snapshot"),
        on(feed, "snapshot", "--json"), on(feed, "snapshot", "--reader", "duckdb"),
        on(feed, "schema", name, "--at", at), on(feed, "schema", name, "--at", at, "--json"),
        on(feed, "schema", f"d\u202eb.{FORGES}", "--at", at), on(feed, "schema", f"x.{FORGES}", "--at", at),
        on(feed, "diff", str(ts(0)), at), on(feed, "diff", str(ts(0)), at, "--rows"),
        on(feed, "diff", str(ts(0)), at, "--json"), on(feed, "check"), on(feed, "check", "--json"),
        on(feed, "rebuild", "--table", FORGES), on(feed, "replay", "--json"), on(feed, "doctor"),
        on(feed, "maintain", "--dry-run"), on(feed, "run", "--json"),
    ]  # fmt: skip
    return [*configured, ["inspect", bucket], ["inspect", bucket, "--json"], ["inspect", str(feed.path)]]


def test_no_command_prints_such_a_character(hostile: Feed, capfd: Any):
    printed = ""
    for command in commands(hostile):
        try:
            code = main(command)
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        assert code in (0, 1, 2), command
        assert not ACTING.search(out + err), command
        assert not re.search("^feed  .*forged", out + err, re.MULTILINE), command
        if "--json" in command and out and code < 2:
            assert json.loads(out.splitlines()[-1] if command[0] == "run" else out) is not None
        printed += out + err

    assert "a\\u001b[2J\\u009b2Jb" in printed
    assert "t\\u000afeed" in printed


def texts(value: Any) -> list[str]:
    """All texts in a value of JSON."""
    if isinstance(value, str):
        return [value]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [text for key, each in pairs for text in (str(key), *texts(each))]


def test_no_page_of_dagster_has_such_a_character(hostile: Feed):
    first = hostile.run()  # it remembers the tables, which have assets in the next run
    definitions = hostile.definitions
    second = hostile.run(definitions=definitions)

    found: list[str] = []
    for spec in definitions.resolve_all_asset_specs():
        found += [spec.description or "", *texts(dict(spec.metadata))]
    for event in (*first.all_events, *second.all_events):
        found += texts(json.loads(dg.serialize_value(event)))
    assert {"dagster/column_schema", "statements", "note"} <= set(found)
    assert any("\\u000afeed" in text for text in found)
    assert [text for text in found if ACTING.search(text.replace("\n", ""))] == []
