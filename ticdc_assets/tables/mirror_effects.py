"""What a statement did to rows that exist, as SQL: the value of an added column, the rows of a dropped partition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.names import column_name, quote
from ticdc_assets.protocols.text_values import TextForms, time_zone, value
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.collations import TextOrder
from ticdc_assets.schema.evolution import DeletePartitions, FillColumn, ListRows, PartitionKey, RangeRows
from ticdc_assets.schema.lineage import Version
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.schema.mysql_types import CHARACTER_KINDS
from ticdc_assets.tables.mirror_sql import literal
from ticdc_assets.tso import to_datetime

_TODO: Final = "TiCDC sends no rows for it: load this table anew."


def fill_literal(effect: FillColumn, version: Version, zone: str) -> str | None:
    """The SQL literal that existing rows get in an added column, None for NULL.

    For CURRENT_TIMESTAMP TiDB takes the clock of the server that got the statement, as it arrived, cut to the column's
    digits. No protocol carries that moment, nor the statement's start_ts, which would follow it by milliseconds. The
    commit_ts is what all of them tell: later by the time the statement ran, mostly a second or less. A DATETIME is
    besides in the zone of the session that ran the statement; the changefeed's zone stands for it.
    """
    default = effect.value
    if default.expression is not None:
        filled: Any = _moment(effect, version.from_ts, zone)
    elif default.value is None:
        return None
    else:
        filled = typed(effect.name, effect.type, default.value, zone)
    return None if filled is None else literal(filled, arrow_type(effect.type))


def typed(name: str, column_type: MySqlType, text: str | bytes, zone: str) -> Any:
    """A literal of DDL text as a value of its column; SchemaError where the column's type cannot hold it."""
    if isinstance(text, bytes):
        return text
    try:
        return value(column_type, text, TextForms(binary="raw", enum="label", zone=zone))
    except DecodeError as error:
        expected = f"a literal that {column_type.kind} holds"
        raise SchemaError(f"column {name}", expected, error.found, _TODO) from None


def _moment(effect: FillColumn, commit_ts: int, zone: str) -> Any:
    at = to_datetime(commit_ts)
    step_us = 10 ** (6 - (effect.type.length or 0))
    at = at.replace(microsecond=at.microsecond // step_us * step_us)
    if effect.type.kind is Kind.TIMESTAMP:
        return at
    wall = at.astimezone(time_zone(zone)).replace(tzinfo=None)
    if effect.type.kind is Kind.DATETIME:
        return wall
    if effect.type.kind is Kind.DATE:
        return wall.date()
    raise SchemaError(
        f"column {effect.name}",
        "a default that can be computed for existing rows",
        f"an expression for {effect.type.kind}",
        _TODO,
    )


def delete_condition(effect: DeletePartitions, zone: str) -> str:
    """The rows of the partitions, as a WHERE condition over the mirror."""
    return " OR ".join(f"({_rows(rows, zone)})" for rows in effect.partitions) or "false"


def _rows(rows: RangeRows | ListRows, zone: str) -> str:
    if isinstance(rows, ListRows):
        listed = " OR ".join(_equals(rows.keys, values, zone) for values in rows.values) or "false"
        return f"NOT ({listed})" if rows.others else listed
    conditions = []
    if rows.lower is not None:
        conditions.append(f"NOT ({_below(rows.keys, rows.lower, zone)})")
    if rows.upper is not None:
        conditions.append(_below(rows.keys, rows.upper, zone))
    return " AND ".join(f"({c})" for c in conditions) or "true"


def _below(keys: tuple[PartitionKey, ...], bound: tuple[str | None, ...], zone: str) -> str:
    """Whether the keys compare below a bound, as tuples; NULL is below every value, None in the bound above all."""
    key, text, rest = keys[0], bound[0], (keys[1:], bound[1:])
    expression = _key(key)
    if text is None:
        return "true"
    limit = _bound(key, text, zone)
    # A blank is below every character but the control characters: only these have longer texts come below their own
    # beginning. Else the column is compared as it is, so that files are left out by their bounds.
    compared = f"rtrim({expression})" if _is_padded(key) and min(text, default=" ") < " " else expression
    below = f"{expression} IS NULL OR {compared} < {limit}"
    if not rest[0]:
        return below
    return f"{below} OR ({_is(key, text, zone)} AND ({_below(*rest, zone)}))"


def _equals(keys: tuple[PartitionKey, ...], values: tuple[str | None, ...], zone: str) -> str:
    parts = [_is(key, text, zone) for key, text in zip(keys, values, strict=True)]
    return "(" + " AND ".join(parts) + ")"


def _is(key: PartitionKey, text: str | None, zone: str) -> str:
    """Whether a key is this value, None for NULL; never NULL itself."""
    expression = _key(key)
    if text is None:
        return f"{expression} IS NULL"
    limit = _bound(key, text, zone)
    if not _is_padded(key):
        return f"{expression} <=> {limit}"
    # Bounds first, so that files are left out by theirs: texts that a value begins are below it with the character
    # that follows the blank.
    within = f"{expression} >= {limit} AND {expression} < {literal(text + '!', pa.string())}"
    return f"({expression} IS NOT NULL AND {within} AND rtrim({expression}) = {limit})"


def _is_padded(key: PartitionKey) -> bool:
    """Whether blanks at the end of the key count for nothing; texts to compare it with have none."""
    return key.column.text_order is TextOrder.PADDED and key.column.type.kind in CHARACTER_KINDS


def _key(key: PartitionKey) -> str:
    column = quote(column_name(key.column.name))
    match key.function:
        case None:
            return column
        case "YEAR" | "MONTH":
            return f"{key.function.lower()}({column})"
        case "TO_DAYS":
            return f"(datediff(CAST({column} AS date), DATE'0001-01-01') + 366)"
        case _:
            return f"unix_seconds({column})"


def _bound(key: PartitionKey, text: str, zone: str) -> str:
    if key.function is None:
        return literal(typed(key.column.name, key.column.type, text, zone), arrow_type(key.column.type))
    try:
        if key.function == "UNIX_TIMESTAMP" and "-" in text.lstrip("-"):
            wall = datetime.fromisoformat(text).replace(tzinfo=time_zone(zone))
            return str(int(wall.astimezone(UTC).timestamp()))
        return str(int(text))
    except (ValueError, OverflowError):
        expected = "a partition bound that is a number or time"
        raise SchemaError(f"column {key.column.name}", expected, "another text", _TODO) from None
