"""Folders are layers: no two folders of the package import each other, a folder and the folder above it included.

The order of the folders is in the contracts of import-linter (pyproject.toml). A folder's own modules count for it, not
those of the folders below it.
"""

from __future__ import annotations

from pathlib import Path

from ticdc_assets_tests.imports import ENTRIES, PACKAGE, imported, modules


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
