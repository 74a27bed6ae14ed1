"""Partition expressions are read as MySQL reads them: by precedence, from the left."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.partitions.expressions import ColumnValue, Expression, Number, columns_in, read_expression
from ticdc_assets_tests.schema.evolution.schema_states import table

TABLE = table("a INT, b YEAR, d DATE, e DATETIME(6), t TIMESTAMP, f TIMESTAMP(1), v INT AS (a + 1) VIRTUAL").table


def shown(expression: Expression) -> str:
    match expression:
        case Number(value=value):
            return str(value)
        case ColumnValue(column=column):
            return column.name
    return f"{expression.function}({', '.join(map(shown, expression.arguments))})"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a", "a"),
        ("a + 2 - b", "-(+(a, 2), b)"),
        ("a - 2 * b", "-(a, *(2, b))"),
        ("(a - 2) * b", "*(-(a, 2), b)"),
        ("a DIV 2 MOD 3", "%(DIV(a, 2), 3)"),
        ("MOD(a + 1, 3) % 2", "%(%(+(a, 1), 3), 2)"),
        ("-a + 1", "+(NEGATIVE(a), 1)"),
        ("ABS(a - 1)", "ABS(-(a, 1))"),
        ("FLOOR(a + 1)", "+(a, 1)"),
        ("CEIL(a)", "a"),
        ("CEILING(a)", "a"),
        ("DAY(d)", "DAYOFMONTH(d)"),
        ("SECOND(e)", "SECOND(e)"),
        ("UNIX_TIMESTAMP(t)", "UNIX_TIMESTAMP(t)"),
        ("DATEDIFF(d, e)", "DATEDIFF(d, e)"),
        ("12345678901234567890", "12345678901234567890"),
    ],
)
def test_an_expression_is_read_as_a_tree(text: str, read: str):
    assert shown(read_expression(text, TABLE)) == read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123456789012345678901", "a whole number"),
        ("1.5", "a whole number"),
        ("UNIX_TIMESTAMP(f)", "a TIMESTAMP of whole seconds"),
        ("UNIX_TIMESTAMP(e)", "a column of a type that the expression can use"),
        ("HOUR(d)", "a column of a type that the expression can use"),
        ("YEAR(a)", "a column of a type that the expression can use"),
        ("d + 1", "a column of a type that the expression can use"),
        ("v + 1", "a column of a type that the expression can use"),
        ("YEAR(1)", "a column"),
        ("RAND(a)", "a function that can be computed from a row"),
        ("a b", "the end of the partition expression"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_what_was_expected(text: str, expected: str):
    with pytest.raises(SchemaError) as refused:
        read_expression(text, TABLE)

    assert refused.value.expected == expected


@pytest.mark.parametrize(("opened", "closed"), [("(", ")"), ("- ", ""), ("ABS(", ")")])
def test_an_expression_has_at_most_32_levels(opened: str, closed: str):
    def nested(levels: int) -> Expression:
        return read_expression(f"{opened * levels}a{closed * levels}", TABLE)

    assert [column.name for column in columns_in(nested(31))] == ["a"]
    with pytest.raises(SchemaError, match="at most 32 levels"):
        nested(32)


@pytest.mark.parametrize("part", ["(a)", "- a"])
def test_parts_beside_each_other_are_on_one_level(part: str):
    beside = " + ".join([part] * 40)

    assert len(list(columns_in(read_expression(beside, TABLE)))) == 40
    with pytest.raises(SchemaError, match="at most 32 levels"):
        read_expression(f"{beside} + {'(' * 32}a{')' * 32}", TABLE)


def test_an_expression_reads_all_its_columns():
    assert [column.name for column in columns_in(read_expression("MOD(a, b) + -YEAR(d) - 1", TABLE))] == ["a", "b", "d"]
