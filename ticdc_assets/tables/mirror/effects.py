"""What a statement that added a column did to rows that exist, as a value and as SQL."""

from __future__ import annotations

from typing import Any

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.source_table import Version
from ticdc_assets.schema.model import Kind
from ticdc_assets.tables.conversion.literals import literal, typed_literal
from ticdc_assets.tso import to_datetime


def fill_literal(effect: FillColumn, version: Version, zone: str) -> str | None:
    """The SQL literal that existing rows get in an added column, None for NULL."""
    filled = fill_value(effect, version, zone)
    return None if filled is None else literal(filled, arrow_type(effect.type))


def fill_value(effect: FillColumn, version: Version, zone: str) -> Any:
    """The value that existing rows get in an added column, None for NULL.

    For CURRENT_TIMESTAMP, TiDB uses the clock of the server that received the statement, cut to the column's digits. No
    protocol sends this time or the statement's start_ts, which is milliseconds later. All send the commit_ts: it is
    later by the run time of the statement, mostly a second or less. A DATETIME is in the time zone of the DDL session;
    the changefeed's zone is used instead.
    """
    default = effect.value
    if default.expression is not None:
        return _moment(effect, version.from_ts, zone)
    if effect.utc is not None:
        return typed_literal(effect.name, effect.type, effect.utc, "UTC")
    return None if default.value is None else typed_literal(effect.name, effect.type, default.value, zone)


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
        Advice.LOAD_AGAIN,
    )
