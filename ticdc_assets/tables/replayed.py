"""The mark of late rows and replayed quarantine in a changelog, until its mirror has them.

Such a change is below the changelog's watermark, so the mirror's progress does not show that it is missing. The commit
that adds it sets a mark in the changelog's properties. The mirror has a property with the last mark that it merged.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.tables.iceberg.properties import REPLAYED

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.history.source_table import SourceTable


@dataclass(frozen=True, slots=True)
class Replayed:
    """Late changes: the position (commit_ts, else seq) and version of the first one, and the run that added them.

    `replaces` is the run of the mark before this one whose changes this one does not include; empty for the first mark.
    """

    run_id: str
    first: int
    version_ts: int
    replaces: str = ""

    def to_json(self) -> str:
        """The mark as a table property stores it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def joined(self, other: Replayed | None) -> Replayed:
        """This mark, extended by another one that the mirror has not merged."""
        if other is None:
            return self
        return replace(
            self,
            first=min(self.first, other.first),
            version_ts=min(self.version_ts, other.version_ts),
            replaces=other.replaces,
        )


def unfollowed(changelog: Table, mirror: Table | None) -> Replayed | None:
    """The changelog's mark; None where there is none or the mirror has merged it."""
    text = changelog.properties.get(REPLAYED)
    if text is None:
        return None
    mark = Replayed(**json.loads(text))
    return None if mirror is not None and mirror.properties.get(REPLAYED) == mark.run_id else mark


def replay_mark(source_table: SourceTable, changelog: Table, mirror: Table | None, mark: Replayed) -> dict[str, str]:
    """The property that makes the mirror merge again from the first change it lacks; empty for a table that never had
    a key."""
    if not any(version.table.key for version in source_table.versions):
        return {}
    last, left = unfollowed(changelog, None), unfollowed(changelog, mirror)
    return {REPLAYED: replace(mark, replaces=last.run_id if last else "").joined(left).to_json()}
