"""The Markdown pages of the repository, and what tests read from them: links, headings, code blocks, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The text without fenced code."""
        return _FENCE.sub("", self.text)

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """The anchors that a Markdown viewer gives the headings."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def blocks(self, language: str) -> list[str]:
        """The fenced code of one language."""
        return [body for found, body in _FENCE.findall(self.text) if found == language]

    def code(self) -> Iterator[str]:
        """Every piece of code: fenced lines and inline code."""
        for _, body in _FENCE.findall(self.text):
            yield from body.splitlines()
        yield from (" ".join(found.split()) for found in _INLINE_CODE.findall(self.prose))


def pages() -> list[Page]:
    """All Markdown pages that are part of the repository."""
    top = sorted(REPOSITORY.glob("*.md"))
    docs = sorted((REPOSITORY / "docs").rglob("*.md"))
    return [Page(path) for path in (*top, *docs)]
