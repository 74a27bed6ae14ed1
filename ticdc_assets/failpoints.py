"""The named points of a run, in order, at which a test can stop, kill or race it.

In production there are no listeners, and a point has no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final


class Failpoint(StrEnum):
    """A completed or imminent step of a run. Those in workers occur once per task, those of tables once per table."""

    OFFSETS_FIXED = "offsets fixed"
    MESSAGES_WRITTEN = "messages written"
    BEFORE_LANDING_COMMIT = "before landing commit"
    AFTER_LANDING_COMMIT = "after landing commit"
    SCANNED = "scanned"
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
    HISTORY_MADE = "history made"
    BEFORE_RECORD = "before record"
    AFTER_RECORD = "after record"
    VIEWS_REPLACED = "views replaced"


LISTENERS: Final[list[Callable[[Failpoint], None]]] = []


def hit(moment: Failpoint) -> None:
    """Notify all listeners."""
    for listen in LISTENERS:
        listen(moment)
