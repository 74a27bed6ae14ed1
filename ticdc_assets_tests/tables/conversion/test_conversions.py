"""A MODIFY is repeated on existing rows exactly, or refused: by the pair of types, or by the value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.evolution.promotion import promotes
from ticdc_assets.schema.evolution.schema_state import ConvertColumn
from ticdc_assets.tables.conversion.convert import converted_value, is_refused
from ticdc_assets.tables.conversion.literals import spark_type
from ticdc_assets_tests.schema.evolution.schema_states import altered, table
from ticdc_assets_tests.tables.conversion.conversion_cases import CASES, REFUSED, Case
from ticdc_assets_tests.tables.expressions import frame_of

ONE_OF_EACH = {
    "integer": "INT",
    "bit": "BIT(8)",
    "year": "YEAR",
    "decimal": "DECIMAL(10,2)",
    "wide": "DECIMAL(50,2)",
    "double": "DOUBLE",
    "varchar": "VARCHAR(50)",
    "binary": "BINARY(8)",
    "date": "DATE",
    "datetime": "DATETIME(2)",
    "timestamp": "TIMESTAMP",
    "time": "TIME(2)",
    "enum": "ENUM('a','b')",
    "set": "SET('a','b')",
    "json": "JSON",
    "vector": "VECTOR(3)",
}
KNOWN = {
    "integer": "integer bit year decimal wide double varchar binary enum set json date datetime",
    "bit": "integer bit decimal wide double",
    "year": "integer year decimal wide double varchar",
    "decimal": "integer decimal wide double varchar binary",
    "wide": "integer decimal wide double varchar binary",
    "double": "integer decimal wide double varchar",
    "varchar": "integer decimal double varchar binary date datetime enum set json",
    "binary": "varchar binary",
    "date": "integer date datetime varchar",
    "datetime": "integer date datetime time varchar",
    "timestamp": "timestamp",
    "time": "integer time varchar",
    "enum": "integer varchar binary enum set",
    "set": "integer varchar binary enum set",
    "json": "json varchar",
    "vector": "vector",
}
"""What each becomes; every other pair is refused whole."""


def converted(old: str, new: str) -> str | None:
    return converted_value("c", parse_type(old), parse_type(new))


@pytest.mark.parametrize("old", ONE_OF_EACH)
def test_every_pair_of_types_is_known_or_refused_as_listed(old: str):
    known = {new for new, of in ONE_OF_EACH.items() if converted(ONE_OF_EACH[old], of) is not None}

    assert known == set(KNOWN[old].split())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DOUBLE", "DOUBLE(7,2)"),
        ("FLOAT", "FLOAT(5,1)"),
        ("DATETIME", "TIMESTAMP"),
        ("VARCHAR(9)", "TIMESTAMP"),
        ("VARCHAR(9)", "TIME"),
        ("VARCHAR(9) CHARACTER SET gbk", "VARBINARY(20)"),
        ("BLOB", "TEXT CHARACTER SET gbk"),
        ("ENUM", "ENUM('a')"),
        ("SET('','a')", "INT"),
        ("TIMESTAMP", "BIGINT"),
        ("BLOB", "JSON"),
        ("TEXT CHARACTER SET gbk", "JSON"),
    ],
)
def test_a_pair_whose_result_is_not_known_is_refused(old: str, new: str):
    assert converted(old, new) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("VARCHAR(5)", "VARCHAR(6)"),
        ("BINARY(4)", "VARBINARY(4)"),
        ("ENUM('a','b')", "ENUM('a','b','c')"),
        ("DATETIME(3)", "DATETIME(6)"),
        ("JSON", "LONGTEXT"),
    ],
)
def test_values_that_stay_need_no_rewriting(old: str, new: str):
    assert converted(old, new) == "`c`"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_expression_is_sql_over_its_column_alone(case: Case):
    expression = converted(case[0], case[1])
    assert expression is not None

    parsed = sqlglot.parse_one(expression, read="spark")

    assert {column.name for column in parsed.find_all(sqlglot.exp.Column)} == {"c"}


def test_a_value_without_a_result_is_refused_and_null_is_not():
    effect = ConvertColumn(1, 2, "c", parse_type("DATETIME"), parse_type("CHAR(30)"))

    assert is_refused("c", "f(`c`)", effect) == "(`c` IS NOT NULL AND (f(`c`)) IS NULL)"


def test_a_zero_date_of_a_column_that_is_never_null_has_no_known_text():
    shape = table("id INT PRIMARY KEY, c DATETIME NOT NULL, d DATETIME")

    [effect] = altered(shape, "MODIFY c CHAR(30)").effects
    assert is_refused("c", "f(`c`)", effect) == "((f(`c`)) IS NULL)"
    for text in ("MODIFY c DATE", "MODIFY d CHAR(30)"):
        [effect] = altered(shape, text).effects
        assert is_refused("c", "f(`c`)", effect) == "(`c` IS NOT NULL AND (f(`c`)) IS NULL)"


# -- values -----------------------------------------------------------------------------------------------------------


def column_of(case: Case) -> pa.Array:
    """The value, NULL, and where the lake's column stays the same one also the result: a killed run converts it again.

    A column that is promoted has its new type by then.
    """
    before, after = parse_type(case[0]), parse_type(case[1])
    stays = promotes(before, after)
    again = case[3] if stays and case[3] != REFUSED else None
    return pa.array([case[2], None, again], arrow_type(after if stays else before))


def results_of(case: Case) -> list[Any]:
    """What the three become."""
    after = parse_type(case[1])
    result = None if case[3] == REFUSED else case[3]
    again = result if promotes(parse_type(case[0]), after) else None
    return pa.array([result, None, again], arrow_type(after)).to_pylist()


def of_pairs(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases of each pair of types: Spark compiles an expression once for all its values."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        found.setdefault((case[0], case[1]), []).append(case)
    return list(found.values())


@pytest.mark.long
@pytest.mark.spark
def test_every_value_becomes_what_the_server_makes_of_it(tmp_path: Path):
    pairs = of_pairs(CASES)
    rows = 3 * max(map(len, pairs))
    columns = [pa.concat_arrays([column_of(case) for case in pair]) for pair in pairs]
    padded = [pa.concat_arrays([column, pa.nulls(rows - len(column), column.type)]) for column in columns]
    frame = frame_of(pa.table({f"c{n}": column for n, column in enumerate(padded)}), tmp_path)
    selected = []
    for n, [case, *_] in enumerate(pairs):
        expression = converted_value(f"c{n}", parse_type(case[0]), parse_type(case[1]))
        selected.append(f"CAST({expression} AS {spark_type(arrow_type(parse_type(case[1])))}) AS c{n}")

    tables = [frame.selectExpr(*selected[begin : begin + 50]).toArrow() for begin in range(0, len(pairs), 50)]

    found = [column.to_pylist() for table in tables for column in table.columns]
    # As text, in which -0.0 is not 0.0.
    wrong = [
        case[:3]
        for pair, values in zip(pairs, found, strict=True)
        for n, case in enumerate(pair)
        if repr(values[3 * n : 3 * n + 3]) != repr(results_of(case))
    ]
    assert wrong == []
