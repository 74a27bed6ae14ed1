"""Snapshots and branches that a table no longer needs. Only metadata changes here; `maintenance.orphan_files` removes
files.

These snapshots stay: main's head and, where a table has progress, its ancestors down to the newest one with it; those
of branches and tags; those that kept records name; and those that were current within a safe age, so that their readers
can finish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
)

from ticdc_assets.tables.iceberg.tags import RUN_BRANCH
from ticdc_assets.tables.messages import OFFSETS
from ticdc_assets.tables.progress import WATERMARK

if TYPE_CHECKING:
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

_PROGRESS: Final = frozenset({WATERMARK, OFFSETS})
COMMIT_TRIES_MAX: Final = 3
PYICEBERG_WRITES_FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Expiry:
    """The snapshots and branches to remove from one table."""

    branches: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.branches or self.snapshot_ids)


def expiry_of(metadata: TableMetadata, kept_ids: Collection[int], older_than: datetime) -> Expiry:
    """The snapshots that were replaced before `older_than`, without `kept_ids` and those that must stay."""
    cutoff_ms = int(older_than.timestamp() * 1000)
    replaced = _replaced_ms(metadata)
    branches = tuple(sorted(name for name in metadata.refs if _is_left_behind(metadata, name, replaced, cutoff_ms)))
    kept = {snapshot.snapshot_id for snapshot in _progress_chain(metadata)} | set(kept_ids)
    for name, ref in metadata.refs.items():
        if name not in branches:
            kept |= _own_snapshots(metadata, ref.snapshot_id)
    gone = (i for i, ms in replaced.items() if ms < cutoff_ms and i not in kept)
    return Expiry(branches, tuple(sorted(gone)))


def _main(metadata: TableMetadata) -> Snapshot | None:
    current = metadata.current_snapshot_id
    return None if current is None else metadata.snapshot_by_id(current)


def _progress_chain(metadata: TableMetadata) -> list[Snapshot]:
    """Main's head and its ancestors down to the newest one with progress, which expiry must keep; the head alone where
    no snapshot has progress, as in control tables."""
    chain: list[Snapshot] = []
    for snapshot in ancestors_of(_main(metadata), metadata):
        chain.append(snapshot)
        if snapshot.summary is not None and _PROGRESS & snapshot.summary.additional_properties.keys():
            return chain
    return chain[:1]


def _own_snapshots(metadata: TableMetadata, head_id: int) -> set[int]:
    """A ref's head and its ancestors down to main: the run of this branch has not published them yet."""
    on_main = {snapshot.snapshot_id for snapshot in ancestors_of(_main(metadata), metadata)}
    found = set()
    for snapshot in ancestors_of(metadata.snapshot_by_id(head_id), metadata):
        found.add(snapshot.snapshot_id)
        if snapshot.snapshot_id in on_main:
            break
    return found


def _replaced_ms(metadata: TableMetadata) -> dict[int, int]:
    """When each snapshot was last replaced, in ms since 1970; its own time where that is not known."""
    found = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    for snapshot in metadata.snapshots:
        parent = snapshot.parent_snapshot_id
        if parent in found:
            found[parent] = max(found[parent], snapshot.timestamp_ms)
    for before, after in pairwise(metadata.snapshot_log):
        if before.snapshot_id in found:
            found[before.snapshot_id] = max(found[before.snapshot_id], after.timestamp_ms)
    return found


def _is_left_behind(metadata: TableMetadata, name: str, replaced: dict[int, int], cutoff_ms: int) -> bool:
    """Whether a run's branch had no commit for so long that its run must have ended.

    A branch at main's head has no snapshot of its own, so its age is unknown: it stays until main changes.
    """
    head_id = metadata.refs[name].snapshot_id
    if not name.startswith(RUN_BRANCH) or head_id == metadata.current_snapshot_id:
        return False
    return replaced.get(head_id, cutoff_ms) < cutoff_ms


def expire(
    catalog: Catalog, jvm: Callable[[], JvmCatalog], table: Table, kept_ids: Collection[int], older_than: datetime
) -> Expiry:
    """Remove what `expiry_of` returns, in one commit that fails if main or a removed branch has changed meanwhile.

    Args:
        jvm: returns the catalog in Spark's JVM; called only for a table of format 3, which pyiceberg cannot write.
        kept_ids: snapshots that records name.
        older_than: snapshots that were replaced after this time stay.

    Returns:
        What was removed; empty if another writer committed first.
    """
    for _ in range(COMMIT_TRIES_MAX):
        table = catalog.load_table(table.name())
        found = expiry_of(table.metadata, kept_ids, older_than)
        if not found or _expire(catalog, jvm, table, found):
            return found
    return Expiry()  # a busy table: the next maintenance tries again


def _expire(catalog: Catalog, jvm: Callable[[], JvmCatalog], table: Table, found: Expiry) -> bool:
    if table.metadata.format_version > PYICEBERG_WRITES_FORMAT:
        return jvm().load(table.name()).expire(found.branches, found.snapshot_ids, table.metadata_location)
    try:
        catalog.commit_table(table, _unmoved(table, found), _updates(found))
    except CommitFailedException:
        return False
    return True


def _unmoved(table: Table, found: Expiry) -> tuple[TableRequirement, ...]:
    refs = table.metadata.refs
    named = {name: refs[name].snapshot_id for name in (MAIN_BRANCH, *found.branches) if name in refs}
    unmoved = [AssertRefSnapshotId.model_validate({"ref": n, "snapshot-id": i}) for n, i in named.items()]
    return (AssertTableUUID(uuid=table.metadata.table_uuid), *unmoved)


def _updates(found: Expiry) -> tuple[TableUpdate, ...]:
    removed = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in found.branches]
    if not found.snapshot_ids:
        return tuple(removed)
    return (*removed, RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(found.snapshot_ids)}))
