"""Which module of the package and of its tests imports which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ticdc_assets

PACKAGE = Path(ticdc_assets.__path__[0])
TESTS = Path(__file__).parent
ENTRIES = {
    "ticdc_assets.cli",
    "ticdc_assets.component",
    "ticdc_assets.definitions",
    "ticdc_assets.pipeline.python_daemon",
}
"""Modules that packaging, Dagster and Spark name; no module of the package imports them."""


def modules(root: Path = PACKAGE) -> dict[str, Path]:
    """Each module's name and file; a folder's name is that of its `__init__.py`."""
    return {".".join((root.name, *_parts(file.relative_to(root)))): file for file in root.rglob("*.py")}


def _parts(file: Path) -> tuple[str, ...]:
    parts = file.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Those of the known modules that a file imports, also those for types alone and those within functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module
