"""Groups the texts of a batch by table, from the offsets at which the scanner found the table names, and builds row
changes from their scan results, for one table and one set of columns at a time.

The grammars of all protocols use the same slots for the parts of a row; parts that a protocol does not have are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from ticdc_assets.protocols.columnar.raw_rows import RawRows, ops_of
from ticdc_assets.protocols.formats.json.template import JsonTemplate
from ticdc_assets.protocols.formats.json.texts import JsonColumnNames, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.limits import COLUMNS_MAX
from ticdc_assets.protocols.formats.span_columns import columns_of
from ticdc_assets.protocols.formats.string_arrays import NOT_SENT, Bytes, Ints, Mask, Places
from ticdc_assets.schema.model import TableName

OP, HAS_OLD, COMMIT_TS, COMMIT_MS, SCHEMA_VERSION, TABLE_ID = range(6)
"""The number slots of a row: the ASCII code of I, U or D; 0 or 1; the others are -1 if the row has none."""
SCHEMA, TABLE = range(2)
"""The string slots of a row."""
NEW, OLD = range(2)
"""The image slots of a row."""

_COLUMN_SETS_MAX: Final = 16
"""The maximum number of column sets of one table in a batch; DDL and deletes with only the key give two or three."""
_CELLS_MAX: Final = 1 << 20
"""The maximum number of values per scan, at 16 bytes of offsets each; it bounds the memory for wide tables."""

_TABLES_MAX: Final = 128
_ROWS_MIN: Final = 16
"""Bulk decoding costs per table as much as this many single rows, so smaller tables are left in large batches."""

ColumnsOf = Callable[[Any], Iterable[str]]
"""(parsed text) to the column names of its row. LookupError, TypeError or AttributeError if it has no row."""


# -- tables -----------------------------------------------------------------------------------------------------------


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


# -- rows -------------------------------------------------------------------------------------------------------------


def alike(
    data: Bytes, starts: Ints, ends: Ints, form: JsonTemplate, columns_of_row: ColumnsOf
) -> Iterator[tuple[tuple[str, ...], ScannedTexts]]:
    """The rows of one table, grouped by their set of columns. Texts that do not match the template are left out. The
    first text determines the first set of columns, the first text with other columns the next one, and so on.

    Args:
        data: uint8, the bytes of all texts.
        starts, ends: int64, text n is `data[starts[n]:ends[n]]`.
    """
    rest = np.arange(len(starts))
    for _ in range(_COLUMN_SETS_MAX):
        if not len(rest):
            return
        columns = _names(data[starts[rest[0]] : ends[rest[0]]].tobytes(), columns_of_row)
        others = []
        for part in _parts(rest, len(columns)) if 0 < len(columns) <= COLUMNS_MAX else ():
            found, _ = scan_texts(data, starts[part], ends[part], form, JsonColumnNames.of(columns))
            is_other = (found.images[NEW, :, :, 0] == NOT_SENT).any(axis=1)
            if found.has_marks:
                is_other |= _are_of_another_kind(found)
            others += [part[found.others], part[found.rows[is_other]]]
            whole = found.take(np.flatnonzero(~is_other)) if is_other.any() else found
            if len(whole):
                yield columns, replace(whole, rows=part[whole.rows])
        after = np.sort(np.concatenate(others)) if others else rest
        rest = after[after != rest[0]]


def _names(text: bytes, columns_of_row: ColumnsOf) -> tuple[str, ...]:
    """The column names of the row in a text; empty if it has no row."""
    try:
        return tuple(columns_of_row(orjson.loads(text)))
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ()


def _parts(rows: Ints, columns: int) -> Iterator[Ints]:
    size = max(1, _CELLS_MAX // columns)
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))


def _kinds(found: ScannedTexts) -> tuple[Mask, Mask, Mask, Mask]:
    """Masks of the new values that are present and of those with marks; the same for old values."""
    has_old = (found.numbers[:, HAS_OLD] == 1)[:, None]
    new, old = found.images[NEW, :, :, 0] >= 0, has_old & (found.images[OLD, :, :, 0] >= 0)
    return new, new & (found.marks[NEW, :, :, 0] >= 0), old, old & (found.marks[OLD, :, :, 0] >= 0)


def _are_of_another_kind(found: ScannedTexts) -> Mask:
    """The rows in which a column is a string but is not one in the first row with a value, or vice versa."""
    new, new_marked, old, old_marked = _kinds(found)
    both, marked = np.concatenate((new, old)), np.concatenate((new_marked, old_marked))
    if not len(both):
        return np.zeros(0, np.bool_)
    first = marked[both.argmax(axis=0), np.arange(both.shape[1])]
    differs = (both & (marked != first)).any(axis=1)
    return np.asarray(differs[: len(found)] | differs[len(found) :])


def raw_rows(data: Bytes, found: ScannedTexts, columns: tuple[str, ...], line: Ints) -> RawRows:
    """The row changes of scanned texts, with values as text. Values that are missing in an old row come from the new
    row.

    Args:
        data: uint8, the bytes of all texts.
        columns: the names of the columns, in the order of the scan.
        line: int64, for each text the index of its message or record.
    """
    every, has_before = np.ones(len(found), np.bool_), with_old(found)
    new, old = found.images[NEW], found.images[OLD]
    return RawRows(
        op=ops_of(found.numbers[:, OP].astype(np.uint8)),
        commit_ts=number_of(found, COMMIT_TS),
        commit_ms=number_of(found, COMMIT_MS),
        line=pa.array(line),
        columns=columns,
        wire=columns_of(data, new, new, every),
        before=columns_of(data, old, new, has_before),
        has_before=pa.array(has_before),
        sent=_sent(new),
    )


def _sent(image: Places) -> tuple[pa.Array, ...] | None:
    sent = image[:, :, 0] != NOT_SENT
    return None if sent.all() else tuple(pa.array(column) for column in np.ascontiguousarray(sent.T))


def with_old(found: ScannedTexts) -> Mask:
    """Which rows have old values; old values of rows other than updates are ignored."""
    return np.asarray((found.numbers[:, HAS_OLD] == 1) & (found.numbers[:, OP] == ord("U")))


def number_of(found: ScannedTexts, slot: int) -> pa.Array:
    """The number of each row in this slot; null if the row has none."""
    numbers = found.numbers[:, slot]
    return pa.array(numbers, mask=numbers < 0)


def with_structs(raw: RawRows, data: Bytes, found: ScannedTexts, kind: pa.StructType) -> RawRows:
    """The rows with structs of type `kind` in the columns whose values have marks.

    The last field of the struct is the text; the first, if there are two, is the mark.
    """
    if not found.has_marks or not (marked := _marked(found)).any():
        return raw
    every, has_before = np.ones(len(found), np.bool_), with_old(found)
    new, old = (np.ascontiguousarray(found.marks[image][:, marked]) for image in (NEW, OLD))
    has_marks = len(kind) > 1
    now = columns_of(data, new, new, every) if has_marks else ()
    then = columns_of(data, old, new, has_before) if has_marks else ()
    before = None if raw.before is None else _structs(raw.before, then, marked, kind)
    return replace(raw, wire=_structs(raw.wire, now, marked, kind), before=before)


def _marked(found: ScannedTexts) -> Mask:
    """The columns whose values have marks."""
    _, new, _, old = _kinds(found)
    return np.asarray(new.any(axis=0) | old.any(axis=0))


def _structs(
    texts: tuple[pa.Array, ...], marks: tuple[pa.Array, ...], marked: Mask, kind: pa.StructType
) -> tuple[pa.Array, ...]:
    changed = list(texts)
    for number, column in enumerate(np.flatnonzero(marked).tolist()):
        parts = [*marks[number : number + 1], texts[column]]
        changed[column] = pa.StructArray.from_arrays(parts, fields=list(kind), mask=texts[column].is_null())
    return tuple(changed)
