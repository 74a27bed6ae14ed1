"""Simple protocol: types, defaults and keys of a table schema, and which schemas are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.simple.table_schema import table_schema
from ticdc_assets.schema.model import Default, Kind, MySqlType, TableSchema
from ticdc_assets_tests.protocols.simple.simple_messages import COLUMN_ID, TABLE, of


def column(kind: str, **more: Any) -> dict[str, Any]:
    given = {"mysqlType": kind, "charset": "binary", "collate": "binary", "length": 11, **more}
    default = given.pop("default", None)
    return {"name": "c", "dataType": given, "nullable": True, "default": default}


def schema_of(*columns: dict[str, Any], indexes: Any = ()) -> TableSchema:
    return table_schema({**TABLE, "columns": list(columns), "indexes": list(indexes)}, "here")


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": {}},
        {"columns": [5]},
        {"columns": [{"name": "c"}]},
        {"columns": [{**column("geometry")}]},
        {"columns": [{**column("int"), "nullable": "no"}]},
        {"columns": [{**column("int", length="11")}]},
        {"columns": [column("enum", elements="a")]},
        {"columns": [column("bit", default="x")]},
        {"indexes": [5]},
        {"indexes": [{"name": "i", "columns": [5]}]},
        {"table": 5},
        {"version": "1"},
    ],
)
def test_a_schema_that_is_not_as_the_protocol_has_it_is_refused(damage):
    with pytest.raises(DecodeError):
        of({"version": 1, "type": "BOOTSTRAP", "tableSchema": {**TABLE, **damage}})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (column("int"), MySqlType(Kind.INT)),
        (column("int unsigned", length=10, unsigned=True), MySqlType(Kind.INT, unsigned=True)),
        (column("int", length=6, unsigned=True, zerofill=True), MySqlType(Kind.INT, 6, unsigned=True)),
        (column("tinyint", length=1), MySqlType(Kind.TINYINT, 1)),
        (column("bool", length=1), MySqlType(Kind.TINYINT, 1)),
        (column("year", length=4, unsigned=True, zerofill=True), MySqlType(Kind.YEAR)),
        (column("bit", length=10, unsigned=True), MySqlType(Kind.BIT, 10)),
        (column("float", length=12, decimal=-1), MySqlType(Kind.FLOAT)),
        (column("decimal", length=12, decimal=4), MySqlType(Kind.DECIMAL, 12, 4)),
        (column("decimal", length=10), MySqlType(Kind.DECIMAL, 10, 0)),
        (column("decimal", length=10, decimal=0), MySqlType(Kind.DECIMAL, 10, 0)),
        (column("datetime", length=23, decimal=3), MySqlType(Kind.DATETIME, 3)),
        (column("datetime", length=23), MySqlType(Kind.DATETIME, 3)),
        (column("timestamp", length=19, decimal=None), MySqlType(Kind.TIMESTAMP)),
        (column("time", length=17), MySqlType(Kind.TIME, 6)),
        (column("time", length=10), MySqlType(Kind.TIME)),
        (column("varchar", length=9, charset="gbk", decimal=-1), MySqlType(Kind.VARCHAR, 9, charset="gbk")),
        (column("varbinary", length=9), MySqlType(Kind.VARBINARY, 9)),
        (column("longblob", length=4294967295), MySqlType(Kind.LONGBLOB)),
        (column("json", length=4294967295), MySqlType(Kind.JSON)),
        (column("vector", length=3), MySqlType(Kind.VECTOR, 3)),
        (column("vector<float32>", length=-1), MySqlType(Kind.VECTOR)),
        (
            column("enum", charset="utf8mb4", elements=["a,b", "o'k"], length=3),
            MySqlType(Kind.ENUM, elements=("a,b", "o'k"), charset="utf8mb4"),
        ),
    ],
)
def test_a_type_is_what_its_declaration_says(given, expected):
    assert expected == schema_of(given).columns[0].type


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (column("int", default="15"), Default("15")),
        (column("bit", default=5), Default("5")),
        (column("bit", default=b"\xff\x01"), Default("65281")),
        (column("varbinary", default="bin"), Default(b"bin")),
        (column("varbinary", default=b"\xff"), Default(b"\xff")),
        (column("varchar", default=b"\xc3\xa9"), Default("é")),
        (column("datetime", default="CURRENT_TIMESTAMP(3)"), Default(expression="CURRENT_TIMESTAMP(3)")),
        (column("varchar", default="CURRENT_TIMESTAMP"), Default("CURRENT_TIMESTAMP")),
        (column("int"), None),
    ],
)
def test_a_default_is_a_literal_or_an_expression(given, expected):
    assert expected == schema_of(given).columns[0].default


def index(name: str, *columns: str, primary: bool = False) -> dict[str, Any]:
    return {"name": name, "unique": True, "primary": primary, "nullable": False, "columns": list(columns)}


def test_the_made_up_primary_index_of_a_unique_key_leaves_the_key_as_it_is():
    a, b, c = ({**column("int"), "name": name, "nullable": False} for name in "abc")
    unique = index("uk", "a")
    made_up = schema_of(a, b, indexes=[unique, index("primary", "a", primary=True)])
    clustered = schema_of(a, b, indexes=[index("uk", "b"), index("primary", "a", primary=True)])
    chosen = schema_of(a, b, c, indexes=[index("u1", "a"), index("u2", "b"), index("primary", "b", primary=True)])
    named = schema_of(a, b, indexes=[index("PRIMARY", "a", "b", primary=True)])

    assert (made_up.key, [i.name for i in made_up.indexes]) == (("a",), ["uk"])
    assert (clustered.key, clustered.indexes[-1].name) == (("a",), "PRIMARY")
    assert (chosen.key, len(chosen.indexes)) == (("b",), 3)
    assert (named.key, named.indexes[0].name) == (("a", "b"), "PRIMARY")


def test_hidden_columns_of_indexes_over_expressions_are_named_by_their_index_alone():
    hidden = {**column("int"), "name": "_V$_ix_0"}

    schema = schema_of(COLUMN_ID, hidden, indexes=[index("ix", "_V$_ix_0")])

    assert [c.name for c in schema.columns] == ["id"]
    assert [(i.name, i.columns) for i in schema.indexes] == [("ix", ("_V$_ix_0",))]


VIEW = {**TABLE, "columns": [{**column("unspecified"), "name": name} for name in ("id", "v")], "indexes": None}


@pytest.mark.parametrize(
    "schemas",
    [{"tableSchema": VIEW}, {"preTableSchema": VIEW}, {"tableSchema": VIEW, "preTableSchema": VIEW}],
    ids=list,
)
@pytest.mark.parametrize("query", ["CREATE OR REPLACE VIEW `t` AS SELECT 1", "DROP VIEW `shop`.`t`"])
def test_a_statement_on_a_view_has_no_columns(query: str, schemas: dict[str, Any]):
    event = of({"version": 1, "type": "QUERY", "sql": query, "commitTs": 7, "buildTs": 1, **schemas})

    assert (event.schema, event.table, event.query, event.commit_ts) == ("shop", "t", query, 7)
    assert (event.after, event.before) == (None, None)


def test_a_table_with_one_column_of_an_unknown_type_is_refused():
    with pytest.raises(DecodeError):
        schema_of(COLUMN_ID, column("unspecified"))
