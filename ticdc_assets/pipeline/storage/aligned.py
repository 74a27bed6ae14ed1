"""Gives rows the columns of their version, and refuses rows of another one."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.tasks import FileDecoding, TaskFile
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.schema.history.source_table import Version


def aligned(decoding: FileDecoding, file: TaskFile, version: Version, rows: RawRows) -> RawRows:
    """The rows with the column names of the version. CSV fields are positional: TiCDC writes rows of another
    version into a folder only where both have the same columns, possibly in another order.

    Raises DecodeError where they have other columns, or lack one."""
    names = {column.name.lower(): column.name for column in version.table.stored_columns}
    if decoding.is_csv:
        there = {name.lower() for name in rows.columns}
        if not there <= names.keys() or not all(_is_left_out(decoding, file, names[n]) for n in names.keys() - there):
            raise _other_columns(file, "the columns of another version than its folder's")
        return replace(rows, columns=tuple(name for lowered, name in names.items() if lowered in there))
    for name, *texts in zip(rows.columns, rows.wire, *([rows.before] if rows.before else []), strict=True):
        if name.lower() not in names and any(text.null_count < len(text) for text in texts):
            raise _other_columns(file, f"a column {name!r} that its version does not have")
    _refuse_lacking(decoding, file, version, rows)
    return replace(rows, columns=tuple(names.get(name.lower(), name) for name in rows.columns))


def _is_left_out(decoding: FileDecoding, file: TaskFile, column: str) -> bool:
    return decoding.selectors.leaves_out(file.schema, file.table, column)


def _refuse_lacking(decoding: FileDecoding, file: TaskFile, version: Version, rows: RawRows) -> None:
    """Raise DecodeError where whole rows lack a column that the changefeed does not leave out. A deleted row may
    have only its key."""
    table = version.table
    if rows.sent is None or table.virtual_unknown:
        return
    sent = {name.lower(): array for name, array in zip(rows.columns, rows.sent, strict=True)}
    keys = {name.lower() for name in table.unique_columns}
    arrays = [sent[c.name.lower()] for c in table.stored_columns if c.name.lower() in sent.keys() - keys]
    is_whole = pc.not_equal(rows.op, "D")
    for array in arrays:
        is_whole = pc.or_(is_whole, array)
    for column in table.stored_columns:
        there = sent.get(column.name.lower())
        lacks = is_whole if there is None else pc.and_not(is_whole, there)
        if pc.any(lacks).as_py() and not _is_left_out(decoding, file, column.name):
            raise _lacking(file, column.name)


def _lacking(file: TaskFile, column: str) -> DecodeError:
    return DecodeError(
        file.path,
        f"rows with the columns that {file.schema}.{file.table} had at their commit_ts",
        f"rows without {column!r}",
        "If the changefeed leaves it out, give its `column-selectors` in the configuration here; else check whether "
        "a statement was lost.",
    )


def _other_columns(file: TaskFile, found: str) -> DecodeError:
    return DecodeError(
        file.path,
        f"rows with the columns that {file.schema}.{file.table} had at their commit_ts",
        found,
        "Check whether schema files were removed from the bucket, or files moved between folders.",
    )
