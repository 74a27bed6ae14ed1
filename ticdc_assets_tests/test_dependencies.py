"""The package declares exactly the packages that it imports, and no file imports a file of tests."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import ticdc_assets

PACKAGE = Path(ticdc_assets.__file__).parent
TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
OWN = {"ticdc_assets", "ticdc_assets_tests"}
NOT_IMPORTED = {
    "dagster-webserver": "`dagster dev` starts it",
    "pytest-xdist": "pytest's option -n",
}
OPTIONAL = {"duckdb", "polars"}  # a user installs them for LakeResource
PEERS = "bench"  # whose peers run in interpreters of their own


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: Iterable[str]) -> dict[str, str]:
    """The bounds of each distribution that is required."""
    found = [re.fullmatch(r"([\w.-]+)(?:\[.*?\])?(.*)", requirement) for requirement in requirements]
    return {normal(match[1]): match[2] for match in found if match}


def imported(files: Iterable[Path]) -> set[str]:
    """The top-level modules that files import anywhere, but for the standard library's and the project's own."""
    found: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.Import(names):
                    found.update(alias.name.partition(".")[0] for alias in names)
                case ast.ImportFrom(module=str(module), level=0):
                    found.add(module.partition(".")[0])
    return found - sys.stdlib_module_names - OWN


def distributions(modules: Iterable[str]) -> set[str]:
    """What has to be installed for these modules."""
    known = packages_distributions()
    return {normal(known[module][0]) if module in known else module for module in modules}


RUNTIME = declared(PROJECT["dependencies"])
DEVELOPING = declared([requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra])


def test_every_import_of_the_package_is_declared_and_every_dependency_is_used():
    found = distributions(imported(PACKAGE.rglob("*.py")))

    assert found - OPTIONAL == RUNTIME.keys() - NOT_IMPORTED.keys()


def test_every_import_of_the_tests_is_declared():
    files = [path for path in TESTS.rglob("*.py") if PEERS not in path.relative_to(TESTS).parts]

    missing = distributions(imported(files)) - RUNTIME.keys() - DEVELOPING.keys()

    assert missing == set()


def test_every_dependency_ends_at_a_version_that_the_tests_have_not_seen():
    assert [name for name, bounds in RUNTIME.items() if "<" not in bounds] == []


def test_what_tests_share_is_in_files_without_tests():
    importers = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ImportFrom) and re.search(r"\.test_\w+$", node.module or "")
    }

    assert not importers
