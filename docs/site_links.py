"""A hook of MkDocs: pages of the repository's root become pages of the site, and links follow.

In the repository the same pages are read on their own, so their links are paths in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]+)\)")


def on_files(files: Any, config: Any) -> Any:
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = ROOT if page.file.src_path in PAGES else ROOT / "docs"
    return _LINK.sub(lambda link: f"]({_of_site(link[1], folder)})", markdown)


def _of_site(link: str, folder: Path) -> str:
    """The link as it is on the site, whose pages are in one folder. A file that it lacks becomes the first page."""
    path, hash_, anchor = link.partition("#")
    target = (folder / path).resolve()
    if target.parent == ROOT and target.name in PAGES:
        return f"{target.name}{hash_}{anchor}"
    inside = target.relative_to(ROOT / "docs") if target.is_relative_to(ROOT / "docs") else Path("README.md")
    return f"{inside.as_posix()}{hash_}{anchor}"
