"""The columns that rows and streams send are compared with the known ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.history.schema_compare import (
    as_made,
    changed_column,
    same_columns,
    same_key,
    unknowns,
    widened,
)
from ticdc_assets.schema.model import Column, Index, TableSchema


def table(*columns: str, key: tuple[str, ...] = ()) -> TableSchema:
    """A table of columns such as `a INT`."""
    made = (
        Column(*(part(text) for part, text in zip((str, parse_type), c.split(" ", 1), strict=True))) for c in columns
    )
    return TableSchema("s", "t", tuple(made), (Index("PRIMARY", key, unique=True, primary=True),) if key else ())


CHANGES = [
    ("INT", "INT(5)", False),
    ("INT", "INT UNSIGNED", True),
    ("INT", "BIGINT", True),
    ("VARCHAR(5)", "TEXT", False),
    ("VARCHAR(5)", "BLOB", True),
    ("VARCHAR(5) CHARSET binary", "BLOB", False),
    ("BINARY(5)", "LONGBLOB", False),
    ("CHAR(5)", "JSON", True),
    ("FLOAT", "FLOAT UNSIGNED", False),
    ("DECIMAL(5,2)", "DECIMAL(5,2) UNSIGNED", True),
    ("DECIMAL(5,2)", "DECIMAL(7,2)", True),
    ("DECIMAL(5,2)", "DECIMAL(65,30)", False),
    ("DECIMAL(65,30)", "DECIMAL(5,2)", False),
    ("DECIMAL(39,2)", "DECIMAL(40,3)", False),
    ("ENUM('a')", "ENUM('a')", False),
    ("ENUM('a')", "ENUM('b')", True),
    ("ENUM", "ENUM('b')", False),
    ("ENUM('a')", "ENUM", False),
    ("ENUM('a')", "SET('a')", True),
    ("DATETIME", "DATETIME(6)", False),
    ("DATETIME", "TIMESTAMP", True),
]


@pytest.mark.parametrize(("known", "sent", "changed"), CHANGES)
def test_a_type_is_another_one_where_values_are_read_in_another_way(known: str, sent: str, changed: bool):
    assert changed_column(table("id INT", f"a {known}"), table("id INT", f"A {sent}")) == ("A" if changed else None)
    assert changed_column(table("id INT", f"a {known}"), table("id INT")) is None
    assert changed_column(table("id INT"), table(f"a {sent}")) is None


def columns(of: TableSchema) -> list[str]:
    return [f"{c.name} {c.type.kind}" for c in of.columns]


def test_further_columns_of_rows_are_nullable_and_take_the_order_of_a_whole_row():
    known = table("a INT", "b INT")
    more = TableSchema("s", "t", (replace(table("c INT").columns[0], nullable=False), *table("B INT", "A INT").columns))

    assert columns(widened(known, more)) == ["c INT", "b INT", "a INT"]
    assert widened(known, more).columns[0].nullable
    assert columns(widened(known, table("c INT", "a INT"))) == ["a INT", "b INT", "c INT"]
    assert widened(known, table("a INT")) == known


def test_a_type_is_followed_where_every_old_value_stays():
    known = table("a INT", "b INT")

    assert columns(widened(known, table("a BIGINT", "b INT"))) == ["a BIGINT", "b INT"]
    with pytest.raises(SchemaError, match="column 'a' of type INT"):
        widened(known, table("a TINYINT", "b INT"))


@pytest.mark.parametrize(
    ("known", "sent"),
    [("FLOAT", "DOUBLE"), ("FLOAT UNSIGNED", "DOUBLE UNSIGNED"), ("FLOAT UNSIGNED", "DOUBLE")],
)
def test_a_double_follows_a_float(known: str, sent: str):
    assert columns(widened(table(f"a {known}"), table(f"a {sent}"))) == ["a DOUBLE"]


@pytest.mark.parametrize(
    ("known", "sent"),
    [("DOUBLE", "FLOAT"), ("FLOAT", "DOUBLE(7,2)"), ("FLOAT", "DOUBLE UNSIGNED"), ("FLOAT", "DECIMAL(10,2)")],
)
def test_a_type_that_rounds_or_refuses_values_of_a_float_does_not_follow_it(known: str, sent: str):
    with pytest.raises(SchemaError, match="column 'a' of type"):
        widened(table(f"a {known}"), table(f"a {sent}"))


def test_rows_of_another_key_are_of_another_table():
    known = table("a INT", "b INT", key=("a",))

    assert widened(known, table("a INT", "b INT", key=("A",))).key == ("a",)
    assert widened(known, table("a INT", "b INT")) == known
    assert widened(table("a INT", "b INT"), known).key == ()
    with pytest.raises(SchemaError, match=r"the key \(a\)"):
        widened(known, table("a INT", "b INT", key=("b",)))


SAME = [
    (("a INT", "b INT"), ("A INT", "B INT"), True, True),
    (("a INT", "b INT"), ("b INT", "a INT"), False, True),
    (("a INT", "b INT"), ("a INT",), False, False),
    (("a INT",), ("a INT", "b INT"), False, False),
    (("a INT",), ("a BIGINT",), False, False),
    (("a INT",), ("a INT UNSIGNED",), False, False),
    (("a VARCHAR(5)",), ("a VARCHAR(9)",), True, True),
    (("a TINYTEXT",), ("a LONGTEXT",), True, True),
    ((), (), True, True),
]


@pytest.mark.parametrize(("folded", "sent", "in_order", "in_any"), SAME)
def test_columns_are_the_same_by_name_and_kind(
    folded: tuple[str, ...], sent: tuple[str, ...], in_order: bool, in_any: bool
):
    assert same_columns(table(*folded), table(*sent), ordered=True) is in_order
    assert same_columns(table(*folded), table(*sent), ordered=False) is in_any


KEYS = [
    (("a INT", ("a",)), ("A BIGINT", ("A",)), True),
    (("a BIGINT", ("a",)), ("a INT", ("a",)), False),
    (("a INT", ("a",)), ("a VARCHAR(5)", ("a",)), False),
    (("a INT", ("a",)), ("a INT", ()), False),
    (("a INT", ()), ("a INT", ()), True),
]


@pytest.mark.parametrize(("first", "second", "same"), KEYS)
def test_rows_meet_by_keys_of_the_same_columns_whose_type_the_lake_holds(
    first: tuple[str, tuple[str, ...]], second: tuple[str, tuple[str, ...]], same: bool
):
    assert same_key(table(first[0], key=first[1]), table(second[0], key=second[1])) is same


def test_a_table_made_like_another_shares_nothing_of_its_history():
    lived = replace(table("a INT"), columns=(Column("a", parse_type("INT"), uid=5, column_id=7),), named_key=("a",))

    assert as_made(lived) == table("a INT")


def test_what_a_stream_leaves_open_is_named():
    def words(of: TableSchema, key_is_configured: bool = False) -> list[str]:
        return [text.split(":")[0] for text in unknowns(of, key_is_configured)]

    assert words(table("a INT", key=("a",))) == []
    assert words(table("a INT")) == ["no key is known"]
    assert words(table("a INT"), key_is_configured=True) == []
    labelled = table("a ENUM", "b SET", "c ENUM('x')", "d INT", key=("d",))
    assert words(labelled) == ["labels of a, b are not known and may be numbers"]
