"""Which test files to run while a module changes: the one of its name in the same folder, else those nearest to it.

`python -m ticdc_assets_tests.module_tests ticdc_assets/changes/rows_by_key.py` prints them.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ticdc_assets_tests.imports import PACKAGE, TESTS, imported, modules


def nearest_tests() -> dict[str, list[Path]]:
    """The test files of each module of the package. Nearest are those that import it; next, those that import a module
    which imports it, of the package or of the tests."""
    package, tests = modules(), modules(TESTS)
    known = {**package, **tests}
    users: dict[str, set[str]] = defaultdict(set)
    for user, file in known.items():
        for name in (*imported(file, known), *_named(file, known)):
            users[name].add(user)
    return {name: _of_its_name(file) or _nearest(name, users, tests) for name, file in package.items()}


def _named(file: Path, known: Mapping[str, Path]) -> list[str]:
    """Modules that a file names in texts, to import them once they are needed."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str) and value in known]


def _of_its_name(file: Path) -> list[Path]:
    test = (TESTS / file.relative_to(PACKAGE)).with_name(f"test_{file.name}")
    return [test] if test.is_file() else []


def _nearest(name: str, users: Mapping[str, set[str]], tests: Mapping[str, Path]) -> list[Path]:
    seen, at = {name}, {name}
    while at:
        at = {user for module in at for user in users[module]} - seen
        seen |= at
        found = [tests[module] for module in at if module in tests and tests[module].name.startswith("test_")]
        if found:
            return sorted(found)
    return []


if __name__ == "__main__":
    _every = nearest_tests()
    for _name, _file in modules().items():
        if _file in {Path(argument).resolve() for argument in sys.argv[1:]}:
            print(*(test.relative_to(TESTS.parent) for test in _every[_name]), sep="\n")
