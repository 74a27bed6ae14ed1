"""Which rows of `watermarks` stay, and so at which TSOs the tables can be read together.

These records stay: all recent ones; of older ones, the last complete one of each UTC day, and of each UTC hour where
that is asked; the pinned ones; those that views show; the newest complete one; and the newest one, from which runs
continue. Of records in which some tables are held, the same stay. A record is removed before the snapshots that it
names, so that every record can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table, Transaction

from ticdc_assets.errors import NotYetError
from ticdc_assets.tables.control.tables import Control, committed

PINNED: Final = "ticdc.pinned-tsos"
"""The property of `watermarks` that names the TSOs whose records stay."""

NAMED: Final = "ticdc.pins"
"""The property of `watermarks` with the pins that have a name, and their TSOs."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """The number of removed records, and the snapshots that the remaining ones name."""

    removed: int = 0
    kept_ids: frozenset[int] = frozenset()


def thin(
    control: Control, older_than: datetime, days_kept: int, now: datetime, write: bool, hours_kept: int = 0
) -> Thinned:
    """Remove the records of `watermarks` that need not stay, in one commit.

    Args:
        older_than: records that are not older stay.
        days_kept: for so many days the last complete record of each UTC day stays.
        hours_kept: for so many hours the last complete record of each UTC hour stays.
        write: if false, nothing is removed; the result is the same.
    """
    table, thinned = control.watermarks(), Thinned()
    limits = {"%Y-%m-%d": now - timedelta(days=days_kept), "%Y-%m-%d %H": now - timedelta(hours=hours_kept)}

    def remove(fresh: Table, tx: Transaction) -> None:
        nonlocal thinned
        rows = fresh.scan().to_arrow()
        pins = {*pinned(control), *named_pins(control).values(), *(view.tso for view in control.views())}
        kept = rows.filter(pa.array(_stays(rows, pins, older_than, limits), pa.bool_()))
        thinned = Thinned(len(rows) - len(kept), _snapshot_ids(kept))
        if thinned.removed and write:
            tx.overwrite(kept)

    if table is not None:
        committed(table, remove)
    return thinned


def _stays(rows: pa.Table, pins: Iterable[int], older_than: datetime, limits: Mapping[str, datetime]) -> list[bool]:
    """`limits` gives, by the form of a period's time, since when the last complete record of each period stays."""
    heads = rows.select(
        [n for n in ("tso", "recorded_at", "complete", "settled") if n in rows.column_names]
    ).to_pylist()
    order = sorted(range(len(heads)), key=lambda i: (heads[i]["tso"], heads[i]["recorded_at"]))
    wanted = set(pins)
    last_of_period: dict[tuple[bool, str], int] = {}
    pinned_rows: dict[int, int] = {}
    newest: dict[bool, int] = {}
    for i in order:
        head = heads[i]
        complete = bool(head["complete"])
        if not complete and not head.get("settled"):
            continue
        newest[complete] = i
        for form, limit in limits.items():
            if head["recorded_at"] >= limit:
                last_of_period[complete, head["recorded_at"].strftime(form)] = i
        if head["tso"] in wanted:
            pinned_rows[head["tso"]] = i
    kept = {*last_of_period.values(), *pinned_rows.values(), *newest.values(), *order[-1:]}
    return [i in kept or head["recorded_at"] >= older_than for i, head in enumerate(heads)]


def _snapshot_ids(kept: pa.Table) -> frozenset[int]:
    """The snapshots that must stay: those of records that can be read, and of the newest one, which `tables` shows."""
    newest = max(range(len(kept)), key=lambda i: (kept["tso"][i].as_py(), kept["recorded_at"][i].as_py()), default=-1)
    settled = kept["settled"].to_pylist() if "settled" in kept.column_names else [False] * len(kept)
    shown = [c or s or i == newest for i, (c, s) in enumerate(zip(kept["complete"].to_pylist(), settled, strict=True))]
    tables = pc.list_flatten(kept.filter(pa.array(shown, pa.bool_())).column("tables"))
    found: set[int] = set()
    for name in ("mirror_snapshot_id", "changelog_snapshot_id", "history_snapshot_id"):
        if tables.type.get_field_index(name) >= 0:  # records of an older version have no histories
            found.update(pc.struct_field(tables, name).drop_null().to_pylist())
    return frozenset(found)


# -- pins --------------------------------------------------------------------------------------------------------------


def pinned(control: Control) -> tuple[int, ...]:
    """The TSOs of pinned records."""
    table = control.watermarks()
    return () if table is None else tuple(json.loads(table.properties.get(PINNED, "[]")))


def pin_record(control: Control, tso: int, write: bool = True) -> tuple[int, ...]:
    """Pin the record for `tso`; the pinned TSOs afterwards. With `write` false, nothing is changed.

    Raises NotYetError where there is no such record.
    """
    record = control.require_at(tso, ".".join(control.namespace))
    return _set_pins(control, {*pinned(control), record.tso}, write)


def unpin(control: Control, tso: int, write: bool = True) -> tuple[int, ...]:
    """Unpin the record for `tso`; the pinned TSOs afterwards, as `pin_record` returns them.

    Raises NotYetError where it is not pinned.
    """
    pins, record = set(pinned(control)), control.at(tso)
    recorded_tso = tso if record is None else record.tso
    if recorded_tso not in pins:
        found = ", ".join(map(str, sorted(pins))) or "none"
        raise NotYetError(".".join(control.namespace), "a pinned TSO", f"{recorded_tso}", f"Pinned are: {found}.")
    return _set_pins(control, pins - {recorded_tso}, write)


def _set_pins(control: Control, pins: Iterable[int], write: bool) -> tuple[int, ...]:
    wanted = tuple(sorted(pins))
    if write:
        _set_property(control, PINNED, json.dumps(wanted))
    return wanted


def named_pins(control: Control) -> dict[str, int]:
    """The TSOs of the records that are pinned under a name, by name."""
    table = control.watermarks()
    return {} if table is None else dict(json.loads(table.properties.get(NAMED, "{}")))


def set_named_pins(control: Control, pins: Mapping[str, int]) -> None:
    """Replace the pins that have a name."""
    _set_property(control, NAMED, json.dumps(dict(sorted(pins.items()))))


def _set_property(control: Control, name: str, text: str) -> None:
    table = control.watermarks()
    if table is not None:
        committed(table, lambda _, tx: tx.set_properties({name: text}))
