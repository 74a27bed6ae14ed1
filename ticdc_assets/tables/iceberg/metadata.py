"""Table metadata with the snapshots that it shares with earlier metadata of the table, neither copied nor parsed again.

Metadata never change, so they can share their snapshots. pyiceberg copies all of them at each update (40 us for each
snapshot) and parses all of them when it reads a file (12 to 45 us); a table that a process follows has hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import Compressor
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import (
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from pyiceberg.utils.datetime import datetime_to_millis

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table.snapshots import Snapshot


def updated(base: TableMetadata, updates: Sequence[TableUpdate], uri: str | None = None) -> TableMetadata:
    """The metadata after the updates, as `pyiceberg.table.update.update_table_metadata` computes it.

    Args:
        uri: the file of `base`, which the log of the new metadata then names.
    """
    context, found = _TableMetadataUpdateContext(), base
    for update in updates:
        found = _apply_table_update(update, found, context)
    if context.has_changes():
        if uri:
            found = _update_table_metadata_log(found, uri, base.last_updated_ms)
        if found.last_updated_ms == base.last_updated_ms:
            found = found.model_copy(update={"last_updated_ms": datetime_to_millis(datetime.now().astimezone())})
    found.spec().check_compatible(found.schema())
    found.sort_order().check_compatible(found.schema())
    return found


def read(file: InputFile, earlier: TableMetadata | None = None) -> TableMetadata:
    """The metadata in a file. Snapshots that `earlier` metadata of the same table have are those objects.

    Raises:
        ValidationError: pyiceberg's, the file is damaged.
    """
    with file.open() as stream, Compressor.get_compressor(file.location).stream_decompressor(stream) as plain:
        shown = _object(plain.read(), file.location)
    if earlier is not None and shown.get("table-uuid") == str(earlier.table_uuid):
        known = {_identity(snapshot): snapshot for snapshot in earlier.snapshots}
        shown["snapshots"] = [known.get(_identity_shown(s), s) for s in shown.get("snapshots", ())]
    return TableMetadataUtil.parse_obj(shown)


def _object(data: bytes, uri: str) -> dict[str, Any]:
    try:
        shown = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise ValidationError(f"{uri} is not JSON") from None
    if not isinstance(shown, dict):
        raise ValidationError(f"{uri} is not a JSON object")
    return shown


def _identity(snapshot: Snapshot) -> tuple[Any, ...]:
    """A snapshot never changes, but for the parent: pyiceberg removes its id when it expires the parent."""
    return snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.timestamp_ms, snapshot.manifest_list


def _identity_shown(snapshot: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(snapshot.get(name) for name in ("snapshot-id", "parent-snapshot-id", "timestamp-ms", "manifest-list"))
