"""`ticdc-assets demo`: the packaged sample in every protocol, and the output when one protocol differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.cli import main
from ticdc_assets.commands.process import demo as demo_module
from ticdc_assets.commands.process.demo import SampleOutcome, checked, differing_rows, digest, line, texts
from ticdc_assets.config import PACKAGED_SAMPLE, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.fixtures import FIXTURES, needs_fixtures
from ticdc_assets_tests.make_sample import make

ROOT = Path(__file__).parents[3]
SAMPLE_BYTES_MAX = 1_000_000


def test_a_folder_that_cannot_be_made_is_named_with_the_option(tmp_path: Path, capfd: Any):
    (tmp_path / "file").write_text("")

    assert main(["demo", "--dir", str(tmp_path / "file" / "demo")]) == 2

    found = "Not a directory. Name another folder with --dir."
    expected = "a folder that this process's user can write"
    assert capfd.readouterr().err == f"{tmp_path}/file/demo: expected {expected}, found {found}\n"


# -- the sample --------------------------------------------------------------------------------------------------------


def files_of(folder: Path) -> dict[str, bytes]:
    names = ("README.md", "changefeeds.yaml")
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in names)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@needs_fixtures
def test_the_sample_is_what_its_script_makes(tmp_path: Path):
    assert FIXTURES is not None
    make(FIXTURES, tmp_path)

    assert files_of(PACKAGED_SAMPLE) == files_of(tmp_path)


def test_the_sample_is_small_and_has_every_protocol():
    feeds = load(PACKAGED_SAMPLE / "changefeeds.yaml", {}).changefeeds
    protocols = {(str(feed.sink.protocol), feed.sink.is_storage) for feed in feeds}

    assert sum(len(data) for data in files_of(PACKAGED_SAMPLE).values()) < SAMPLE_BYTES_MAX
    assert protocols == {*((name, False) for name in REGISTRY), ("csv", True), ("canal-json", True)}
    assert {feed.sink.simple.encoding_format for feed in feeds if feed.sink.protocol == "simple"} == {"json", "avro"}


@pytest.mark.parametrize("feed", load(PACKAGED_SAMPLE / "changefeeds.yaml", {}).changefeeds, ids=lambda f: f.name)
def test_every_changefeed_of_the_sample_holds_inserts_updates_and_deletes(feed: Any):
    place = feed.source.storage.location if feed.sink.is_storage else feed.source.path
    counts = inspect_source(str(place), Bounds()).counts

    assert min(counts.inserts, counts.updates, counts.deletes) > 0


# -- agreement ---------------------------------------------------------------------------------------------------------


def test_rows_agree_whatever_the_order_of_rows_and_columns():
    one = [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    other = [{"b": "x", "a": 2, "_ticdc_commit_ts": 5}, {"b": None, "a": 1, "_ticdc_commit_ts": 6}]

    assert texts(one) == texts(other)
    assert digest(one) == digest(other)


def test_a_digest_differs_if_an_equal_row_comes_twice():
    assert digest([{"a": 1}]) != digest([{"a": 1}, {"a": 1}])


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 2), (1, "1"), (None, "None"), (Decimal("1.0"), Decimal("1.00")), (b"a", "a"), (0.0, -0.0), (1, 1.0)],
)
def test_values_differ_by_their_type_too(one: Any, other: Any):
    assert digest([{"a": one}]) != digest([{"a": other}])


def test_moments_are_equal_in_any_zone_but_not_without_one():
    at = datetime(2025, 8, 1, 8, tzinfo=timezone(timedelta(hours=8)))

    assert digest([{"a": at}]) == digest([{"a": datetime(2025, 8, 1, tzinfo=UTC)}])
    assert digest([{"a": at}]) != digest([{"a": datetime(2025, 8, 1)}])


def test_the_difference_counts_what_is_missing_and_what_is_too_much():
    assert differing_rows(Counter("aab"), Counter("abc")) == 2


# -- the check ---------------------------------------------------------------------------------------------------------


def outcome(changes: str = "abc", rows: str = "ab", sha: str = "right") -> SampleOutcome:
    return SampleOutcome(Counter(changes), Counter(rows), sha, "live", 7)


WANTED = {"rows": 2, "sha256": "right"}


def test_a_table_that_is_the_same_everywhere_agrees():
    found = line("s.t", {"open": outcome(), "csv": outcome()}, WANTED)

    assert found.agrees
    assert (found.changes, found.rows, found.watermark, found.states) == (3, 2, 7, ("live",))


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (outcome(changes="abd"), "s.t, csv: expected the 3 changes of open, found 2 others."),
        (outcome(rows="abc", sha="x"), "s.t, csv: expected the 2 rows of its source, found 3 rows."),
        (outcome(sha="x"), "s.t, csv: expected the 2 rows of its source, found 2 rows with other values."),
        (None, "s.t, csv: expected a table, found none."),
    ],
)
def test_a_missing_table_is_reported_with_its_changefeed_and_a_count(other: SampleOutcome | None, sentence: str):
    found = line("s.t", {"open": outcome(), "csv": other}, WANTED)

    assert [fault.partition(" Run the demo")[0] for fault in found.faults] == [sentence]
    assert not found.agrees


def test_a_table_that_should_not_exist_is_reported():
    assert "expected no such table, found one" in line("s.t", {"open": outcome()}, None).faults[0]


def test_six_changefeeds_of_the_sample_have_equal_changelogs(tmp_path: Path):
    demo_module.prepare(tmp_path / "demo")
    config = load(tmp_path / "demo" / "changefeeds.yaml", {})
    for changefeed in config.changefeeds:
        run = run_of(Lake(config, changefeed), None)
        run.publish_changelogs(run.scan(), LocalWorkers())

    lines = checked(config, tmp_path / "demo", {changefeed.name for changefeed in config.changefeeds})

    shared = {one.table: one.changes for one in lines if len(one.changefeeds) == 6}
    assert shared == {"shop.codes_r2": 48, "shop.parted": 34, "shop.users": 51}
    assert [fault for one in lines for fault in one.faults if " changes of " in fault] == []
    assert [fault for one in lines for fault in one.faults if "rows of its source" in fault]  # no mirror is made yet


def test_changefeeds_that_are_asked_for_are_compared_with_each_other_alone(tmp_path: Path):
    demo_module.prepare(tmp_path / "demo")
    assert (tmp_path / "demo" / "changefeeds.yaml").read_text().startswith("# yaml-language-server: $schema=")
    config = load(tmp_path / "demo" / "changefeeds.yaml", {})
    for name in ("open", "avro"):
        run = run_of(Lake(config, config.changefeed(name)), None)
        run.publish_changelogs(run.scan(), LocalWorkers())

    lines = checked(config, tmp_path / "demo", {"open", "avro"})

    assert {one.changefeeds for one in lines} == {("open",), ("avro",)}
    assert {one.table: one.changes for one in lines if one.changefeeds == ("open",)}["shop.users"] == 51
    assert demo_module._agreement(lines, ["a fault"]) == ["The results of the protocols differ, or are not complete."]
    alone = [replace(one, faults=()) for one in lines if one.changefeeds == ("open",)]
    assert demo_module._agreement(alone, []) == ["open is shown alone: every row is equal to the source's."]


def test_a_changefeed_that_the_sample_has_not_is_refused_before_a_folder_is_made(tmp_path: Path, capfd: Any):
    assert main(["demo", "--dir", str(tmp_path / "demo"), "--changefeed", "opne"]) == 2

    assert "open" in capfd.readouterr().err
    assert not (tmp_path / "demo").exists()


# -- the command -------------------------------------------------------------------------------------------------------


def test_demo_leaves_a_folder_alone_that_it_did_not_make(tmp_path: Path, capfd: Any):
    (tmp_path / "mine.txt").write_text("mine")

    assert main(["demo", "--dir", str(tmp_path)]) == 2

    assert "--dir" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_demo_says_so_where_the_folder_is_a_file(tmp_path: Path, capfd: Any):
    (tmp_path / "mine.txt").write_text("mine")

    assert main(["demo", "--dir", str(tmp_path / "mine.txt")]) == 2

    assert "mine.txt: expected a folder, found a file." in capfd.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_demo_clears_what_an_earlier_demo_left_and_nothing_else(tmp_path: Path):
    folder = tmp_path / "demo"
    demo_module.prepare(folder)
    (folder / "lake").mkdir()
    (folder / "lake" / "old").write_text("old")
    (folder / "mine.txt").write_text("mine")

    demo_module.prepare(folder)

    assert not (folder / "lake").exists()
    assert (folder / "mine.txt").read_text() == "mine"
    assert (folder / "storage_csv" / "metadata").is_file()


def test_demo_leaves_a_config_alone_that_was_edited(tmp_path: Path, capfd: Any):
    folder = tmp_path / "demo"
    demo_module.prepare(folder)
    config = folder / "changefeeds.yaml"
    mine = config.read_text() + "# mine\n"
    config.write_text(mine)

    assert main(["demo", "--dir", str(folder)]) == 2

    assert config.read_text() == mine
    assert (folder / "storage_csv" / "metadata").is_file()
    assert "Name a new folder with --dir, or move the file away." in capfd.readouterr().err
    config.rename(tmp_path / "mine.yaml")
    demo_module.prepare(folder)
    assert config.is_file()


def test_runs_that_are_started_in_the_demos_ui_keep_what_they_print(tmp_path: Path):
    demo_module.prepare(tmp_path / "demo")
    home = tmp_path / "demo" / demo_module.HOME

    with dg.DagsterInstance.from_config(str(home)) as instance:
        with instance.compute_log_manager.capture_logs(["run", "step"]):
            print("noise", file=sys.stderr, flush=True)
        kept = instance.compute_log_manager.get_log_data(["run", "step"]).stderr

    assert kept == b"noise\n"
    assert any(home.rglob("*.err"))


@pytest.mark.spark
def test_demo_ends_with_every_protocol_equal_to_the_others_and_to_the_source(tmp_path: Path):
    folder = tmp_path / "demo"

    done = subprocess.run(
        [sys.executable, "-m", "ticdc_assets.cli", "demo", "--dir", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    expected = json.loads((PACKAGED_SAMPLE / "expected.json").read_text())
    wanted = Counter(
        (name, str(expected_table["rows"]))
        for workload in expected
        for name, expected_table in workload["tables"].items()
    )
    lines = [text.split() for text in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert Counter((cells[0], cells[2]) for cells in lines if cells and cells[0] in {n for n, _ in wanted}) == wanted
    assert "All agree: open, simple_json, simple_avro, canal_json, storage_csv, storage_canal_json carry" in done.stdout
    assert "avro and debezium carry separate workloads: every row is equal to the source's." in done.stdout
    called = demo_module.called("dagster")
    assert f"TICDC_ASSETS_CONFIG={folder / 'changefeeds.yaml'} {called} dev" in done.stdout
    assert "\n\nOpen Dagster" in done.stdout
    assert "\\u000a" not in done.stdout
    assert "WARN" not in done.stderr


def test_commands_are_named_as_the_shell_finds_those_of_this_environment(monkeypatch: pytest.MonkeyPatch):
    ours = Path(sys.executable).with_name("dagster")
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo_module.called("dagster") == str(ours)

    monkeypatch.setenv("PATH", str(ours.parent))
    assert demo_module.called("dagster") == "dagster"
