"""SQL is made of quoted identifiers and literals, whatever names and values contain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
from sqlglot.tokens import TokenType

import ticdc_assets
from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.names import column_name, quote, quote_path
from ticdc_assets.tables.conversion.literals import literal
from ticdc_assets.tables.mirror import sql as mirror_sql
from ticdc_assets_tests.hostile_names import HOSTILE

PACKAGE = Path(ticdc_assets.__file__).parent
SQL = re.compile(r"\b(SELECT|FROM|WHERE|AND|OR|IS NULL|CAST|INSERT INTO|MERGE INTO)\b|^(UPDATE|ALTER|CREATE|DROP) ")
QUOTES = ("`", "'", '"')
OF_SOURCES = {"name", "schema", "table", "namespace", "query", "text", "sql"}
"""What things of the source are called in the code: none goes into a statement as it is."""
QUOTE_BY_HAND = {
    ("tables/conversion/literals.py", "literal"): "the one function that writes literals",
    ("pipeline/changelog/dedup.py", "_repeats"): "its columns are called c0, c1, ... by then",
    ("tables/mirror/partition_conditions.py", "_number"): "an int",
    ("tables/mirror/partition_conditions.py", "_bytes"): "a pattern that is written on the line before",
    ("tables/mirror/partition_conditions.py", "_bound"): "what int() made of the text",
    ("tables/iceberg/views.py", "sql"): "a time that strftime made of digits",
}


# -- how statements are written ---------------------------------------------------------------------------------------


def statements() -> Iterator[tuple[str, str, ast.JoinedStr]]:
    """Every f-string of the package that is SQL, with its file and function."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.JoinedStr) and SQL.search(_text(node)):
                        yield str(path.relative_to(PACKAGE)), function.name, node


def _text(node: ast.JoinedStr) -> str:
    return " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))


def faults(node: ast.JoinedStr) -> Iterator[str]:
    before = ""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            written = ast.unparse(part.value)
            if before.endswith(QUOTES):
                yield f"{written} is quoted by hand"
            if part.conversion != -1:
                yield f"{written} is printed as Python prints it"
            if isinstance(part.value, ast.Attribute) and part.value.attr in OF_SOURCES:
                yield f"{written} is put in as it is"
        before = str(part.value) if isinstance(part, ast.Constant) else ""


def test_no_statement_is_quoted_by_hand():
    found = list(statements())
    wrong = [
        f"{file}, {function}: {fault}"
        for file, function, node in found
        if (file, function) not in QUOTE_BY_HAND
        for fault in faults(node)
    ]

    assert len(found) > 20
    assert wrong == []


@pytest.mark.parametrize("bad", ["f'SELECT `{n}`'", "f\"SELECT '{v}'\"", "f'SELECT {c.name}'", "f'SELECT {v!r}'"])
def test_sql_that_quotes_by_hand_is_found(bad: str):
    [node] = [node for node in ast.walk(ast.parse(bad)) if isinstance(node, ast.JoinedStr)]

    assert SQL.search(_text(node))
    assert list(faults(node))


# -- what is written --------------------------------------------------------------------------------------------------

INT, TEXT = pa.int32(), pa.string()
VALUES = ["'; DROP TABLE t; --", "\\", "\\'", "''", "a\0b", "${x}", "*/", "\u2028", "é", "'" * 100, "\n", "%s", "{x}"]


def tokens(statement: str) -> list[TokenType]:
    return [token.token_type for token in sqlglot.tokenize(statement, read="spark")]


def mirror_statements(name: str) -> list[str]:
    """Every statement that changes a mirror, of a table and a column of that name."""
    column = column_name(name)
    table, columns = quote_path(("lake", column, name)), [LakeColumn(1, column, INT), LakeColumn(2, f"{column}2", TEXT)]
    names = {f"{column}__v1": columns[0], f"{column}2": columns[1]}
    rows = mirror_sql.commit_range(1, 2, True, 3)
    newest = mirror_sql.newest_per_key(table, rows, names, [column])
    return [
        newest,
        mirror_sql.insert(table, newest, columns),
        mirror_sql.merge_statement(table, newest, columns, [column]),
        mirror_sql.insert_multiset(table, table, rows, names),
        mirror_sql.updates_without_before(table, rows),
        mirror_sql.update(table, {column: literal(name, TEXT)}),
    ]


@pytest.mark.parametrize("name", [name for name in (*HOSTILE, *VALUES) if name and "\ud800" not in name])
def test_a_statement_has_the_same_words_whatever_things_are_called(name: str):
    for plain, hostile in zip(mirror_statements("plain"), mirror_statements(name), strict=True):
        assert tokens(plain) == tokens(hostile)


@pytest.mark.parametrize("name", [*HOSTILE, *VALUES])
def test_a_quoted_name_is_one_identifier_and_reads_back(name: str):
    [token] = sqlglot.tokenize(quote(name), read="spark")

    assert token.token_type is TokenType.IDENTIFIER
    assert token.text == name


@pytest.mark.parametrize("value", [*VALUES, b"'", b"\\", b""])
def test_text_and_bytes_are_written_in_hexadecimal_digits(value: str | bytes):
    written = literal(value, TEXT if isinstance(value, str) else pa.binary())
    raw = value.encode() if isinstance(value, str) else value

    assert re.fullmatch(r"(CAST\()?X'[0-9a-f]*'( AS string\))?", written)
    assert raw.hex() in written


@pytest.mark.parametrize(
    ("value", "arrow"),
    [
        (-5, INT),
        (1.5, pa.float64()),
        (float("inf"), pa.float64()),
        (Decimal("-1.50"), pa.decimal128(5, 2)),
        (date(2024, 1, 2), pa.date32()),
        (datetime(2024, 1, 2, 3, 4, 5, 6), pa.timestamp("us")),
        (datetime(2024, 1, 2, tzinfo=UTC), pa.timestamp("us", tz="UTC")),
        (None, TEXT),
    ],
)
def test_a_value_of_another_type_is_a_cast_of_its_text(value: object, arrow: pa.DataType):
    assert re.fullmatch(r"CAST\(('[-+0-9:. a-z]*'|NULL) AS [a-z_]+(\([0-9]+,[0-9]+\))?\)", literal(value, arrow))


def test_a_value_of_no_known_kind_is_refused():
    with pytest.raises(TypeError, match="no SQL literal"):
        literal({"a": 1}, TEXT)
