"""A commit on top of the snapshot that a run was planned from, through Iceberg's Java API.

It is a compare-and-swap from the table metadata that has this snapshot: where main has another one, nothing is
published. After a lost answer, the table shows whether the commit succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from ticdc_assets.tables.iceberg.jvm import kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.jvm import JvmTable

_NOT_VALID: Final = "ValidationException"  # raised for an update of data files that another run has removed


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One commit of `table`. `base` is Iceberg's Java object of its metadata, with the snapshot `planned_on`."""

    table: JvmTable
    base: Any
    planned_on: int

    @classmethod
    def begun(cls, table: JvmTable, planned: Table) -> PlannedCommit:
        """A commit on top of the snapshot of `planned`. Raises StaleRunError where main has another one."""
        planned_on = planned.metadata.current_snapshot_id
        base = table.java.operations().refresh()
        if planned_on is None or base.currentSnapshot().snapshotId() != planned_on:
            raise table.overtaken()
        return cls(table, base, planned_on)

    def snapshot_of(self, update: Any) -> Any:
        """The snapshot that an update of the table makes. Raises StaleRunError where main has moved since."""
        try:
            snapshot = update.apply()
        except Py4JJavaError as error:
            if kind(error) == _NOT_VALID:
                raise self.table.overtaken() from error
            raise
        if snapshot.parentId() != self.planned_on:
            raise self.table.overtaken()
        return snapshot

    def publish(self, snapshot: Any) -> None:
        """Make the snapshot the current one of main, in one try. Raises StaleRunError where main has moved since."""
        builder = self.table.named("org.apache.iceberg.TableMetadata.buildFrom")(self.base)
        fresh = builder.setBranchSnapshot(snapshot, "main").build()
        self.table.commit(self.base, fresh, snapshot.snapshotId())
