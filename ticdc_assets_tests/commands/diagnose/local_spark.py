"""Spark as `doctor` looks at it, without a JVM."""

from __future__ import annotations

import pytest

from ticdc_assets import spark


@pytest.fixture
def local_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is looked at by another test."""
    monkeypatch.setattr(spark, "session", lambda config: None)
    monkeypatch.setattr(spark, "SparkWorkers", lambda session: spark.LocalWorkers())
