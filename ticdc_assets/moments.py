"""The named moments of a run, in their order: where a test stops, kills or races it.

Nothing listens in production, and a moment then costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final


class Moment(StrEnum):
    """What a run has done, or is about to do; in workers once for every task, of tables once for each."""

    LOOKED = "looked"
    SCHEMAS_KEPT = "schemas kept"
    CHANGELOGS_MADE = "changelogs made"
    FILE_READ = "file read"
    PARTS_WRITTEN = "parts written"
    DECODED = "decoded"
    QUARANTINED = "quarantined"
    BEFORE_CHANGELOG_COMMIT = "before changelog commit"
    AFTER_CHANGELOG_COMMIT = "after changelog commit"
    BEFORE_CURSOR = "before cursor"
    AFTER_CURSOR = "after cursor"
    MIRROR_MADE = "mirror made"
    BEFORE_MIRROR_COMMIT = "before mirror commit"
    BRANCH_WRITTEN = "branch written"
    AFTER_MIRROR_COMMIT = "after mirror commit"
    VERSION_ENTERED = "version entered"
    BEFORE_RECORD = "before record"
    AFTER_RECORD = "after record"


LISTENERS: Final[list[Callable[[Moment], None]]] = []


def reached(moment: Moment) -> None:
    """Tell whoever listens."""
    for listen in LISTENERS:
        listen(moment)
