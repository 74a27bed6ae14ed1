"""Key values that two different source rows share after conversion to lake types.

All zero dates become NULL. The ENUM or SET number 0 becomes the label ''. Both TIMESTAMPs of a wall time that a clock
change repeats become the first one. With such a key, one row would count as a repeat of another, and a mirror would
hold one row instead of two. A record with such a key is therefore rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.values.ambiguous_times import is_ambiguous, occurs_twice
from ticdc_assets.schema.model import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from ticdc_assets.changes.typed import TypedChanges
    from ticdc_assets.schema.model import Column

NULL: Final = "NULL"
ZERO_DATE: Final = "a date that does not exist"
NUMBER_ZERO: Final = "the number 0, which reads like the label ''"

AMBIGUOUS: Final = "a time that occurs twice in the time zone that it is sent in"


def key_columns(columns: Collection[Column], key: Collection[str]) -> list[int]:
    """The indices of the key columns in `columns`."""
    wanted = {name.lower() for name in key}
    return [number for number, column in enumerate(columns) if column.name.lower() in wanted]


def fault_in_key(column: Column, wire: Any, value: Any, zone: str) -> str | None:
    """Why a key column's value is not unique in the lake; None if it is.

    Args:
        wire: the value as the protocol sent it.
        value: the same value after conversion.
        zone: the time zone of a TIMESTAMP that names none.
    """
    if value is None:
        return NULL if wire is None else ZERO_DATE
    if value == "" and reads_alike(column) and wire in (0, "0"):
        return NUMBER_ZERO
    return AMBIGUOUS if is_ambiguous(column, wire, value, zone) else None


def reads_alike(column: Column) -> bool:
    """Whether an ENUM or SET column has the label '', which number 0 also becomes."""
    return "" in (column.type.elements or ())


def may_have_faults(changes: TypedChanges, key: Collection[str], zone: str | None) -> bool:
    """Whether a new or old key of these changes may have a fault; `fault_in_key` decides from the wire value.

    `zone` is the time zone of the TIMESTAMPs, None if each value names its own.
    """
    for number in key_columns(changes.columns, key):
        now, before = changes.now[number], changes.before[number]
        if now.null_count or pc.any(pc.and_(changes.has_before, pc.is_null(before))).as_py():
            return True
        if changes.columns[number].type.kind is Kind.TIMESTAMP and (
            zone is None or occurs_twice(now, zone) or occurs_twice(before, zone)
        ):
            return True
        if reads_alike(changes.columns[number]) and (_has_empty(now) or _has_empty(before)):
            return True
    return False


def _has_empty(values: pa.Array) -> bool:
    return bool(pc.any(pc.equal(values, "")).as_py())
