"""`ticdc-assets diff`: rows added, changed and removed between two TSOs. Needs no JVM."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.pipeline.history.differences import TableDifference, table_differences
from ticdc_assets.pipeline.history.knowledge import without
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from ticdc_assets.config import Changefeed, Config


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The TSOs and options of `diff`; with `rows` each row is a line of JSON."""

    after: int
    until: int
    tables: tuple[str, ...]
    rows: bool
    as_json: bool


def diff(config: Config, changefeed: Changefeed, options: DiffOptions) -> int:
    """Print the difference of each table. Returns the exit code: 1 if a table cannot be compared."""
    terminal = Terminal()
    lake = Lake(read_only_config(config), changefeed)

    def on_rows(table: TableDifference, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            terminal.json_line(_row(table, row), plain_value)

    found = []
    on_found = on_rows if options.rows else None
    tables = table_differences(lake, options.after, options.until, options.tables, on_found)
    # Rows are printed as they are found, so no line of progress can be between them.
    text = f"{changefeed.name}: reading its changelogs"
    for table in tables if options.rows else terminal.waiting(text, tables):
        found.append(table)
        if not options.as_json:
            (terminal.note if options.rows else terminal.result)(_sentence(table))
    if options.as_json:
        terminal.json(as_object(options, found))
    elif not found:
        terminal.note(f"No table exists at {moment(options.after)} or {moment(options.until)}.")
    return 0 if all(table.is_compared for table in found) else 1


def as_object(options: DiffOptions, found: Sequence[TableDifference]) -> dict[str, Any]:
    """The result as JSON values."""
    return {
        "after": options.after,
        "until": options.until,
        "tables": [
            {
                "schema": table.name[0],
                "table": table.name[1],
                "added": table.added,
                "changed": table.changed,
                "removed": table.removed,
                "reason": table.reason,
                "leaves_out": [lack.as_object() for lack in table.knowledge.lacks] if table.is_compared else [],
                "statements": [{"commit_ts": e.commit_ts, "query": e.query} for e in table.statements],
            }
            for table in found
        ],
    }


def _sentence(table: TableDifference) -> str:
    name = ".".join(table.name)
    if not table.is_compared:
        return f"{name}: not compared: {table.reason}."
    statements = f"; {counted(len(table.statements), 'statement')} in between" if table.statements else ""
    numbers = f"{table.added:,} added, {table.changed:,} changed, {table.removed:,} removed"
    return f"{name}: {numbers}{statements}{without(table.knowledge.lacks)}"


def _row(table: TableDifference, row: dict[str, Any]) -> dict[str, Any]:
    found = row["new"] or row["old"] or {}
    return {
        "table": ".".join(table.name),
        "change": row["change"],
        "key": {name: found.get(name) for name in table.key},
        "old": row["old"],
        "new": row["new"],
    }


def plain_value(value: Any) -> Any:
    """A lake value that JSON lacks: bytes as base64 in an object, times in ISO 8601, decimals as text."""
    if isinstance(value, bytes):
        return {"b64": b64encode(value).decode()}
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    raise TypeError(type(value).__name__)
