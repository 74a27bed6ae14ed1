"""The sensor for new files requests one run for new files, and its cursor does not grow."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets_tests.assets.automation.evaluated import evaluate, feed_of
from ticdc_assets_tests.assets.feeds import Feed


def test_a_sensor_requests_one_run_and_then_skips(tmp_path: Path):
    feed = feed_of(tmp_path)

    first = evaluate(feed, None)
    again = evaluate(feed, first.cursor)

    assert len(first.run_requests) == 1
    assert again.run_requests == []
    assert again.skip_reason.skip_message == "Nothing new at the source."


@pytest.mark.parametrize("change", ["file", "checkpoint", "table"])
def test_whatever_is_new_is_asked_for(tmp_path: Path, change: str):
    feed = feed_of(tmp_path)
    first = evaluate(feed, None)

    if change == "file":
        feed.rows("shop", "t0", ("I", 2, "b", 3))
    elif change == "checkpoint":
        feed.checkpoint(11)
    else:
        feed.table("shop", "new", 11)
    second = evaluate(feed, first.cursor)

    assert len(second.run_requests) == 1


def test_a_sensors_cursor_does_not_grow_with_tables(tmp_path: Path):
    few, many = evaluate(feed_of(tmp_path / "few", 1), None), evaluate(feed_of(tmp_path / "many", 40), None)

    assert len(few.cursor) == len(many.cursor) < 100


def test_a_sensor_skips_while_a_run_of_the_changefeed_is_active(tmp_path: Path):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    job = feed.definitions.resolve_job_def("shop__run")
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={"ticdc_assets/changefeed": "shop"})

    result = evaluate(feed, None, instance)

    assert result.run_requests == []
    assert result.cursor is None


def test_a_tick_reports_an_observation_of_the_source(tmp_path: Path):
    result = evaluate(feed_of(tmp_path), None)

    assert [event.asset_key.to_user_string() for event in result.asset_events] == ["shop/source"]


def test_no_checkpoint_yet_is_no_reason_to_run(tmp_path: Path):
    feed = feed_of(tmp_path)
    feed.bucket.remove("metadata")

    assert "no checkpoint yet" in evaluate(feed, None).skip_reason.skip_message


def test_a_source_that_cannot_be_read_is_an_error_and_not_silence(tmp_path: Path):
    feed = Feed(tmp_path)
    feed.bucket.base.rename(tmp_path / "elsewhere")

    with pytest.raises(Exception) as raised:
        evaluate(feed, None)

    assert isinstance(raised.value.__cause__ or raised.value, SourceError)


def capture_feed(folder: Path, capture: Path) -> Feed:
    sink = {"sink_uri": "kafka://host:9092/t?protocol=simple", "config": {}, "source": {"capture": str(capture)}}
    return Feed(folder, **sink)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_capture_that_is_not_there_is_an_error_and_not_silence(tmp_path: Path, what: str):
    capture = tmp_path / "capture" if what == "folder" else tmp_path / "nofile.jsonl"
    if what == "folder":
        capture.mkdir()

    with pytest.raises(SourceError, match="Check the path") as raised:
        evaluate(capture_feed(tmp_path, capture), None)

    assert raised.value.where == str(capture)


def test_new_messages_in_a_capture_are_asked_for_once(tmp_path: Path):
    capture = tmp_path / "messages.jsonl"
    message = {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": None, "ts_ms": 1}
    capture.write_text(json.dumps(message) + "\n")
    feed = capture_feed(tmp_path, capture)

    first = evaluate(feed, None)
    again = evaluate(feed, first.cursor)
    with capture.open("a") as more:
        more.write(json.dumps({**message, "offset": 1}) + "\n")
    third = evaluate(feed, again.cursor)

    assert [len(tick.run_requests) for tick in (first, again, third)] == [1, 0, 1]


def test_a_check_says_which_tables_have_no_asset_yet(tmp_path: Path, without_java: None):
    feed = feed_of(tmp_path)
    loaded_before = feed.definitions
    feed.table("shop", "new", 11).checkpoint(20)
    instance = dg.DagsterInstance.ephemeral()
    result = feed.run(instance, loaded_before)

    sentence = "1 table has no asset yet: shop.new. Runs process them; reload the code location to see them."
    found = {e.check_name: e for e in result.get_asset_check_evaluations()}["tables_have_assets"]
    assert (found.passed, found.severity, found.description) == (False, dg.AssetCheckSeverity.WARN, sentence)
    again = {e.check_name: e for e in feed.run(instance).get_asset_check_evaluations()}
    assert again["tables_have_assets"].passed
