"""What happened in the recorded stream, and what was true after any part of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from ticdc_assets.schema.model import Column
from ticdc_assets_tests.bench.streams.copies import as_table, columns_of
from ticdc_assets_tests.bench.streams.recorded import KEY


@dataclass(frozen=True)
class Change:
    """One row change: `op` is insert, update or delete; `row` holds the old values of a delete, else the new ones."""

    op: str
    commit_ts: int
    row: dict[str, Any]

    @property
    def key(self) -> int:
        return int(self.row[KEY])


@dataclass(frozen=True)
class Log:
    """The recorded log."""

    folder: Path

    @cached_property
    def changes(self) -> list[Change]:
        """Every row change, in order."""
        with (self.folder / "events.jsonl").open("rb") as lines:
            events = [event for event in map(orjson.loads, lines) if event["kind"] == "dml"]
        return [Change(e["op"], e["commit_ts"], e["pre"] if e["op"] == "delete" else e["row"]) for e in events]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        with (self.folder / "truth.jsonl").open() as lines:
            return columns_of(json.loads(next(lines)))

    def rows_after(self, commit_ts: int) -> pa.Table:
        """The rows that are true at a TSO."""
        current: dict[int, dict[str, Any]] = {}
        for change in self.changes:
            if change.commit_ts > commit_ts:
                break
            if change.op == "delete":
                current.pop(change.key, None)
            else:
                current[change.key] = change.row
        return self.table(current.values())

    def table(self, rows: Iterable[dict[str, Any]]) -> pa.Table:
        """Rows in the lake's types, by key."""
        return as_table(self.columns, list(rows))
