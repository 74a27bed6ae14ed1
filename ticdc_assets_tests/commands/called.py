"""A changefeed for tests of commands, in a clean environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.assets.feeds import Feed


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "TICDC_ASSETS_CONFIG", "TICDC_ASSETS_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def shop(folder: Path, **settings: Any) -> Feed:
    feed = Feed(folder, **settings)
    feed.table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("D", 1, "ann", 4))
    return feed.checkpoint(10)


def on(feed: Feed, command: str, *arguments: str) -> list[str]:
    return [command, "--config", str(feed.path), *arguments]
