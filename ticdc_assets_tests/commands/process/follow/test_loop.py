"""The loop of `run --follow` without Spark: faults, pauses, what is printed, and what the metrics say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from ticdc_assets.cli import main
from ticdc_assets.commands.process.follow import command
from ticdc_assets.commands.process.follow.changefeed import FollowedChangefeed, FollowedRun
from ticdc_assets.commands.process.follow.command import PAUSE_MAX_S, Backoff
from ticdc_assets.commands.process.follow.report import Metrics
from ticdc_assets.commands.process.pending import ChangefeedResult
from ticdc_assets.errors import ConfigError
from ticdc_assets.tables.maintenance.compaction import FileCounts
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop
from ticdc_assets_tests.commands.process.follow.scripted import Scripted, lines_of
from ticdc_assets_tests.commands.process.follow.scripted import no_pause as no_pause
from ticdc_assets_tests.pipeline.small_streams import SmallStream, shape


def test_each_run_is_one_json_line_and_a_look_without_news_is_none(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    feed = shop(tmp_path)
    more = lambda: feed.rows("shop", "users", ("I", 3, "eve", 11), ("U", 3, "eva", 12)).checkpoint(20)  # noqa: E731
    Scripted(monkeypatch, lambda: None, more, lambda: None)

    assert main(on(feed, "run", "--follow", "--json")) == 0

    printed = capfd.readouterr()
    first, second = lines_of(printed.out)
    assert printed.err == ""
    assert {name: first[name] for name in ("changefeed", "rows", "complete", "tables", "held", "files")} == {
        "changefeed": "shop", "rows": 3, "complete": True, "tables": 1, "held": [], "files": None
    }  # fmt: skip
    assert [(line["tso"], line["rows"]) for line in (first, second)] == [(str(ts(10)), 3), (str(ts(20)), 2)]
    assert list(second["seconds"]) == ["scan", "changelogs", "mirrors"]
    assert second["lag_ms"] > 0
    assert first["run_id"] != second["run_id"]


def test_messages_above_the_watermark_make_no_line_until_it_passes_them(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    stream, users = SmallStream(tmp_path), shape("users")
    lake = stream.lake()
    stream.create(1, users)
    stream.put(2, users, 1)
    stream.watermark(3)
    above, past = lambda: stream.put(5, users, 2), lambda: stream.watermark(6)
    Scripted(monkeypatch, above, lambda: None, lambda: None, past)

    assert command.follow(lake.config, lake.config.changefeeds, command.FollowOptions(1.0), {}) == 0

    printed = capfd.readouterr()
    assert [line.partition(",")[0] for line in printed.out.splitlines()] == ["feed: 1 change of 1 table"] * 2
    assert printed.err == ""


def test_a_held_table_is_named_once_and_the_others_go_on(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    feed = shop(tmp_path).table("shop", "odd")
    feed.statement("shop", "odd", "ALTER TABLE `odd` FROBNICATE `id`", 5, type_=5)
    Scripted(monkeypatch, lambda: feed.rows("shop", "users", ("I", 3, "eve", 11)).checkpoint(20))

    assert main(on(feed, "run", "--follow")) == 0

    printed = capfd.readouterr()
    assert [line.partition(",")[0] for line in printed.out.splitlines()] == [
        "shop: 3 changes of 2 tables", "shop: 1 change of 2 tables"
    ]  # fmt: skip
    assert sum("FROBNICATE" in line for line in printed.err.splitlines()) == 1
    assert feed.records()["shop.users"].rows == 2


def test_a_source_that_is_away_is_reported_and_followed_when_it_is_back(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    feed, away = shop(tmp_path), tmp_path / "away"
    feed.bucket.base.rename(away)
    Scripted(monkeypatch, lambda: away.rename(feed.bucket.base))

    assert main(on(feed, "run", "--follow", "--json")) == 0

    printed = capfd.readouterr()
    fault, run = lines_of(printed.out)
    assert fault["changefeed"] == "shop" and fault["again_in_s"] == 1.0
    assert str(feed.bucket.base) in fault["error"]
    assert "It is tried again in 1 s." in printed.err
    assert run["rows"] == 3


def test_one_changefeed_with_a_wrong_config_is_given_up_and_the_other_goes_on(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    wrong, feed = Feed(tmp_path, "wrong"), shop(tmp_path)
    true_run = FollowedChangefeed.run

    def run(self: FollowedChangefeed, on_progress: Any) -> FollowedRun:
        if self.changefeed.name == "wrong":
            raise ConfigError("target", "a name", "none", "Write one.")
        return true_run(self, on_progress)

    monkeypatch.setattr(FollowedChangefeed, "run", run)
    Scripted(monkeypatch, lambda: feed.rows("shop", "users", ("I", 3, "eve", 11)).checkpoint(20))

    assert main(on(feed, "run", "--follow", "--json")) == 2

    printed = capfd.readouterr()
    assert printed.err.splitlines() == ["wrong: target: expected a name, found none. Write one. It is given up."]
    assert len(printed.out.splitlines()) == 3
    assert [line["given_up"] for line in lines_of(printed.out) if line["changefeed"] == "wrong"] == [["wrong"]]
    assert lines_of(printed.out)[-1]["given_up"] == ["wrong"]
    assert main(on(wrong, "run", "--follow", "--changefeed", "wrong")) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--follow", "--until", "1"], "--until: expected no --follow, found --follow. Leave --until out."),
        (["--follow", "--strict"], "--strict: expected no --follow, found --follow. Leave --strict out."),
        (["--interval", "1"], "--interval: expected --follow, found none. Add --follow, or leave --interval out."),
        (["--json"], "--json: expected --follow, found none. Add --follow, or leave --json out."),
        (["--metrics", "0"], "--metrics: expected --follow, found none. Add --follow, or leave --metrics out."),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(tmp_path: Path, capfd: Any, options: list[str], sentence: str):
    assert main(on(shop(tmp_path), "run", *options)) == 2
    assert capfd.readouterr().err == f"{sentence}\n"


def test_a_metrics_address_that_is_taken_is_refused(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path)
    with command.served(Metrics({}), command.Address("127.0.0.1", 0)) as url:
        port = url.removesuffix("/metrics").rpartition(":")[2]

        assert main(on(feed, "run", "--follow", "--metrics", port)) == 2

    assert f"--metrics 127.0.0.1:{port}: expected a free address" in capfd.readouterr().err


def test_the_pause_after_faults_doubles_up_to_a_limit_and_ends_with_a_success():
    backoff = Backoff(0.5)

    pauses = [backoff.failed(100.0) for _ in range(8)]
    due_s = backoff.due_s
    backoff.succeeded(200.0)

    assert pauses == [1, 2, 4, 8, 16, 32, PAUSE_MAX_S, PAUSE_MAX_S]
    assert due_s == 100 + PAUSE_MAX_S
    assert (backoff.due_s, backoff.failed(300.0)) == (200.5, 1)
    assert Backoff(300.0).failed(0.0) == 300


def test_the_metrics_add_up_over_runs_and_the_lag_grows_with_the_clock():
    now_s = 2_000_000_000.0
    metrics = Metrics({"shop": True, "undated": False}, lambda: now_s)
    tso = from_physical_ms(1_999_999_990_000)
    record: Any = type("Record", (), {"tso": tso, "tables": ()})()
    for name in ("shop", "undated"):
        for _ in range(2):
            ran = ChangefeedResult(name, record, True, changes={"t": {"I": 2, "D": 1}})
            metrics.add(FollowedRun(name, tso, {"scan": 0.25}, "run", ran, published=True), FileCounts(7, 3))
    metrics.add_fault("shop")
    metrics.add(FollowedRun("shop", tso, {"scan": 5.0}), FileCounts(7, 3))  # nothing was pending

    lines = generate_latest(metrics).decode().splitlines()

    assert 'ticdc_assets_lag_seconds{changefeed="shop"} 10.0' in lines
    assert 'ticdc_assets_rows_total{changefeed="shop"} 6.0' in lines
    assert 'ticdc_assets_runs_total{changefeed="shop"} 2.0' in lines
    assert 'ticdc_assets_faults_total{changefeed="shop"} 1.0' in lines
    assert 'ticdc_assets_stage_seconds_total{changefeed="shop",stage="scan"} 0.5' in lines
    assert 'ticdc_assets_files{changefeed="shop",kind="delete"} 3.0' in lines
    assert not [line for line in lines if "lag" in line and "undated" in line]
    assert metrics.lag_ms("undated") is None
    now_s += 1.5
    assert metrics.lag_ms("shop") == 11_500
