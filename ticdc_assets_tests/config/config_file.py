"""Configs that a test writes and loads: a whole file, or one changefeed with some keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.config import Config, load
from ticdc_assets.errors import ConfigError

MINIMAL = """
changefeeds:
  shop:
    sink_uri: "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
"""


def written(folder: Path, text: str | dict[str, Any], name: str = "changefeeds.yaml") -> Path:
    path = folder / name
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text), encoding="utf-8")
    return path


def loaded(folder: Path, text: str | dict[str, Any], **environ: str) -> Config:
    return load(written(folder, text), environ)


def with_feed(**keys: Any) -> dict[str, Any]:
    return {"changefeeds": {"shop": {"sink_uri": "s3://bucket/prefix?protocol=canal-json", **keys}}}


def feed(folder: Path, environ: dict[str, str] | None = None, **keys: Any):
    return loaded(folder, with_feed(**keys), **(environ or {})).changefeed("shop")


def refused(folder: Path, text: str | dict[str, Any], **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, **environ)
    return caught.value


def whole(block: str) -> str:
    """A config file with the block in its place: a block may hold one part of a file."""
    stream = 'sink_uri: "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"'
    if "changefeeds:" in block:
        return block
    if block.startswith(" "):
        return f"changefeeds:\n  shop:\n    {stream}\n{block}"
    return f"{block}changefeeds:\n  shop:\n    {stream}\n"
