"""A sensor of a user waits until the TSO that is recorded for all tables has passed a time."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.recorded import recorded_tso
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import Feed, ts

pytestmark = pytest.mark.usefixtures("without_java")

PAGE = (Path(__file__).parents[2] / "docs" / "dagster.md").read_text()


def test_the_sensor_of_the_documentation_waits_for_all_tables(tmp_path: Path):
    [snippet] = re.findall(r"^### Waiting for all tables\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(snippet.replace("hour=6", "hour=0"), "snippet", "exec", dont_inherit=True), found)
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)
    instance = dg.DagsterInstance.ephemeral()

    def tick() -> Any:
        return found["report_as_of_six"](dg.build_sensor_context(instance=instance))

    before = (recorded_tso(instance, "shop"), tick())
    feed.run(instance)
    early = (recorded_tso(instance, "shop"), tick())
    feed.checkpoint(time.time() - to_datetime(ts(0)).timestamp()).run(instance)
    feed.statement("shop", "users", "ALTER TABLE `users` FROBNICATE", time.time() - to_datetime(ts(0)).timestamp() + 1)
    reached = recorded_tso(instance, "shop")
    feed.checkpoint(time.time() - to_datetime(ts(0)).timestamp() + 60).run(instance)

    assert (before[0], early[0]) == (None, ts(10))
    assert all(isinstance(skipped, dg.SkipReason) for skipped in (before[1], early[1]))
    assert isinstance(tick(), dg.RunRequest)
    assert recorded_tso(instance, "shop") == reached
