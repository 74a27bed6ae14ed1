"""A clock that shows the time of the newest checkpoint."""

from __future__ import annotations

from datetime import UTC

import pytest

from ticdc_assets.assets import resources
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home


@pytest.fixture
def clock_at_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check fails for the age of the stream."""
    clock = resources.Clock
    monkeypatch.setattr(resources, "Clock", lambda tso, now, tells: clock(tso, to_datetime(tso).astimezone(UTC), tells))
