"""The statements of a text as TiCDC sends it: restored by TiDB's parser, or as the user typed it.

TiCDC restores what its parser reads. It sends the user's own text where its parser fails, and for FULLTEXT and HYBRID
indexes. In restored text a backslash is a character; in typed text it escapes, or is a character under
NO_BACKSLASH_ESCAPES, which no stream carries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.parser import Statement, parse
from ticdc_assets.schema.ddl.statements import AlterTable, CreateTable, SetComment
from ticdc_assets.schema.ddl.tokens import is_restored, tokens_of

_TYPED: Final = frozenset(("FULLTEXT", "HYBRID"))


def parse_sent(query: str) -> tuple[Statement, ...]:
    """The statements, with names as written.

    Raises SchemaError where no reading is understood, or where a backslash as a character and as an escape lead to
    other columns or defaults, and the text may be typed.
    """
    if "\\" not in query:
        return parse(query, "", restored=True)
    try:
        restored = parse(query, "", restored=True)
    except SchemaError as error:
        return _parse_typed(query, error)
    if _must_be_restored(query):
        return restored
    try:
        typed = parse(query, "", restored=False)
    except SchemaError:
        return restored
    if _effects(typed) != _effects(restored):
        expected = (
            "a text that TiDB restored, or backslashes that lead to the same columns and defaults in any sql_mode"
        )
        found = "backslashes in a text as the user typed it"
        raise SchemaError("the statement", expected, found, Advice.CREATE_WITHOUT_BACKSLASHES)
    return typed


def _parse_typed(query: str, error: SchemaError) -> tuple[Statement, ...]:
    try:
        return parse(query, "", restored=False)
    except SchemaError:
        raise error from None


def _must_be_restored(query: str) -> bool:
    return is_restored(query, None) and not any(token.word in _TYPED for token in tokens_of(query, restored=True))


def _effects(statements: tuple[Statement, ...]) -> list[Statement]:
    """The statements without the comments of tables; those of columns are never compared."""
    return [_without_comment(statement) for statement in statements]


def _without_comment(statement: Statement) -> Statement:
    if isinstance(statement, CreateTable):
        return replace(statement, comment="")
    if isinstance(statement, AlterTable):
        return replace(statement, actions=tuple(a for a in statement.actions if not isinstance(a, SetComment)))
    return statement
