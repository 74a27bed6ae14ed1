"""What the documentation says is true of the code: links, commands, paths of tests, config keys, example configs."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ticdc_assets.command_line import entry
from ticdc_assets.config import load
from ticdc_assets_tests.config.config_file import whole, written
from ticdc_assets_tests.documentation.pages import REPOSITORY, Page, pages

PAGES = pages()
README = Page(REPOSITORY / "README.md")
THREATS = Page(REPOSITORY / "docs" / "threat-model.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in page.links():
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = Page((page.path.parent / path).resolve() if path else page.path)
        assert target.path.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in target.anchors(), f"{page.name} links to {link}: no such heading"


@pytest.mark.parametrize("page", [page for page in PAGES if page != README], ids=lambda page: page.name)
def test_every_page_is_reached_from_the_readme_in_two_clicks(page):
    first = _linked_pages(README)
    second = {path for found in first for path in _linked_pages(Page(found))}
    assert page.path in first | second


def _linked_pages(page: Page) -> set[Path]:
    paths = {(page.path.parent / link.partition("#")[0]).resolve() for link in page.links() if ":" not in link}
    return {path for path in paths if path.suffix == ".md" and path.is_file()}


def test_every_command_that_the_pages_show_is_accepted_by_the_command_line():
    commands = _subcommands()
    shown = 0
    for page in PAGES:
        for command, options in _shown_commands(page):
            assert command in commands, f"{page.name} shows ticdc-assets {command}"
            known = {flag for action in commands[command]._actions for flag in action.option_strings}
            assert options <= known, f"{page.name} shows ticdc-assets {command} {sorted(options - known)}"
            shown += 1
    assert shown > 10


def test_the_readme_names_every_command():
    assert [command for command in _subcommands() if f"ticdc-assets {command}" not in README.text] == []


def _subcommands() -> dict[str, argparse.ArgumentParser]:
    parser = entry.parser()
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices)


def _shown_commands(page: Page) -> Iterator[tuple[str, set[str]]]:
    for code in page.code():
        for found in re.findall(r"ticdc-assets ([a-z][a-z-]*)((?: [^`&|;#]*)?)", code):
            command, rest = found
            yield command, set(re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_path_that_a_page_names_exists(page):
    for line in (line for block in page.blocks("sh") for line in block.splitlines() if "pytest" in line):
        words = shlex.split(line, comments=True)
        for path in (word for word in words if word.startswith("ticdc_assets_tests")):
            assert (REPOSITORY / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != THREATS], ids=lambda page: page.name)
def test_every_source_file_that_a_page_names_exists(page):
    """The page on threats names files below the package; `test_threat_model` checks them."""
    names = set(re.findall(r"`((?:ticdc_assets|ticdc_assets_tests|docs)/[\w/.-]+|(?:\w+/)+\w+\.py)`", page.prose))
    assert [name for name in sorted(names) if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_that_a_page_names_with_its_file_exists(page):
    named = re.findall(r"`(\w+)`\s+in\s+`(ticdc_assets/[\w/]+\.py)`", page.prose)
    assert [(name, path) for name, path in named if name not in _defined(REPOSITORY / path)] == []


def _defined(path: Path) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, definitions)}


@pytest.mark.parametrize(
    ("page", "block"),
    [(page.name, block) for page in PAGES for block in page.blocks("yaml")],
    ids=lambda text: text[:30],
)
def test_every_example_config_is_accepted(page, block, tmp_path):
    (tmp_path / "changefeed.toml").write_text("")
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "registry.json").write_text("[]")
    environ = dict.fromkeys(re.findall(r"\{env: (\w+)\}", block), "secret")
    environ |= {"CATALOG_URI": "postgresql+psycopg2://user:secret@host:5432/database"}
    config = load(written(tmp_path, whole(block)), environ)
    assert config.changefeeds, page
