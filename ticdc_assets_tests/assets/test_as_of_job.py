"""The job that pins all tables as of one moment: it refuses what the command refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.assets.pinned import pinned
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"at": "yesterday", "pin": "a"}, "at: expected a TSO, digits only, or a time with its zone"),
        ({"at": "2025-07-31T16:00:00Z", "pin": "main"}, "not the name of a branch"),
        ({"at": "2025-07-31T16:00:00Z", "pin": "a"}, "expected a recorded TSO up to"),
    ],
    ids=str,
)
def test_the_job_refuses_what_the_command_refuses(asked: dict[str, Any], said: str, tmp_path: Path):
    result = pinned(Feed(tmp_path).table("shop", "users"), **asked)

    [failed] = [e.step_failure_data for e in result.all_events if e.is_step_failure]
    assert failed.user_failure_data is not None
    assert said in (failed.user_failure_data.description or "")
