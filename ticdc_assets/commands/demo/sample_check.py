"""Checks the result of the packaged sample, table by table, over all changefeeds of a workload.

Changefeeds of one workload must have equal changelogs (operation, commit_ts and values) and equal mirrors. Every
mirror must also equal the final rows of its source table, given as digests in `expected.json`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.changes import layout
from ticdc_assets.commands.read.listing import table_rows
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.plurals import counted
from ticdc_assets.tables.catalog import load_or_none

if TYPE_CHECKING:
    from ticdc_assets.config import Config


EXPECTED: Final = "expected.json"
_ADVICE: Final = "Run the demo again; if this happens again, please report it."
OURS: Final = "_ticdc_"
"""The prefix of columns that this project adds."""


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """One changefeed's result for a table: its changes and its rows as comparable texts."""

    changes: Counter[str]
    rows: Counter[str]
    digest: str
    state: str
    watermark: int


@dataclass(frozen=True, slots=True)
class Line:
    """One source table over the changefeeds of its workload; `faults` names the differences."""

    table: str
    changefeeds: tuple[str, ...]
    changes: int
    rows: int
    states: tuple[str, ...]
    watermark: int
    faults: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether the table is correct in every changefeed."""
        return not self.faults


def checked(config: Config, sample: Path, names: Collection[str]) -> list[Line]:
    """Every table of each workload of the named changefeeds, in the order of the sample."""
    lakes = {changefeed.name: Lake(config, changefeed) for changefeed in config.changefeeds if changefeed.name in names}
    listed = {
        name: {f"{row['schema']}.{row['table']}": row for row in table_rows(lake)} for name, lake in lakes.items()
    }
    lines = []
    for workload in json.loads((sample / EXPECTED).read_text()):
        feeds = [name for name in workload["changefeeds"] if name in lakes]
        if not feeds:
            continue
        wanted: dict[str, dict[str, Any]] = workload["tables"]
        tables = dict.fromkeys([*wanted, *sorted(table for name in feeds for table in listed[name])])
        for table in tables:
            outcomes = {name: _outcome(lakes[name], listed[name].get(table)) for name in feeds}
            lines.append(line(table, outcomes, wanted.get(table)))
    return lines


def _outcome(lake: Lake, row: Mapping[str, Any] | None) -> SampleOutcome | None:
    if row is None:
        return None
    changes, rows = (_content(lake, row[kind]) for kind in ("changelog", "mirror"))
    return SampleOutcome(
        changes=texts(changes, (layout.OP, layout.COMMIT_TS)),
        rows=texts(rows),
        digest=digest(rows),
        state=row["state"],
        watermark=row["watermark"] or row["messages_read"] or 0,
    )


def _content(lake: Lake, identifier: Sequence[str] | None) -> list[dict[str, Any]]:
    """All rows of a table; the sample is small."""
    table = load_or_none(lake.catalog, tuple(identifier)) if identifier else None
    return [] if table is None else table.scan().to_arrow().to_pylist()


def line(table: str, found: Mapping[str, SampleOutcome | None], wanted: Mapping[str, Any] | None) -> Line:
    """The result of one table. `wanted` has the number of its rows and their digest; None for an unexpected table."""
    outcomes = {name: outcome for name, outcome in found.items() if outcome is not None}
    first = next(iter(outcomes.values()), None)
    return Line(
        table=table,
        changefeeds=tuple(found),
        changes=first.changes.total() if first else 0,
        rows=first.rows.total() if first else 0,
        states=tuple(dict.fromkeys(outcome.state for outcome in outcomes.values())),
        watermark=min((outcome.watermark for outcome in outcomes.values()), default=0),
        faults=tuple(_faults(table, found, wanted)),
    )


def _faults(table: str, found: Mapping[str, SampleOutcome | None], wanted: Mapping[str, Any] | None) -> Iterator[str]:
    reference = next((name for name, outcome in found.items() if outcome is not None), None)
    for name, outcome in found.items():
        if outcome is None or wanted is None:
            yield _fault(table, name, "a table" if wanted else "no such table", "none" if wanted else "one")
            continue
        first = found[reference] if reference else None
        assert first is not None
        changes = differing_rows(outcome.changes, first.changes)
        if changes:
            yield _fault(
                table, name, f"the {counted(first.changes.total(), 'change')} of {reference}", f"{changes:,} others"
            )
        if outcome.digest != wanted["sha256"]:
            yield _fault(table, name, f"the {counted(wanted['rows'], 'row')} of its source", _rows(outcome, wanted))


def _rows(outcome: SampleOutcome, wanted: Mapping[str, Any]) -> str:
    count = outcome.rows.total()
    return counted(count, "row") + ("" if count != wanted["rows"] else " with other values")


def _fault(table: str, changefeed: str, expected: str, found: str) -> str:
    return f"{table}, {changefeed}: expected {expected}, found {found}. {_ADVICE}"


def texts(rows: Iterable[Mapping[str, Any]], kept: Iterable[str] = ()) -> Counter[str]:
    """Each row as one text, independent of column order: the source's columns, and those in `kept`."""
    wanted = frozenset(kept)
    return Counter(
        repr(sorted((n, _text(v)) for n, v in row.items() if n in wanted or not n.startswith(OURS))) for row in rows
    )


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """One digest of all rows, independent of their order."""
    whole = hashlib.sha256()
    for text, count in sorted(texts(rows).items()):
        whole.update(f"{count}:{text}\n".encode())
    return whole.hexdigest()


def differing_rows(found: Counter[str], wanted: Counter[str]) -> int:
    """How many rows are in one collection and not in the other."""
    return (found - wanted).total() + (wanted - found).total()


def _text(cell: Any) -> str:
    if isinstance(cell, datetime):
        moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        return f"{moment.isoformat(' ', 'microseconds')}{'Z' if cell.tzinfo else ''}"
    if isinstance(cell, list | tuple):
        return "[" + ", ".join(_text(item) for item in cell) + "]"
    if isinstance(cell, Decimal) and cell.as_tuple().exponent == 0:
        return repr(int(cell))  # unsigned BIGINT is an int or a Decimal, depending on the protocol
    return repr(cell)
