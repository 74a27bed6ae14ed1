"""Tables that were set back: the catalog names an older state than the one that a record names.

That happens with a catalog that is restored from a backup, with `register_table` of an older metadata file, and with a
rollback. To append to such a table would hide for good that changes are missing. A catalog that is restored together
with its records is not set back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from ticdc_assets.errors import SetBackError


@dataclass(frozen=True, slots=True)
class RecordedSnapshot:
    """The snapshot at which a record of the time `at` names a table.

    `remedy` says what to do where no newer state of the table can be restored.
    """

    snapshot_id: int
    at: datetime
    remedy: str = ""

    def is_lost(self, table: Table) -> bool:
        """Whether the table no longer goes on from this snapshot.

        Expiry removes snapshots too: it keeps the current one, which was committed after the record. So a table whose
        oldest ancestor is younger than the record may have had the snapshot.
        """
        oldest = None
        for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
            if self.snapshot_id in (snapshot.snapshot_id, snapshot.parent_snapshot_id):
                return False
            oldest = snapshot
        if oldest is None or (oldest.sequence_number or 0) <= 1:
            return True  # nothing, or all that was ever committed
        known = table.metadata.snapshot_by_id(self.snapshot_id)
        return oldest.timestamp_ms <= (known.timestamp_ms if known else self.at.timestamp() * 1000)

    def require_in(self, table: Table) -> None:
        """Raise SetBackError where the table was set back."""
        if self.is_lost(table):
            name, snapshot_id = ".".join(table.name()), self.snapshot_id
            restore = (
                f"make {snapshot_id} its current snapshot again (Spark: `CALL system.set_current_snapshot`)"
                if table.metadata.snapshot_by_id(snapshot_id) is not None
                else "register its newer metadata file, which has that snapshot (Spark: `CALL system.register_table`)"
            )
            raise SetBackError(
                name,
                f"a table that goes on from snapshot {snapshot_id}, which the newest record names",
                "an older state: it was set back, and what was committed since is missing",
                f"Nothing is written to it. To lose nothing, {restore}. {self.remedy}".rstrip(),
            )
