"""What a record says of the tables that it names, and what to do where one was set back (`tables.set_back`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyiceberg.table import Table

from ticdc_assets.errors import rebuild_command
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.iceberg.commits import other_table
from ticdc_assets.tables.messages import MESSAGES
from ticdc_assets.tables.set_back import RecordedSnapshot

_ELSE: Final = "Where that is not possible, "
_NEW_CHANGEFEED: Final = "read the source in a changefeed of another name, with another `target`."
_REMEDIES: Final = {
    "quarantine": "drop it from the catalog: that gives up the records in it. `ticdc-assets rebuild --from source` of "
    "their tables finds them again.",
    "closed_folders": "drop it from the catalog: that gives up files which came late into the folders closed so far. "
    "`ticdc-assets rebuild --from source` of their tables reads them.",
}
"""The control tables that can be given up, each with what is lost."""

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
    from ticdc_assets.tables.control.tables import Control


def recorded_changelog(lake: Lake, table: TableRecord | None, at: datetime) -> RecordedSnapshot | None:
    """The snapshot at which a record of the time `at` names the changelog of a table; None where it names none."""
    if table is None or table.changelog_snapshot_id is None:
        return None
    remedy = (
        f"{_ELSE}{_NEW_CHANGEFEED} Do not rebuild its mirror: it has rows that the changelog lacks."
        if lake.by_arrival
        else f"{_ELSE}{rebuild_command(f'{table.schema}.{table.table}', 'source')} reads its "
        "changes again; it gives up those that the source no longer has and that no row of the mirror shows. Where "
        "`upstream` is set, `ticdc-assets resync` copies the table from TiDB."
    )
    return RecordedSnapshot(table.changelog_snapshot_id, at, remedy)


def require_control_tables(lake: Lake) -> None:
    """Look at the control tables that the newest record names, before anything is written.

    Raises:
        SetBackError: one was set back, or the `messages` of the changefeed whose messages this one reads. `messages`
            with commit_ts is not looked at: what it lacks is landed again, or named as missing.
        ConfigError: one is gone that cannot be given up.
    """
    _require(lake, lake.control, lambda name: name != MESSAGES or lake.by_arrival)
    if lake.origin is not None and lake.by_arrival:
        _require(lake, lake.origin, lambda name: name == MESSAGES)


def _require(lake: Lake, control: Control, is_looked_at: Callable[[str], bool]) -> None:
    record = control.newest()
    for name, snapshot_id in record.control_snapshots if record is not None else ():
        if record is None or not is_looked_at(name):
            continue
        table = load_or_none(lake.catalog, (*control.namespace, name))
        if table is not None:
            remedy = _ELSE + _REMEDIES.get(name, _NEW_CHANGEFEED)
            RecordedSnapshot(snapshot_id, record.recorded_at, remedy).require_in(table)
        elif name not in _REMEDIES:
            raise other_table(".".join((*control.namespace, name)), "none")


def recorded_snapshots(record: WatermarkRecord) -> dict[Identifier, RecordedSnapshot]:
    """The snapshots at which a record names tables, by their identifiers."""
    named = [
        pair
        for t in record.tables
        for pair in (
            (t.changelog, t.changelog_snapshot_id),
            (t.mirror, t.mirror_snapshot_id),
            (t.history_table, t.history_snapshot_id),
        )
    ]
    return {tuple(name): RecordedSnapshot(i, record.recorded_at) for name, i in named if name and i is not None}


def mirror_was_set_back(table: TableRecord, at: datetime, mirror: Table) -> bool:
    """Whether a mirror is older than a record of the time `at` says. A run brings it up to its changelog again."""
    snapshot_id = table.mirror_snapshot_id
    return snapshot_id is not None and RecordedSnapshot(snapshot_id, at).is_lost(mirror)


def require_whole(lake: Lake, table: TableRecord, at: datetime, changelog: Table) -> None:
    """Raise SetBackError where the changelog of a table was set back since a record of the time `at`."""
    recorded = recorded_changelog(lake, table, at)
    if recorded is not None:
        recorded.require_in(changelog)
