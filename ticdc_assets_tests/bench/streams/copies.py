"""How far apart the copies of a stream are, and which rows are true when all of them have come."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.model import Column
from ticdc_assets_tests.bench.peers.columns import COLUMNS
from ticdc_assets_tests.bench.streams.recorded import KEY
from ticdc_assets_tests.bench.streams.templates import LOGICAL_BITS, Shift
from ticdc_assets_tests.truth import lake_value

EVENTS_RECORDED: Final = 100_000
KEYS_APART: Final = 1_000_000
MS_APART: Final = 60_000
"""More than the recorded stream's 55 s, so that commit_ts never goes back from one copy to the next."""


def shifts(events: int) -> list[Shift]:
    """The distances of as many copies as make `events` events, the recorded stream first."""
    return [shift(copy) for copy in range(max(1, round(events / EVENTS_RECORDED)))]


def shift(copy: int) -> Shift:
    """The distance of one copy."""
    return Shift(copy * KEYS_APART, copy * MS_APART << LOGICAL_BITS)


def true_rows(log: Path) -> pa.Table:
    """The rows of the recorded stream's end in the lake's types, by key."""
    lines = (log / "truth.jsonl").read_text().splitlines()
    header = json.loads(lines[0])
    return as_table(columns_of(header), [json.loads(line) for line in lines[1:]])


def rows_as_sent(log: Path) -> pa.Table:
    """The same rows as in Canal-JSON: ENUM and SET as numbers, binary as text."""
    rows = [json.loads(line) for line in (log / "truth.jsonl").read_text().splitlines()[1:]]
    return pa.table({name: _as_sent([row[name] for row in rows], arrow) for name, arrow in COLUMNS.items()}).sort_by(
        KEY
    )


def _as_sent(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if any(isinstance(value, dict) for value in values):
        return pa.array([None if v is None else b64decode(v["b64"]).decode("latin-1") for v in values], arrow)
    if pa.types.is_string(arrow) or pa.types.is_floating(arrow):
        return pa.array(values, arrow)
    return pa.array([None if v is None else str(v) for v in values], pa.string()).cast(arrow)


def columns_of(header: dict[str, Any]) -> tuple[Column, ...]:
    """The columns that the truth's CREATE TABLE gives."""
    (statement,) = parse(header["create"], header["schema"])
    assert isinstance(statement, ddl.CreateTable)
    return create(statement).table.columns


def as_table(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows of the log in the lake's types, by key."""
    arrays = {
        c.name: pa.array([lake_value(c.type, r[c.name], "UTC") for r in rows], arrow_type(c.type)) for c in columns
    }
    return pa.table(arrays).sort_by(KEY)


def shifted_rows(rows: pa.Table, distances: Sequence[Shift]) -> pa.Table:
    """The true rows after the copies at these distances."""
    at = rows.column_names.index(KEY)
    return pa.concat_tables(
        [rows.set_column(at, KEY, pc.add(rows[KEY], pa.scalar(d.key, pa.int64()))) for d in distances]
    ).sort_by(KEY)


def fault(found: pa.Table, wanted: pa.Table) -> str:
    """How the rows differ from the true ones, "" where they are right; further columns are not looked at."""
    ordered = found.select(wanted.column_names).cast(wanted.schema).sort_by(KEY)
    if len(ordered) != len(wanted):
        return f"{len(ordered):,} rows, not {len(wanted):,}"
    wrong = [name for name in wanted.column_names if not ordered[name].equals(wanted[name])]
    return f"wrong values in {', '.join(wrong)}" if wrong else ""


def check(found: pa.Table, wanted: pa.Table, who: str) -> None:
    """Raise where the rows are not the true ones."""
    if found_fault := fault(found, wanted):
        raise AssertionError(f"{who}: {found_fault}")
