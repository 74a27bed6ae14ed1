"""Statements as `schema.ddl.parser` reads them, and the columns that they define."""

from __future__ import annotations

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.create import table_columns
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.model import UNNAMED, Column, Default, Kind, MySqlType

INT = MySqlType(Kind.INT)


def one(query: str, schema: str = "shop") -> ddl.Statement:
    (statement,) = parse(query, schema)
    return statement


def columns(body: str) -> dict[str, Column]:
    statement = one(f"CREATE TABLE t ({body})")
    assert isinstance(statement, ddl.CreateTable)
    return {column.name: column for column in table_columns(statement, UNNAMED)}


def column(definition: str) -> Column:
    (only,) = columns(f"`c` {definition}").values()
    return only


def default(definition: str) -> Default | None:
    return column(definition).default
