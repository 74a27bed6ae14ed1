"""What a changelog says of changes that came late or back from quarantine, until its mirror has them.

Such a change stands below the changelog's watermark, so the mirror's own progress cannot tell that it is missing. The
commit that brings it leaves a mark in the changelog's properties; the mirror names the last mark that it followed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.tables.progress import REPLAYED

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Replayed:
    """Changes that came late: the first one's position (commit_ts, else seq) and version, and the run that brought
    them."""

    run_id: str
    first: int
    version_ts: int

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def joined(self, other: Replayed | None) -> Replayed:
        """This mark with what another one says that no mirror has followed yet."""
        if other is None:
            return self
        return replace(self, first=min(self.first, other.first), version_ts=min(self.version_ts, other.version_ts))


def unfollowed(changelog: Table, mirror: Table | None) -> Replayed | None:
    """The changelog's mark, where its mirror has not followed it."""
    text = changelog.properties.get(REPLAYED)
    if text is None:
        return None
    mark = Replayed(**json.loads(text))
    return None if mirror is not None and mirror.properties.get(REPLAYED) == mark.run_id else mark


def marked(lineage: Lineage, changelog: Table, mirror: Table | None, mark: Replayed) -> dict[str, str]:
    """The property that tells the mirror to look again, from the first change that it has not followed; none of a table
    that never had a key."""
    if not any(version.table.key for version in lineage.versions):
        return {}
    return {REPLAYED: mark.joined(unfollowed(changelog, mirror)).to_json()}
