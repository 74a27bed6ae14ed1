"""Pins: records that maintenance keeps under a name, with a tag of that name on every table.

The name is stored before the tags are made, and removed after them. So a pin or a release that ends early is finished
by the same command, and no snapshot of a stored name is expired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import MAIN_BRANCH

from ticdc_assets.errors import ConfigError, LakeError, NotYetError
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.maintenance import tables_of
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.retention import named_pins, set_named_pins
from ticdc_assets.tables.control.tables import named
from ticdc_assets.tables.iceberg.tags import RUN_BRANCH, add_tag, is_tag, remove_tag, tag_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.tables.control.records import WatermarkRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pin: its name, the TSO of its record, and the tables that have its tag, each with the snapshot."""

    name: str
    tso: int
    tables: tuple[tuple[str, int], ...]


def pin(lake: Lake, jvm: Callable[[], JvmCatalog], name: str, tso: int, together: Sequence[str] = ()) -> Pinned:
    """Pin the newest record up to `tso` in which the tables of the patterns `together` are complete; the same pin again
    completes it. Tables that are held in the record get no tag.

    Raises:
        ConfigError: the name is not allowed, pins another TSO, or is another tag or branch of a table.
        NotYetError: there is no record up to `tso`.
        LakeError: maintenance removed the record meanwhile.
    """
    _check_name(name)
    control, where = lake.control, f"changefeed {lake.changefeed.name}"
    record = control.require_at(tso, where, named(together))
    pins = named_pins(control)
    if pins.get(name, record.tso) != record.tso:
        advice = f"Take another name, or release it first: `ticdc-assets snapshot --release {name}`."
        raise ConfigError(where, f"a name that pins no other TSO than {record.tso}", f"{name} at {pins[name]}", advice)
    tables = list(_tables_of(lake, record))
    for table, snapshot_id in tables:
        found = tag_of(table, name)
        if found is not None and (found != snapshot_id or not is_tag(table, name)):
            text = ".".join(table.name())
            raise ConfigError(text, f"no tag or branch {name}", "one at another snapshot", "Take another name.")
    set_named_pins(control, {**pins, name: record.tso})
    kept = control.at(record.tso)
    if kept is None or kept.tso != record.tso:
        set_named_pins(control, pins)
        raise LakeError(where, f"the record of {record.tso}", "none: maintenance removed it now", "Take a later TSO.")
    for table, snapshot_id in tables:
        if tag_of(table, name) is None:
            add_tag(lake.catalog, jvm, table, name, snapshot_id)
    return Pinned(name, record.tso, tuple((".".join(table.name()), i) for table, i in tables))


def release(lake: Lake, jvm: Callable[[], JvmCatalog], name: str) -> int:
    """Remove a pin and its tags; the TSO that it had. Maintenance then decides about the snapshots.

    Raises NotYetError where no pin has the name.
    """
    pins = named_pins(lake.control)
    if name not in pins:
        found = ", ".join(sorted(pins)) or "none"
        raise NotYetError(f"changefeed {lake.changefeed.name}", f"a pin {name}", "none", f"The pins are: {found}.")
    record = lake.control.at(pins[name])
    tagged = {snapshot_id for _, snapshot_id in _tables_of(lake, record)} if record else set()
    for table in tables_of(lake):
        if is_tag(table, name) and tag_of(table, name) in tagged:
            remove_tag(lake.catalog, jvm, table, name)
    set_named_pins(lake.control, {other: tso for other, tso in pins.items() if other != name})
    return pins[name]


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == MAIN_BRANCH or name.startswith(RUN_BRANCH):
        expected = "letters, digits, `_`, `.` and `-`, at most 100, and not the name of a branch of this project"
        raise ConfigError("--pin", expected, name[:100], "Take a name such as end-of-july.")


def _tables_of(lake: Lake, record: WatermarkRecord) -> Iterator[tuple[Table, int]]:
    """The mirrors, changelogs and histories of a record under their present names, each with its recorded snapshot;
    without tables that are held in it, or that were dropped by then at the source, or since then in the lake."""
    present = lake.recorded(lake.control.newest())
    for table in (table for table in record.tables if table.state != TableState.DROPPED and table.complete):
        now = present.get(table.source_table, table)
        for name, snapshot_id in (
            (now.mirror, table.mirror_snapshot_id),
            (now.changelog, table.changelog_snapshot_id),
            (now.history_table, table.history_snapshot_id),
        ):
            loaded = load_or_none(lake.catalog, tuple(name)) if name and snapshot_id is not None else None
            if loaded is not None and snapshot_id is not None and loaded.snapshot_by_id(snapshot_id) is not None:
                yield loaded, snapshot_id
