"""The context of a replay: the tables by the newest record and the history, and the records to replay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ticdc_assets.pipeline.changelog.tables import changelogs_to_write, target_of
from ticdc_assets.pipeline.commit_range import CommitRange, TableState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.tasks import Target, TaskReport
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import History
    from ticdc_assets.tables.control.records import QuarantinedRecord, WatermarkRecord

Targets = Mapping[str, "Target"]
Piece = TypeVar("Piece")


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """A quarantined record and the bytes to decode: its own, or corrected ones."""

    record: QuarantinedRecord
    data: bytes
    is_corrected: bool = False


@dataclass(frozen=True, slots=True)
class Judged(Generic[Piece]):
    """Records that belong together: the source tables of their changes and what to read again for these, or why they
    have none."""

    records: tuple[QuarantinedRecord, ...]
    source_tables: frozenset[str] = frozenset()
    pieces: tuple[Piece, ...] = ()
    problem: str = ""


class Replay(Protocol, Generic[Piece]):
    """Decodes quarantined records of a source with the tasks of its runs."""

    def new_schemas(self, inputs: Sequence[ReplayInput]) -> list[DdlEvent]:
        """The schemas of tables that only these records show."""

    def judged(self, inputs: Sequence[ReplayInput]) -> list[Judged[Piece]]:
        """Which records can be decoded now. Writes nothing to the lake."""

    def decode(self, pieces: Sequence[Piece], targets: Targets | None = None) -> TaskReport:
        """Decode what was judged sound, all of it in one task, as late input; to a temporary folder where `targets` is
        None."""


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """What the decoders of quarantined records need. `commit_ranges` and `tables` have every source table that takes
    changes; `low` and `high` of its range are the watermark of its changelog."""

    lake: Lake
    run_id: str
    record: WatermarkRecord
    history: History
    commit_ranges: dict[str, CommitRange]
    tables: dict[str, Table]

    def targets(self, folder: Path | None = None) -> dict[str, Target]:
        """Where changes are written, by source table: beside the changelogs, or to `folder`. All of them are late; by
        arrival a worker takes them as new ones."""
        lows = {i: -1 if self.lake.by_arrival else self.commit_ranges[i].low for i in self.tables}
        found = {i: target_of(self.commit_ranges[i], table, lows[i]) for i, table in self.tables.items()}
        return found if folder is None else {i: replace(target, data_uri=str(folder)) for i, target in found.items()}

    def not_insertable(self, record: QuarantinedRecord, source_tables: Collection[str]) -> str:
        """Why changes that are ordered by arrival cannot be inserted yet; "" where they can.

        Position is the only progress of such a table: all earlier records must be in it first.
        """
        if not self.lake.by_arrival:
            return ""
        states = {table.source_table: table.state for table in self.record.tables}
        moving = (str(TableState.LIVE), str(TableState.DROPPED))
        if self.record.recorded_at > record.recorded_at and all(states.get(i) in moving for i in source_tables):
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
    history, recorded = lake.history(), lake.recorded(record)
    lows = {i: table.watermark for i, table in recorded.items() if table.changelog is not None}
    known = {source_table.id for source_table in (before or history).source_tables}
    lows |= {n.id: record.tso for n in history.source_tables if n.id not in known and lake.asks_for(n)}
    wanted = {n.id: CommitRange(n, lows[n.id], lows[n.id]) for n in history.source_tables if n.id in lows}
    commit_ranges, tables = changelogs_to_write(lake, history, wanted, record)
    tables = {i: table for i, table in tables.items() if commit_ranges[i].hold is None}
    return ReplayContext(lake, run_id, record, history, {i: commit_ranges[i] for i in tables}, tables)


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
