"""The newest DDL statements of a table, as Markdown for the page of its asset.

Texts in quotes and comments are left out: they may have values of rows, such as those of a partition or a default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.printable import printable
from ticdc_assets.schema.ddl.tokens import TokenKind, tokens_of
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import SourceName, SourceTable

SHOWN_MAX: Final = 10
_QUERY_CHARS_MAX: Final = 500
_LITERALS: Final = (TokenKind.STRING, TokenKind.HEX, TokenKind.BITS)
_BACKTICKS: Final = re.compile("`+")

Statements = dict["SourceName", list[tuple[int, str]]]
"""By folded table name, TSO and text of each statement."""


def by_name(events: Iterable[DdlEvent]) -> Statements:
    """The statements of each name, each once, in their order. Schemas without a statement are left out."""
    found: dict[SourceName, dict[tuple[int, str], None]] = {}
    for event in events:
        if event.query and event.table:
            found.setdefault(fold_name(event.schema, event.table), {})[(event.commit_ts, event.query)] = None
    return {name: sorted(statements) for name, statements in found.items()}


def statement_list(source_table: SourceTable, statements: Mapping[SourceName, Sequence[tuple[int, str]]]) -> str:
    """The newest statements of a source table under all its names, the newest first; "" without one."""
    found = {
        statement
        for period in source_table.name_periods
        for statement in statements.get(fold_name(period.schema, period.table), ())
        if period.after_ts <= statement[0] and (period.until_ts is None or statement[0] <= period.until_ts)
    }
    newest = sorted(found, reverse=True)[:SHOWN_MAX]
    older = len(found) - len(newest)
    rest = [f"{older} older in the control table `schemas`."] if older else []
    return "\n\n".join([*(_shown(ts, query) for ts, query in newest), *rest])


def _shown(ts: int, query: str) -> str:
    when = f"{to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC, " if is_tso(ts) else ""
    whole = printable(_without_literals(query))
    text = whole if len(whole) <= _QUERY_CHARS_MAX else f"{whole[:_QUERY_CHARS_MAX]} ..."
    # A text with backticks of its own must not end the block: what follows would be shown as Markdown.
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{when}TSO {ts}\n{fence}sql\n{text}\n{fence}"


def _without_literals(query: str) -> str:
    parts, end = [], 0
    try:
        for token in tokens_of(query):
            gap = " " if token.start > end else ""
            parts.append(gap + ("'...'" if token.kind in _LITERALS else query[token.start : token.end]))
            end = token.end
    except SchemaError:
        return f"{''.join(parts)} ...".strip()
    return "".join(parts).strip()
