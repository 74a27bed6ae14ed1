"""The maintenance job removes the same as the command, and fails where the command does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.jobs import maintenance
from ticdc_assets_tests.assets.feeds import QUIET, Feed, failures

pytestmark = pytest.mark.usefixtures("without_java")


def shop(folder: Path) -> Feed:
    feed = Feed(folder).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)
    feed.run()
    return feed


def maintained(feed: Feed, **asked: Any) -> dg.ExecuteInProcessResult:
    job = feed.definitions.resolve_job_def("shop_maintenance")
    config = {**QUIET, "ops": {"shop__maintenance": {"config": asked}}}
    return job.execute_in_process(config, raise_on_error=False)


def why(result: dg.ExecuteInProcessResult) -> list[str]:
    return [e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure]


@pytest.mark.parametrize("asked", [{"older_than_hours": 0.9}, {"keep_days": -1}, {"keep_days": 36_501}], ids=str)
def test_an_age_that_cannot_be_meant_is_refused_before_anything_is_touched(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(maintenance, "maintain", lambda *arguments: pytest.fail("something was touched"))
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    [sentence] = why(maintained(feed, **asked))

    assert f"expected a number from {int('older_than_hours' in asked)} to 36500" in sentence


@pytest.mark.parametrize("asked", [{"older_than_hours": 1.0}, {"keep_days": 36_500}], ids=str)
def test_an_age_at_its_bounds_is_accepted(asked: dict[str, Any], tmp_path: Path):
    assert failures(maintained(shop(tmp_path), dry_run=True, **asked)) == []


def test_a_location_that_cannot_be_judged_fails_the_run_after_all_else_was_done(tmp_path: Path):
    feed = shop(tmp_path)
    [table] = feed.records().values()
    folder = Path(feed.lake.catalog.load_table(tuple(table.changelog or ())).location().removeprefix("file://"))
    (folder / "metadata" / "00000-other.metadata.json").write_text('{"table-uuid": "of somebody else"}')

    result = maintained(feed)

    [sentence] = why(result)
    [output] = [event.event_specific_data for event in result.all_node_events if event.is_successful_output]
    assert "left alone, because it also holds metadata of a table that is not in this catalog" in sentence
    assert output.metadata["locations_left_alone"].value == 1
