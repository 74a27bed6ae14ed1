"""The site has every page, and the page on troubleshooting every code and check."""

from __future__ import annotations

import re

import yaml

from ticdc_assets.assets.checks import definitions
from ticdc_assets.assets.checks.upstream import EQUALS_UPSTREAM
from ticdc_assets.notes import NoteCode
from ticdc_assets_tests.documentation.pages import REPOSITORY, pages

TROUBLES = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def test_the_navigation_of_the_site_has_every_page_once():
    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    first, *groups = config["nav"]

    shown = [page for group in groups for pages_of_group in group.values() for page in pages_of_group]

    assert first == "README.md"
    assert sorted(shown) == sorted({page.path.name for page in pages()} - {"README.md"})
    assert config["strict"] is True


def test_every_code_of_a_note_has_its_cause_and_command():
    assert [code.value for code in NoteCode if f"`{code.value}`" not in TROUBLES] == []


def test_every_check_that_the_page_names_exists():
    known = {value for name, value in vars(definitions).items() if name.isupper() and isinstance(value, str)}

    named = set(re.findall(r"check `(\w+)`", TROUBLES))

    assert len(named) > 5
    assert named <= known | {EQUALS_UPSTREAM}
