"""The actions of ALTER TABLE that change no column, key or row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ticdc_assets.schema.ddl.create import skip_option_value
from ticdc_assets.schema.ddl.statements import (
    Action,
    NoEffect,
)
from ticdc_assets.schema.ddl.token_cursor import TokenCursor

ActionReader = Callable[[TokenCursor, str], list[Action]]
"""Reads what follows an action's first word; the second argument is the schema of unqualified names."""


def skipped(cursor: TokenCursor, reason: str) -> list[Action]:
    """Skip one action that changes no column, key or row."""
    while cursor.skip_expression() and cursor.at_symbol(")"):
        cursor.take()
    return [NoEffect(reason)]


def _set(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.accept("HYPO")
    cursor.expect("TIFLASH", "REPLICA")
    cursor.integer()
    if cursor.accept("LOCATION", "LABELS"):
        cursor.comma_list(cursor.string)
    return [NoEffect("TiFlash replicas")]


def _option_value(cursor: TokenCursor, schema: str) -> list[Action]:
    skip_option_value(cursor)
    return [NoEffect("how the statement runs")]


def _nothing_more(cursor: TokenCursor, schema: str) -> list[Action]:
    return [NoEffect("how the statement runs, or caching")]


def _keys(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("MASKING", "POLICY"):
        return skipped(cursor, "a masking policy")
    cursor.expect("KEYS")
    return [NoEffect("upkeep of indexes")]


def _validation(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("VALIDATION")
    return [NoEffect("validation")]


def _order(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("BY")
    cursor.comma_list(lambda: (cursor.column_name(), cursor.accept_any("ASC", "DESC")))
    return [NoEffect("the order of rows")]


def compact(cursor: TokenCursor, schema: str) -> list[Action]:
    """The rest of the statement: compaction changes no row."""
    cursor.skip_all()
    return [NoEffect("compaction")]


ACTIONS_WITHOUT_EFFECT: Final[dict[str, ActionReader]] = {
    "SET": _set,
    "ALGORITHM": _option_value,
    "LOCK": _option_value,
    "FORCE": _nothing_more,
    "CACHE": _nothing_more,
    "NOCACHE": _nothing_more,
    "SECONDARY_LOAD": _nothing_more,
    "SECONDARY_UNLOAD": _nothing_more,
    "ENABLE": _keys,
    "DISABLE": _keys,
    "WITH": _validation,
    "WITHOUT": _validation,
    "ORDER": _order,
    "COMPACT": compact,
}
"""How to read the actions without effect, by the word that begins each."""
