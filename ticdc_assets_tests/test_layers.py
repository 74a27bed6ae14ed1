"""Folders are layers: no two folders of the package import each other, a folder and the folder above it included.

The order of the folders is in the contracts of import-linter (pyproject.toml). A folder's own modules count for it, not
those of the folders below it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ticdc_assets

PACKAGE = Path(ticdc_assets.__path__[0])
ENTRIES = {
    "ticdc_assets.cli",
    "ticdc_assets.component",
    "ticdc_assets.definitions",
    "ticdc_assets.pipeline.python_daemon",
}
"""Modules that packaging, Dagster and Spark name; no module of the package imports them."""


def modules() -> dict[str, Path]:
    """Each module's name and file; a folder's name is that of its `__init__.py`."""
    files = PACKAGE.rglob("*.py")
    return {".".join((PACKAGE.name, *_parts(file))): file for file in files}


def _parts(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(file: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a file imports, also those for types alone and those within functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module


def folder_imports() -> set[tuple[str, str]]:
    """Which folder imports which, by their paths in the package."""
    known = modules()
    edges = set()
    for name, file in known.items():
        if name not in ENTRIES:
            edges |= {(_folder(file), _folder(known[other])) for other in imported(file, known)}
    return {(importer, other) for importer, other in edges if importer != other}


def _folder(file: Path) -> str:
    return file.parent.relative_to(PACKAGE).as_posix()


def test_no_two_folders_import_each_other():
    edges = folder_imports()
    pairs = {(one, other) for one, other in edges if one < other and (other, one) in edges}
    assert not pairs


def test_no_module_imports_an_entry():
    known = modules()
    assert known.keys() >= ENTRIES
    assert not {name for name, file in known.items() if ENTRIES & set(imported(file, known))}
