"""The budget of lines of each folder, in pyproject.toml: it may fall, and a commit that raises it says why."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ticdc_assets

TOP = Path(__file__).parents[1]
PACKAGE = Path(ticdc_assets.__path__[0])
BUDGETS: dict[str, int] = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["ticdc_assets"]["lines"]
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
SLACK = 100
"""Lines that a folder may be below its budget: then the budget falls."""


def lines_of(folder: str) -> int:
    files = PACKAGE.glob("*.py") if folder == "." else (PACKAGE / folder).rglob("*.py")
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def test_every_folder_has_a_budget():
    assert BUDGETS.keys() == {".", *FOLDERS}


@pytest.mark.parametrize("folder", [".", *FOLDERS])
def test_a_folder_keeps_to_its_budget_and_a_smaller_one_lowers_it(folder: str):
    assert BUDGETS[folder] - SLACK <= lines_of(folder) <= BUDGETS[folder]
