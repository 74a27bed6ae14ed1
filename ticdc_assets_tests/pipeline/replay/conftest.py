"""The bucket of the replays of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.replay.replays import T
from ticdc_assets_tests.pipeline.small_feeds import Sink


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    made = Sink(tmp_path / "bucket")
    made.table(T)
    return made
