"""Groups the texts of a batch by table, from the offsets at which the scanner found the table names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.span_columns import columns_of
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Places

TableName = tuple[str, str]

_TABLES_MAX: Final = 128
_ROWS_MIN: Final = 16
"""Bulk decoding costs per table as much as this many single rows, so smaller tables are left in large batches."""


def table_names(data: Bytes, places: Places) -> tuple[tuple[TableName, ...], Ints]:
    """The distinct table names, and the index of each text's name.

    `places[n]` has the offsets of the database name and the table name of text n.
    """
    every = np.ones(len(places), np.bool_)
    schema, table = (column.dictionary_encode() for column in columns_of(data, places, places, every))
    count = max(1, len(table.dictionary))
    both = schema.indices.to_numpy().astype(np.int64) * count + table.indices.to_numpy()
    codes, name = np.unique(both, return_inverse=True)
    schemas, tables = schema.dictionary.to_pylist(), table.dictionary.to_pylist()
    return tuple((schemas[code // count], tables[code % count]) for code in codes.tolist()), name.reshape(-1)


def by_table(data: Bytes, places: Places, version: Ints | None = None) -> Iterator[tuple[TableName, Ints]]:
    """The indices of the texts of each table, or of each table and version.

    If a batch has very many tables, those with few texts are left out.
    """
    if not len(places):
        return
    names, group = table_names(data, places)
    count = 1
    if version is not None:
        versions, number = np.unique(version, return_inverse=True)
        count = len(versions)
        group = group * count + number.reshape(-1)
    order = np.argsort(group, kind="stable")
    groups, begins = np.unique(group[order], return_index=True)
    for one, chosen in zip(groups.tolist(), np.split(order, begins[1:]), strict=True):
        if len(groups) <= _TABLES_MAX or len(chosen) >= _ROWS_MIN:
            yield names[one // count], chosen
