"""Compares the schema that a stream sends with the folded one, and finds what neither has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl.mysql_types import same_kind
from ticdc_assets.schema.evolution.promotion import promotes
from ticdc_assets.schema.model import Column, Kind, TableSchema


def same_columns(folded: TableSchema, sent: TableSchema, ordered: bool) -> bool:
    """Whether both have the same column names with types of the same kinds, and in the same order if `ordered`."""
    folded_names, sent_names = ([fold(c.name) for c in table.columns] for table in (folded, sent))
    if folded_names != sent_names if ordered else sorted(folded_names) != sorted(sent_names):
        return False
    return all(_same_kind(c, sent.column(c.name)) for c in folded.columns)


def _same_kind(folded: Column, sent: Column | None) -> bool:
    return sent is not None and same_kind(folded.type, sent.type)


def same_key(folded: TableSchema, sent: TableSchema) -> bool:
    """Whether rows of both match by key: the same key columns, with types that one Iceberg column can hold."""
    columns = {fold(name): folded.column(name) for name in folded.key}
    sent_columns = {fold(name): sent.column(name) for name in sent.key}
    if columns.keys() != sent_columns.keys():
        return False
    pairs = ((columns[name], sent_columns[name]) for name in columns)
    return all(one and other and promotes(one.type, other.type) for one, other in pairs)


def as_made(table: TableSchema) -> TableSchema:
    """A table without its history (uids, column ids, named key), to compare copies by CREATE TABLE LIKE."""
    columns = tuple(replace(column, uid=0, column_id=None) for column in table.columns)
    return replace(table, columns=columns, named_key=())


def unknowns(table: TableSchema, key_is_configured: bool) -> Iterator[str]:
    """What the stream does not send of a table older than it, and where the user can give it."""
    if not table.key and not key_is_configured:
        yield "no key is known: name its columns in `keys`, or give its CREATE TABLE in `schema_files`, to get a mirror"
    numbered = [c.name for c in table.columns if c.type.kind in (Kind.ENUM, Kind.SET) and c.type.elements is None]
    if numbered:
        listed = ", ".join(numbered)
        yield f"labels of {listed} are not known and may be numbers: give its CREATE TABLE in `schema_files`"
