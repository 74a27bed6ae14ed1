"""The job that decodes quarantined records again, or gives them up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.jobs import replay
from ticdc_assets_tests.assets.feeds import QUIET, Feed, materializations, run_mirrors_without_java
from ticdc_assets_tests.assets.feeds import without_java as without_java


@pytest.fixture
def feed(tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    """A table with a record of an operation that is not known."""
    monkeypatch.setattr(replay, "run_mirrors", run_mirrors_without_java)
    made = Feed(tmp_path).table("shop", "users")
    made.rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("X", 3, "eve", 4)).checkpoint(10)
    made.run()
    assert len(made.lake.control.quarantined()) == 1
    return made


def replayed(feed: Feed, **config: Any) -> dg.ExecuteInProcessResult:
    job = feed.definitions.resolve_job_def("shop_replay")
    return job.execute_in_process({**QUIET, "ops": {"shop__replay": {"config": config}}}, raise_on_error=False)


def test_a_record_that_is_still_bad_stays_and_fails_the_job_with_the_reason(feed: Feed):
    result = replayed(feed)

    assert not result.success
    [failure] = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert "expected an operation I, U or D" in str(failure.event_specific_data)
    assert len(feed.lake.control.quarantined()) == 1


def test_a_record_is_given_up_by_its_path_and_line(feed: Feed):
    [record] = feed.lake.control.quarantined()
    path, line = record.position

    result = replayed(feed, discard=[f"{path}:{line}"])

    assert result.success
    assert feed.lake.control.quarantined() == []
    shown = materializations(result)
    assert shown["shop/mirror/shop/users"]["discarded_records"] == 1
    assert shown["shop/quarantine"]["dagster/row_count"] == 0


def test_a_name_that_is_none_of_a_record_is_refused(feed: Feed):
    result = replayed(feed, records=["here"])

    assert not result.success
    assert len(feed.lake.control.quarantined()) == 1
