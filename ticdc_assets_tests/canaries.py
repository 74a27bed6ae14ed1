"""Planted credentials and row values, which no output may have, and the outputs of a changefeed that has them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from ticdc_assets.config import Config, load
from ticdc_assets_tests.assets.feeds import Feed

CANARY = "kanarienvogel"
"""Begins every planted secret; nothing else has it."""

ROW_CANARY = "nachtigall"
"""A value of a row: it belongs into tables, and nowhere else."""


def planted(number: int, tail: str = "") -> str:
    return f"{CANARY}-{number:02}{tail}"


SECRETS: dict[str, Any] = {
    "sink_uri": f"s3://AKIA:{planted(1)}@bucket/prefix?protocol=csv&secret-access-key={planted(2)}"
    f"&session-token={planted(3, '%2F%2B')}",
    "config": {
        "sink": {
            "date-separator": "none",
            "csv": {"include-commit-ts": True},
            "kafka-config": {"sasl-password": planted(4), "sasl-gssapi-pasword": planted(5)},
        }
    },
    "claim_check": f"s3://claims/x?access-key=AKIA&secret-access-key={planted(6)}",
    "schema_registry": {
        "url": f"https://u:{planted(7)}@registry.invalid/x",
        "auth": {"user": "u", "password": planted(8)},
    },
    "upstream": {"host": "tidb.invalid", "user": "u", "password": planted(13)},
}

CATALOG = {"properties": {"s3.secret-access-key": planted(9), "adls.sas-token": {"env": "SAS"}, "s3.region": "eu"}}

SPARK = {"conf": {"spark.hadoop.fs.s3a.secret.key": planted(10), "spark.ssl.keyPassword": {"env": "KEY"}}}

ENVIRON = {"SAS": planted(11), "KEY": planted(12, "/+=")}


class SealedFeed(Feed):
    """A feed whose config names variables of the environment."""

    @property
    def config(self) -> Config:
        return load(self.path, ENVIRON)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that keeps its runs and events below the folder."""
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home), {"telemetry": {"enabled": False}}) as made:
        yield made


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A changefeed with all secrets and one table."""
    for name, secret in ENVIRON.items():
        monkeypatch.setenv(name, secret)
    made = SealedFeed(tmp_path, **SECRETS)
    document = yaml.safe_load(made.path.read_text())
    made.path.write_text(yaml.safe_dump({**document, "catalog": CATALOG, "spark": SPARK}))
    made.table("shop", "users").rows("shop", "users", ("I", 1, ROW_CANARY, 2), ("I", 2, "b", 3)).checkpoint(5)
    return made


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_assets.assets.resources.RETRIES_MAX", 0)


def assert_discreet(*texts: object) -> None:
    for text in texts:
        assert CANARY not in str(text)
        assert ROW_CANARY not in str(text)


def with_causes(error: BaseException | None) -> Iterator[str]:
    """All that anybody could print of an error."""
    while error is not None:
        yield f"{error} {error!r} {error.args!r}"
        yield "".join(traceback.format_exception(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def files_with(canary: str, folder: Path, *besides: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and path not in besides)
    return [path for path in found if canary.encode() in path.read_bytes()]
