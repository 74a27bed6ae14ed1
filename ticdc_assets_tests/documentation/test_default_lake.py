"""The settings of the default lake on the page on readers are those that this project uses."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ticdc_assets.config import load
from ticdc_assets.spark.settings import session_conf
from ticdc_assets_tests.documentation.pages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "readers.md").read_text(encoding="utf-8")
FOLDER = "/srv/shop"


def config(folder: Path):
    path = folder / "changefeeds.yaml"
    path.write_text("changefeeds: {shop: {sink_uri: 'file:///x?protocol=csv'}}")
    return load(path, {})


def test_the_session_of_spark_opens_the_default_lake(tmp_path: Path):
    shown = dict(re.findall(r'config\(\s*"([^"]+)",\s*"([^"]+)",?\s*\)', PAGE))

    made = session_conf(config(tmp_path))

    assert len(shown) == 7
    assert {name: made[name].replace(str(tmp_path), FOLDER) for name in shown} == shown


def test_pyiceberg_opens_the_default_lake(tmp_path: Path):
    block = next(text for text in re.findall(r"```yml\n(.*?)```", PAGE, re.DOTALL) if FOLDER in text)
    shown = yaml.safe_load(block)["catalog"]["lake"]

    made = config(tmp_path).catalog

    assert shown == {"type": made.type, "uri": str(made.uri).replace(str(tmp_path), FOLDER)}
