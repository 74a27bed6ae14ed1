"""What a statement that added a column did to rows that exist, as SQL."""

from __future__ import annotations

from typing import Any

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.text_values import time_zone
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution import FillColumn
from ticdc_assets.schema.lineage import Version
from ticdc_assets.schema.model import Kind
from ticdc_assets.tables.mirror_sql import literal
from ticdc_assets.tables.typed_literals import TODO, typed
from ticdc_assets.tso import to_datetime


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
        TODO,
    )
