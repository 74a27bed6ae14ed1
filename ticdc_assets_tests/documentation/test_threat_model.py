"""The threat model's page says what the code does: its limits and the files it names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import ticdc_assets
from ticdc_assets.protocols.formats import limits

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "ticdc_assets_tests"
PACKAGE = Path(ticdc_assets.__file__).parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
LIMIT = re.compile(r"^\| `([\w.]+)\.(\w+)` \| (\d+) \|", re.MULTILINE)


@pytest.mark.parametrize(("module", "name", "value"), LIMIT.findall(PAGE), ids=lambda part: part)
def test_a_limit_of_the_page_is_that_of_the_code(module: str, name: str, value: str):
    assert int(value) == getattr(import_module(f"ticdc_assets.{module}"), name)


def test_every_limit_of_the_decoders_is_on_the_page():
    named = {name for module, name, _ in LIMIT.findall(PAGE) if module == "protocols.formats.limits"}

    assert named == {name for name in vars(limits) if name.isupper()}


def test_every_file_and_folder_that_the_page_names_is_there():
    named = set(re.findall(r"`([\w/*]+(?:\.py|/))`", PAGE))

    assert len(named) > 15
    assert [path for path in sorted(named) if not (PACKAGE / path).exists() and not (TESTS / path).exists()] == []


def test_every_function_that_the_page_names_is_there():
    named = set(re.findall(r"`((?:\w+\.)+[a-z_]+)`", PAGE)) - set(re.findall(r"`([\w.]+\.(?:py|yaml))`", PAGE))

    assert len(named) > 2
    for name in sorted(named):
        module, _, function = name.rpartition(".")
        assert callable(getattr(import_module(f"ticdc_assets.{module}"), function)), name
