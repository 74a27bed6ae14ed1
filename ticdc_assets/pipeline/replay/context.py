"""The context of a replay: the tables by the newest record and the history, and the records to replay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets.pipeline.changed_settings import settings_hold
from ticdc_assets.pipeline.changelog.tables import ensure_changelogs, target_of
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.tables.progress import progress_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.tasks import ChangelogPart, Target
    from ticdc_assets.schema.history.source_table import History
    from ticdc_assets.tables.control.records import QuarantinedRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """A quarantined record and the bytes to decode: its own, or corrected ones."""

    record: QuarantinedRecord
    data: bytes
    is_corrected: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Changes of one source table and version, as a data file of its changelog holds them."""

    source_table_id: str
    version_ts: int
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result for records that belong together: their changes, or why there are none."""

    records: tuple[QuarantinedRecord, ...]
    rows: tuple[Rows, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """What the decoders of quarantined records need. `commit_ranges` and `tables` have every source table with a
    changelog; the `high` of each range is the watermark of the changelog."""

    lake: Lake
    run_id: str
    record: WatermarkRecord
    history: History
    commit_ranges: dict[str, CommitRange]
    tables: dict[str, Table]

    def targets(self, folder: Path) -> dict[str, Target]:
        """Where a decoder writes the changes of each source table: all below `folder`, whatever their commit_ts."""
        found = {}
        for number, (source_table_id, table) in enumerate(self.tables.items()):
            target = target_of(self.commit_ranges[source_table_id], table, -1)
            found[source_table_id] = _in_folder(target, folder / str(number))
        return found

    def not_insertable(self, record: QuarantinedRecord, rows: Iterable[Rows]) -> str:
        """Why changes that are ordered by arrival cannot be inserted yet; "" where they can.

        Position is the only progress of such a table: all earlier records must be in it first.
        """
        if not self.lake.by_arrival:
            return ""
        states = {table.source_table: table.state for table in self.record.tables}
        moving = (str(TableState.LIVE), str(TableState.DROPPED))
        if self.record.recorded_at > record.recorded_at and all(states.get(r.source_table_id) in moving for r in rows):
            return ""
        return (
            f"{record.path}, record {record.line}: expected a table that has all earlier records, found one that is "
            "held or was not published since. Run `ticdc-assets run`, then replay again."
        )


def replay_context_of(lake: Lake, run_id: str, before: History | None = None) -> ReplayContext | None:
    """The context of a changefeed; None before anything was published.

    Args:
        before: the history without the schemas that the records to replay have. No run has seen a row of a table that
            is new since then: it is complete up to the record's TSO, but for its records in quarantine.
    """
    record = lake.control.newest()
    if record is None:
        return None
    history = lake.history()
    taken = lake.rename_changelogs(history, record)
    recorded = lake.recorded(record)
    wanted = {
        source_table.id: CommitRange(source_table, -1, recorded[source_table.id].watermark)
        for source_table in history.source_tables
        if source_table.id in recorded
        and recorded[source_table.id].changelog is not None
        and source_table.id not in taken
    }
    known = {source_table.id for source_table in (before or history).source_tables}
    new = (n for n in history.source_tables if n.id not in known | taken.keys() and lake.asks_for(n))
    wanted |= {source_table.id: CommitRange(source_table, -1, record.tso) for source_table in new}
    tables, _ = ensure_changelogs(lake, history, wanted, record)
    tables = {i: table for i, table in tables.items() if settings_hold(lake, wanted[i].source_table, table) is None}
    commit_ranges = {
        i: CommitRange(wanted[i].source_table, -1, max(wanted[i].high, progress_of(table).watermark))
        for i, table in tables.items()
    }
    return ReplayContext(lake, run_id, record, history, commit_ranges, tables)


def written_rows(parts: Iterable[ChangelogPart]) -> tuple[Rows, ...]:
    """The changes that a decoder wrote, read back."""
    return tuple(Rows(p.source_table_id, p.version_ts, pq.read_table(p.uri)) for p in parts if p.rows)


def above(record: QuarantinedRecord) -> str:
    """Why a change waits whose commit_ts is above its table's watermark."""
    return (
        f"{record.path}, record {record.line}: expected a commit_ts that its table is complete up to, found a later "
        "one. It waits: run `ticdc-assets run` until the table has reached that commit_ts, then replay again."
    )


def no_table_for(record: QuarantinedRecord) -> str:
    """Why a change belongs to no table."""
    return (
        f"{record.path}, record {record.line}: expected a table of this changefeed with a changelog, found none. "
        "Check `tables` in the config, and what `ticdc-assets tables` lists."
    )


def _in_folder(target: Target, folder: Path) -> Target:
    folder.mkdir(parents=True, exist_ok=True)
    return type(target)(target.source_table_id, target.low, target.high, str(folder), target.schemas)
