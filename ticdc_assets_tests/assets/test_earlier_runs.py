"""Requests and messages of sensors and schedules after runs that failed, hang or were cancelled."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._daemon.monitoring.run_monitoring import check_run_timeout
from dagster._utils.log import get_dagster_logger

from ticdc_assets.assets import earlier_runs
from ticdc_assets.assets.earlier_runs import AGAIN_AFTER_S, BROKEN_MAX, Broken
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.errors import MachineError
from ticdc_assets_tests.assets.automation.evaluated import evaluate, feed_of
from ticdc_assets_tests.assets.feeds import Feed

TAGS = {"ticdc_assets/changefeed": "shop"}


def broken_run(feed: Feed, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> str:
    def no_java(self: ChangefeedRun, on_progress: object) -> None:
        raise MachineError("Java", "version 17", "none", "Install it.")

    with monkeypatch.context() as broken:
        broken.setattr(ChangefeedRun, "publish_changelogs", no_java)
        return feed.run(instance).run_id


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = earlier_runs.time.time()
    monkeypatch.setattr(earlier_runs.time, "time", lambda: now + seconds)


def reason(result: dg.SensorResult) -> str:
    return result.skip_reason.skip_message if result.skip_reason else ""


def started_run(feed: Feed, instance: dg.DagsterInstance, job: str = "shop__run") -> dg.DagsterRun:
    definition = feed.definitions.resolve_job_def(job)
    run = instance.create_run_for_job(definition, status=DagsterRunStatus.STARTING, tags=TAGS)
    instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", run.job_name), run.run_id)
    return run


# -- runs that broke ---------------------------------------------------------------------------------------------------


def test_a_broken_run_is_asked_for_again_though_nothing_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    run_id = broken_run(feed, instance, monkeypatch)

    at_once = evaluate(feed, cursor, instance)
    later(monkeypatch, AGAIN_AFTER_S)
    again = evaluate(feed, cursor, instance)

    assert at_once.run_requests == []
    assert run_id in reason(at_once)
    assert "with or without new data" in reason(at_once)
    assert len(again.run_requests) == 1


def test_a_broken_changefeed_is_not_tried_at_every_tick_however_much_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    broken_run(feed, instance, monkeypatch)
    broken_run(feed, instance, monkeypatch)
    feed.checkpoint(11)

    later(monkeypatch, AGAIN_AFTER_S)
    too_early = evaluate(feed, cursor, instance)
    later(monkeypatch, AGAIN_AFTER_S)
    again = evaluate(feed, cursor, instance)

    assert (too_early.run_requests, too_early.cursor) == ([], cursor)
    assert len(again.run_requests) == 1


@pytest.mark.usefixtures("without_java")
def test_after_a_run_that_went_well_only_what_is_new_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    broken_run(feed, instance, monkeypatch)
    feed.run(instance)

    assert reason(evaluate(feed, cursor, instance)) == "Nothing new at the source."
    assert len(evaluate(feed.checkpoint(11), cursor, instance).run_requests) == 1


@pytest.mark.usefixtures("without_java")
def test_a_run_with_red_checks_has_done_its_work_and_is_not_repeated(tmp_path: Path):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    feed.rows("shop", "t0", ("Q", 3, "x", 4))
    cursor = evaluate(feed, None, instance).cursor
    result = feed.run(instance)

    assert not result.success
    assert reason(evaluate(feed, cursor, instance)) == "Nothing new at the source."
    assert len(evaluate(feed.checkpoint(11), cursor, instance).run_requests) == 1


def test_a_run_whose_process_never_came_up_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    instance.report_run_failed(started_run(feed, instance), "It timed out.")

    later(monkeypatch, AGAIN_AFTER_S)

    assert len(evaluate(feed, cursor, instance).run_requests) == 1


def test_a_run_that_was_cancelled_stays_so_and_ticks_say_it(tmp_path: Path):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    run = started_run(feed, instance)
    instance.report_run_canceled(run)

    evaluated = evaluate(feed, cursor, instance)

    assert (evaluated.run_requests, evaluated.cursor) == ([], cursor)
    assert f"Run {run.run_id[:8]} for this state of the source was cancelled" in reason(evaluated)
    assert "start shop__run yourself" in reason(evaluated)
    assert len(evaluate(feed.checkpoint(11), cursor, instance).run_requests) == 1


@pytest.mark.usefixtures("without_java")
def test_a_cancelled_run_is_not_reported_after_one_by_hand(tmp_path: Path):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    cursor = evaluate(feed, None, instance).cursor
    instance.report_run_canceled(started_run(feed, instance))

    feed.run(instance)

    assert reason(evaluate(feed, cursor, instance)) == "Nothing new at the source."


def test_the_longest_wait_is_some_two_hours():
    assert Broken("x", BROKEN_MAX, 0).wait_s == 128 * 60


def test_no_request_has_a_key_by_which_dagster_would_know_it_again(tmp_path: Path):
    [request] = evaluate(feed_of(tmp_path), None).run_requests

    assert request.run_key is None


# -- runs that hang ----------------------------------------------------------------------------------------------------


def test_a_run_on_its_way_is_named_with_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.ephemeral()
    run = started_run(feed, instance)
    later(monkeypatch, 3 * 3600)

    skipped = reason(evaluate(feed, None, instance))

    assert run.run_id in skipped
    assert "STARTED for 3 h" in skipped
    assert "terminate the run" in skipped


def test_the_instance_for_one_machine_gives_up_a_run_whose_process_was_killed(tmp_path: Path):
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        limit_s = instance.run_monitoring_max_runtime_seconds
        run = started_run(feed_of(tmp_path / "feed"), instance)
        record = instance.get_run_record_by_id(run.run_id)
        assert instance.run_monitoring_enabled

        check_run_timeout(instance, record, get_dagster_logger(), limit_s)
        before = instance.get_run_by_id(run.run_id).status
        check_run_timeout(
            instance, record._replace(start_time=record.start_time - limit_s), get_dagster_logger(), limit_s
        )

        assert before is DagsterRunStatus.STARTED
        assert instance.get_run_by_id(run.run_id).status is DagsterRunStatus.FAILURE


def test_the_instance_for_one_machine_forgets_the_ticks_of_a_sensor_in_time(tmp_path: Path):
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        days = instance.get_tick_retention_settings(InstigatorType.SENSOR)

    assert {days[status] for status in (TickStatus.SKIPPED, TickStatus.SUCCESS, TickStatus.FAILURE)} == {1, 7, 30}


# -- schedules ---------------------------------------------------------------------------------------------------------


def tick(feed: Feed, instance: dg.DagsterInstance) -> tuple[list[dg.RunRequest], str]:
    """What the schedule asks for, or why it does not."""
    [schedule] = feed.definitions.get_repository_def().schedule_defs
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime.now(UTC)) as context:
        evaluated = schedule.evaluate_tick(context)
    return list(evaluated.run_requests), evaluated.skip_message or ""


def test_a_schedule_asks_for_a_run_with_the_tags_of_the_changefeed(tmp_path: Path):
    [request], _ = tick(feed_of(tmp_path), dg.DagsterInstance.local_temp(str(tmp_path)))

    assert TAGS.items() <= request.tags.items()


def test_the_schedule_requests_no_run_behind_another_one_of_its_job(tmp_path: Path):
    feed, instance = feed_of(tmp_path), dg.DagsterInstance.local_temp(str(tmp_path))
    started_run(feed, instance)
    [_], _ = tick(feed, instance)
    run = started_run(feed, instance, "shop_maintenance")

    requests, reason = tick(feed, instance)

    assert (requests, run.run_id in reason) == ([], True)
