"""Key values that the lake cannot hold as what they are: such a row cannot be told from others by its key.

Two zero dates both become NULL, and the ENUM or SET number 0 reads like the label ''. By its converted key one of two
such rows would pass for a repeat of the other, and a mirror would hold one in place of both. So the record is bad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection

    from ticdc_assets.changes.typed import TypedChanges
    from ticdc_assets.schema.model import Column

NULL: Final = "NULL"
ZERO_DATE: Final = "a date that no calendar has"
NUMBER_ZERO: Final = "the number 0, which reads like the label ''"


def key_columns(columns: Collection[Column], key: Collection[str]) -> list[int]:
    """Where the columns of the key are."""
    wanted = {name.lower() for name in key}
    return [number for number, column in enumerate(columns) if column.name.lower() in wanted]


def fault_in_key(column: Column, wire: Any, value: Any) -> str | None:
    """What is wrong with the value of a key column, sent as `wire`; None where nothing is."""
    if value is None:
        return NULL if wire is None else ZERO_DATE
    if value == "" and reads_alike(column) and wire in (0, "0"):
        return NUMBER_ZERO
    return None


def reads_alike(column: Column) -> bool:
    """Whether the column has a label ''."""
    return "" in (column.type.elements or ())


def may_have_faults(changes: TypedChanges, key: Collection[str]) -> bool:
    """Whether a key of these changes, new or old, may have a fault. Which one, only what was sent tells."""
    for number in key_columns(changes.columns, key):
        now, before = changes.now[number], changes.before[number]
        if now.null_count or pc.any(pc.and_(changes.has_before, pc.is_null(before))).as_py():
            return True
        if reads_alike(changes.columns[number]) and (_has_empty(now) or _has_empty(before)):
            return True
    return False


def _has_empty(values: pa.Array) -> bool:
    return bool(pc.any(pc.equal(values, "")).as_py())
