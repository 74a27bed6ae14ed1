"""A MODIFY is redone on rows that are there to the last digit, or refused: by the pair of types, or by the value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.names import quote
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution import promotes
from ticdc_assets.schema.mysql_types import parse_type
from ticdc_assets.tables.conversions import conversion, is_refused
from ticdc_assets.tables.mirror_sql import spark_type
from ticdc_assets_tests.tables.conversion_cases import CASES, REFUSED, Case

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
    "integer": "integer bit year decimal wide double varchar binary enum set json",
    "bit": "integer bit decimal wide double",
    "year": "integer year decimal wide double varchar",
    "decimal": "integer decimal wide double varchar binary",
    "wide": "wide varchar binary",
    "double": "integer decimal double",
    "varchar": "integer decimal double varchar binary date datetime enum set",
    "binary": "varchar binary",
    "date": "date datetime varchar",
    "datetime": "date datetime time varchar",
    "timestamp": "timestamp",
    "time": "time varchar",
    "enum": "integer varchar binary enum set",
    "set": "integer varchar binary enum set",
    "json": "json varchar",
    "vector": "vector",
}
"""What each becomes; every other pair is refused whole."""


def converted(old: str, new: str) -> str | None:
    return conversion("c", parse_type(old), parse_type(new))


@pytest.mark.parametrize("old", ONE_OF_EACH)
def test_every_pair_of_types_is_known_or_refused_as_listed(old: str):
    known = {new for new, of in ONE_OF_EACH.items() if converted(ONE_OF_EACH[old], of) is not None}

    assert known == set(KNOWN[old].split())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DOUBLE", "DOUBLE(7,2)"),
        ("FLOAT", "FLOAT(5,1)"),
        ("DOUBLE", "VARCHAR(50)"),
        ("DATETIME", "TIMESTAMP"),
        ("VARCHAR(9)", "TIMESTAMP"),
        ("VARCHAR(9)", "TIME"),
        ("VARCHAR(9) CHARACTER SET gbk", "VARBINARY(20)"),
        ("BLOB", "TEXT CHARACTER SET gbk"),
        ("ENUM", "ENUM('a')"),
        ("SET('','a')", "INT"),
        ("DATETIME(6)", "TIME(3)"),
        ("DECIMAL(50,4)", "DECIMAL(50,2)"),
        ("DECIMAL(50,2)", "DECIMAL(50,4)"),
        ("TEXT", "JSON"),
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


# -- values -----------------------------------------------------------------------------------------------------------


def checks(case: Case, place: int) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """A row's columns, and what holds of them: what became of the value, of NULL, and of the result converted again."""
    old, new, value, expected = case
    before, after = parse_type(old), parse_type(new)
    given, nothing, wanted = (f"{what}{place}" for what in ("given", "nothing", "wanted"))

    def of(name: str) -> str:
        expression = conversion(name, before, after)
        assert expression is not None
        return f"CAST({expression} AS {spark_type(arrow_type(after))})"

    result = None if expected == REFUSED else expected
    row = {
        given: pa.array([value], arrow_type(before)),
        nothing: pa.array([None], arrow_type(before)),
        wanted: pa.array([result], arrow_type(after)),
    }
    holds = {
        f"{case[:3]}": f"{of(given)} <=> {quote(wanted)}",
        f"{case[:3]} is refused or not": f"{is_refused(given, of(given))} = ({quote(wanted)} IS NULL)",
        f"{case[:2]} of NULL": f"{of(nothing)} IS NULL",
    }
    if promotes(before, after):
        holds[f"{case[:3]} twice"] = f"{of(wanted)} <=> {quote(wanted)}"
    return row, holds


@pytest.mark.spark
def test_every_value_becomes_what_the_server_makes_of_it(tmp_path: Path):
    config_file = tmp_path / "changefeeds.yaml"
    config_file.write_text(
        "changefeeds:\n  feed:\n    sink_uri: file:///bucket?protocol=csv\n    source: {storage: bucket}\n"
    )
    session = spark.session(load(config_file, {}))
    rows, holds = zip(*[checks(case, place) for place, case in enumerate(CASES)], strict=True)
    # Read from a file, so that Spark runs the expressions as it does on a table, and not as it plans the query.
    pq.write_table(pa.table({name: values for row in rows for name, values in row.items()}), tmp_path / "row.parquet")
    frame = session.read.parquet(str(tmp_path / "row.parquet"))
    named = [condition for of_case in holds for condition in of_case.items()]

    answers: list[bool | None] = []
    for batch in (named[begin : begin + 40] for begin in range(0, len(named), 40)):
        answers += frame.selectExpr(*[f"{sql} AS answer{n}" for n, (_, sql) in enumerate(batch)]).collect()[0]

    assert [name for (name, _), answer in zip(named, answers, strict=True) if answer is not True] == []
