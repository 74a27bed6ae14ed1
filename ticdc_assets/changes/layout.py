"""The columns of a changelog and of a mirror, derived from the schema history of the source table.

A changelog has every column that its source table ever had. A dropped column stays and is nullable. If a later column
takes the name of a retired one, or the type changes incompatibly, the old column is kept as `<name>__v<tso>`. A mirror
has the columns of one schema version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import arrow_type

if TYPE_CHECKING:
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import Column

OP: Final = "_ticdc_op"
COMMIT_TS: Final = "_ticdc_commit_ts"
COMMIT_TIME: Final = "_ticdc_commit_time"
SEQ: Final = "_ticdc_seq"
TABLE_VERSION: Final = "_ticdc_table_version"
BEFORE: Final = "_ticdc_before"

FROM_TIDB_SEQ: Final = (1 << 63) - (1 << 32)
"""The smallest `_ticdc_seq` of a change that was read from TiDB. Such a change is the newest one of its commit_ts."""

SYSTEM_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    (OP, pa.string()),
    (COMMIT_TS, pa.int64()),
    (COMMIT_TIME, pa.timestamp("us", tz="UTC")),
    (SEQ, pa.int64()),
    (TABLE_VERSION, pa.int64()),
)

VALID_FROM: Final = "_ticdc_valid_from"
VALID_TO: Final = "_ticdc_valid_to"
VALID_FROM_TIME: Final = "_ticdc_valid_from_time"
VALID_TO_TIME: Final = "_ticdc_valid_to_time"
IS_CURRENT: Final = "_ticdc_is_current"

VALIDITY_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    (VALID_FROM, pa.int64()),
    (VALID_TO, pa.int64()),
    (VALID_FROM_TIME, pa.timestamp("us", tz="UTC")),
    (VALID_TO_TIME, pa.timestamp("us", tz="UTC")),
    (IS_CURRENT, pa.bool_()),
)
"""The columns that a version of a row has before those of its changelog."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table: the source column's `uid`, the name in the lake table and the Arrow type."""

    uid: int
    name: str
    type: pa.DataType
    required: bool = False


COMMIT_TS_COLUMN: Final = LakeColumn(0, COMMIT_TS, pa.int64())
"""The column of a mirror that the source does not have."""


def mirror_columns(columns: tuple[Column, ...], key: tuple[str, ...]) -> tuple[LakeColumn, ...]:
    """The columns of a mirror for one schema version: all stored columns, with the key columns required."""
    return tuple(LakeColumn(c.uid, column_name(c.name), arrow_type(c.type), c.name in key) for c in columns)


def changelog_columns(source_table: SourceTable) -> tuple[LakeColumn, ...]:
    """The columns of a changelog: those of the newest version first, then the retired ones in order of retirement."""
    newest = source_table.versions[-1].table.stored_columns
    live = tuple(LakeColumn(c.uid, column_name(c.name), arrow_type(c.type)) for c in newest)
    taken = {fold(column.name) for column in live}
    retired = []
    for column, gone_ts in _retired(source_table, {c.uid for c in newest}):
        name = _free_name(column_name(column.name), gone_ts, taken)
        taken.add(fold(name))
        retired.append(LakeColumn(column.uid, name, arrow_type(column.type)))
    return (*live, *retired)


def _retired(source_table: SourceTable, live: set[int]) -> list[tuple[Column, int]]:
    gone: list[tuple[Column, int]] = []
    seen = set(live)
    for version, following in reversed(list(zip(source_table.versions, source_table.versions[1:], strict=False))):
        for column in version.table.stored_columns:
            if column.uid not in seen:
                seen.add(column.uid)
                gone.append((column, following.from_ts))
    return gone


def _free_name(name: str, gone_ts: int, taken: set[str]) -> str:
    return name if fold(name) not in taken else f"{name}__v{gone_ts}"
