"""The threat model's page says what the code does: its limits and the files it names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import ticdc_assets
from ticdc_assets.protocols import limits

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "ticdc_assets_tests"
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
LIMIT = re.compile(r"^\| `([\w.]+)\.(\w+)` \| (\d+) \|", re.MULTILINE)


@pytest.mark.parametrize(("module", "name", "value"), LIMIT.findall(PAGE), ids=lambda part: part)
def test_a_limit_of_the_page_is_that_of_the_code(module: str, name: str, value: str):
    assert int(value) == getattr(import_module(f"ticdc_assets.{module}"), name)


def test_every_limit_of_the_decoders_is_on_the_page():
    named = {name for module, name, _ in LIMIT.findall(PAGE) if module == "protocols.limits"}

    assert named == {name for name in vars(limits) if name.isupper()}


def test_every_file_that_the_page_names_is_there():
    files = {path.name for path in (*Path(ticdc_assets.__file__).parent.rglob("*.py"), *TESTS.rglob("test_*.py"))}
    named = set(re.findall(r"\b(\w+\.py)\b", PAGE))

    assert len(named) > 15
    assert named <= files
