"""Names for snapshots: tags, which every expiry keeps, and the branches of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

RUN_BRANCH: Final = "ticdc_run"
"""The beginning of the names of the branches on which runs write."""
_PYICEBERG_WRITES_FORMAT: Final = 2


def tag_of(table: Table, name: str) -> int | None:
    """The snapshot that the tag or branch of this name is at; None without one."""
    ref = table.metadata.refs.get(name)
    return None if ref is None else ref.snapshot_id


def is_tag(table: Table, name: str) -> bool:
    """Whether the name is that of a tag."""
    ref = table.metadata.refs.get(name)
    return ref is not None and ref.snapshot_ref_type == SnapshotRefType.TAG


def add_tag(catalog: Catalog, jvm: Callable[[], JvmCatalog], table: Table, name: str, snapshot_id: int) -> None:
    """Tag a snapshot that the table has; one commit. `jvm` is called only for tables of format 3, which pyiceberg
    cannot write."""
    if table.metadata.format_version > _PYICEBERG_WRITES_FORMAT:
        jvm().load(tuple(table.name())).add_tag(name, snapshot_id)
        return
    made = {"ref-name": name, "type": "tag", "snapshot-id": snapshot_id}
    _commit(catalog, table, name, None, SetSnapshotRefUpdate.model_validate(made))


def remove_tag(catalog: Catalog, jvm: Callable[[], JvmCatalog], table: Table, name: str) -> None:
    """Remove a tag that the table has; one commit. The snapshot stays until it is expired."""
    if table.metadata.format_version > _PYICEBERG_WRITES_FORMAT:
        jvm().load(tuple(table.name())).remove_tag(name)
        return
    removed = RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    _commit(catalog, table, name, tag_of(table, name), removed)


def _commit(catalog: Catalog, table: Table, name: str, found: int | None, update: TableUpdate) -> None:
    unmoved = AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": found})
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid), unmoved), (update,))
