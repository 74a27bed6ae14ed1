"""The context of a replay: the tables by the newest record and the history, and the records to replay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ticdc_assets.pipeline.changelog.tables import changelogs_to_write, target_of
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.pipeline.plan import Plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.tasks import Target, TaskReport
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import History, SourceName
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
    """What the decoders of quarantined records need. `tables` has the changelog of every source table that takes
    changes; `low` and `high` of its range in `plan` are the watermark of its changelog. The ranges of other tables have
    the hold."""

    lake: Lake
    run_id: str
    record: WatermarkRecord
    plan: Plan
    tables: dict[str, Table]

    def targets(self, folder: Path | None = None) -> dict[str, Target]:
        """Where changes are written, by source table: beside the changelogs, or to `folder`. All of them are late; by
        arrival a worker takes them as new ones."""
        ranges = self.plan.commit_ranges
        lows = {i: -1 if self.lake.by_arrival else ranges[i].low for i in self.tables}
        found = {i: target_of(ranges[i], table, lows[i]) for i, table in self.tables.items()}
        return found if folder is None else {i: replace(target, data_uri=str(folder)) for i, target in found.items()}

    def not_insertable(self, record: QuarantinedRecord, source_tables: Collection[str]) -> str:
        """Why changes that are ordered by arrival cannot be inserted yet; "" where they can.

        Position is the only progress of such a table: all earlier records must be in it first.
        """
        if not self.lake.by_arrival:
            return ""
        moving, recorded = (str(TableState.LIVE), str(TableState.DROPPED)), self.plan.recorded
        are_moving = all(i in recorded and recorded[i].state in moving for i in source_tables)
        if self.record.recorded_at > record.recorded_at and are_moving:
            return ""
        return (
            f"{record.path}, record {record.line}: expected a table that has all earlier records, found one that is "
            "held or was not published since. Run `ticdc-assets run`, then replay again."
        )

    def no_table_for(self, record: QuarantinedRecord, name: SourceName) -> str:
        """Why a change under this name belongs to no table that takes changes."""
        where = f"{record.path}, record {record.line}"
        for source_table in reversed(self.plan.history.ever_called(*name)):
            commit_range = self.plan.commit_ranges.get(source_table.id)
            recorded = self.plan.recorded.get(source_table.id)
            why = ""
            if commit_range is not None and commit_range.hold is not None:
                why = commit_range.hold.reason(source_table)
            elif recorded is not None and recorded.state in (str(TableState.WAITING), str(TableState.STOPPED)):
                why = recorded.note
            if why:
                return f"{where}: its table {'.'.join(source_table.name)} is held: {why}"
        return (
            f"{where}: expected a table of this changefeed with a changelog, found none. Check `tables` in the config, "
            "and what `ticdc-assets tables` lists."
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
    plan = Plan.of(lake, record, lake.history())
    lows = {i: table.watermark for i, table in plan.recorded.items() if table.changelog is not None}
    known = {source_table.id for source_table in (before or plan.history).source_tables}
    lows |= {i: record.tso for i, n in plan.source_tables.items() if i not in known and lake.asks_for(n)}
    wanted = {i: CommitRange(n, lows[i], lows[i]) for i, n in plan.source_tables.items() if i in lows}
    plan, tables = changelogs_to_write(lake, plan.with_ranges(wanted))
    open_tables = {i: tables[i] for i, n in plan.commit_ranges.items() if i in tables and n.hold is None}
    return ReplayContext(lake, run_id, record, plan, open_tables)


def above(record: QuarantinedRecord) -> str:
    """Why a change waits whose commit_ts is above its table's watermark."""
    return (
        f"{record.path}, record {record.line}: expected a commit_ts that its table is complete up to, found a later "
        "one. It waits: run `ticdc-assets run` until the table has reached that commit_ts, then replay again."
    )
