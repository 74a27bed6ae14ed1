"""What a stream tells of a table: held against what is known of it otherwise, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets.schema.mysql_types import same_kind
from ticdc_assets.schema.promotion import promotes


def same_columns(folded: TableSchema, told: TableSchema, ordered: bool) -> bool:
    """Same names, in the same order where the told one is the table's, and no type of another kind."""
    mine, theirs = ([c.name.lower() for c in table.columns] for table in (folded, told))
    if mine != theirs if ordered else sorted(mine) != sorted(theirs):
        return False
    return all(_same_kind(c, told.column(c.name)) for c in folded.columns)


def _same_kind(folded: Column, told: Column | None) -> bool:
    return told is not None and same_kind(folded.type, told.type)


def same_key(mine: TableSchema, told: TableSchema) -> bool:
    """Whether rows of both can meet by their keys: the same columns, of types that the lake holds in one column."""
    columns = {name.lower(): mine.column(name) for name in mine.key}
    theirs = {name.lower(): told.column(name) for name in told.key}
    if columns.keys() != theirs.keys():
        return False
    pairs = ((columns[name], theirs[name]) for name in columns)
    return all(one and other and promotes(one.type, other.type) for one, other in pairs)


def as_made(table: TableSchema) -> TableSchema:
    """A table without what came of its history, which one that is made like it does not share."""
    columns = tuple(replace(column, uid=0, column_id=None) for column in table.columns)
    return replace(table, columns=columns, named_key=())


def unknowns(table: TableSchema, key_is_told: bool) -> Iterator[str]:
    """What the stream does not tell of a table that is older than it, and where the user can."""
    if not table.key and not key_is_told:
        yield "no key is known: name its columns in `keys`, or give its CREATE TABLE in `schema_files`, to get a mirror"
    numbered = [c.name for c in table.columns if c.type.kind in (Kind.ENUM, Kind.SET) and c.type.elements is None]
    if numbered:
        listed = ", ".join(numbered)
        yield f"labels of {listed} are not known and may be numbers: give its CREATE TABLE in `schema_files`"
