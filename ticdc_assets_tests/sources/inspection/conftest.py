"""A capture and a bucket of a test's own, to be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ticdc_assets_tests.sources.inspection.inspected import fixture


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copy(fixture("canal-json-tidb") / "messages.jsonl", tmp_path))


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixture("storage-csv") / "data", tmp_path / "bucket"))
