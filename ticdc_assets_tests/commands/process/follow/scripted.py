"""A changefeed whose runs end as a test prescribes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.commands.process.follow import changefeed as changefeed_module
from ticdc_assets.commands.process.follow.command import Backoff, StopSignal
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.assets.feeds import run_mirrors_without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home


class Scripted:
    """Stops the loop after a number of scans, and runs the script's action before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: Any) -> None:
        self._steps = list(steps)
        monkeypatch.setattr(spark, "LazySparkWorkers", lambda config: LocalWorkers())
        monkeypatch.setattr(changefeed_module, "require_java", lambda: None)
        monkeypatch.setattr(changefeed_module, "run_mirrors", run_mirrors_without_java)
        monkeypatch.setattr(StopSignal, "wait", self._waiting())

    def _waiting(self) -> Callable[[StopSignal, float], None]:
        def wait(stop: StopSignal, seconds: float) -> None:
            if self._steps:
                self._steps.pop(0)()
            else:
                stop.request()

        return wait


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "succeeded", lambda self, began_s: None)
    monkeypatch.setattr(Backoff, "failed", lambda self, now_s: 1.0)
