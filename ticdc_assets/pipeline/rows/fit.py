"""Whether rows have the columns of their version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from ticdc_assets.names.folding import fold

if TYPE_CHECKING:
    from ticdc_assets.protocols.columnar.raw_rows import RawRows
    from ticdc_assets.schema.model import Column, TableSchema

LeavesOut = Callable[[str], bool]
"""Whether the changefeed leaves a column of the table out of rows."""


def own_name(column: Column) -> str:
    """The name of a column in rows that spell it as the table does."""
    return column.name


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """Which columns the rows of a version have. Names are compared without regard to case.

    spelling: how rows name a column.
    takes_virtual: whether rows may have virtual columns too.
    """

    table: TableSchema
    leaves_out: LeavesOut
    spelling: Callable[[Column], str] = own_name
    takes_virtual: bool = False

    def fit(self, sent: Iterable[str]) -> bool:
        """Whether whole rows have the columns `sent`."""
        sent = tuple(sent)
        return self.unknown(sent) is None and self.missing(sent) is None

    def unknown(self, sent: Iterable[str]) -> str | None:
        """One of the columns `sent` that rows of the version do not have."""
        columns = self.table.columns if self.takes_virtual else self.table.stored_columns
        known = {fold(self.spelling(column)) for column in columns}
        return next((name for name in sent if fold(name) not in known), None)

    def missing(self, sent: Iterable[str]) -> str | None:
        """A column that is not among `sent`, though the changefeed does not leave it out."""
        there = {fold(name) for name in sent}
        missing = (c.name for c in self.table.stored_columns if fold(self.spelling(c)) not in there)
        return next((name for name in missing if not self.leaves_out(name)), None)

    def lacking(self, sent: Iterable[str], is_delete: bool, key: Iterable[str] = ()) -> str | None:
        """A column that rows with the columns `sent` lack. A deleted row may have only columns of its key, and rows of
        a table whose columns the stream lists without marking the virtual ones may lack any."""
        keys, there = (*self.table.unique_columns, *key), {fold(name) for name in sent}
        if self.table.virtual_unknown or (is_delete and there <= {fold(name) for name in keys}):
            return None
        return self.missing(there)

    def lacking_in(self, rows: RawRows) -> str | None:
        """A column that one of the rows lacks."""
        found = (self.lacking(sent, is_delete) for sent, is_delete in _forms(rows))
        return next((name for name in found if name is not None), None)


def _forms(rows: RawRows) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The sets of columns that rows were sent with, those of deleted rows apart."""
    is_delete = pc.equal(rows.op, "D").to_numpy(zero_copy_only=False)
    if rows.sent is None:
        yield from ((rows.columns, bool(found)) for found in np.unique(is_delete))
        return
    sent = np.column_stack([array.to_numpy(zero_copy_only=False) for array in rows.sent])
    _, firsts = np.unique(np.packbits(np.column_stack((is_delete, sent)), axis=1), axis=0, return_index=True)
    for row in firsts:
        yield tuple(name for name, there in zip(rows.columns, sent[row], strict=True) if there), bool(is_delete[row])
