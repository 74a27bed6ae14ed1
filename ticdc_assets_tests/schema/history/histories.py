"""Statements and tables for tests of histories."""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Index, Kind, MySqlType, TableSchema


def event(ts: int, table: str, query: str, schema: str = "shop", after: TableSchema | None = None) -> DdlEvent:
    return DdlEvent(ts, schema, table, query, after=after, where=f"at {ts}")


def table(name: str, *columns: str, key: tuple[str, ...] = ()) -> TableSchema:
    made = tuple(Column(c, MySqlType(Kind.INT), nullable=c not in key) for c in columns)
    return TableSchema("shop", name, made, (Index("PRIMARY", key, unique=True, primary=True),) if key else ())


GUESSED = replace(table("t", "id", key=("id",)), inferred=True)
