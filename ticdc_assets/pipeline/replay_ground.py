"""What a replay stands on: the tables as the newest record and the history have them, and what is offered to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets.pipeline.changelog_tables import ensure_changelogs, target_of
from ticdc_assets.pipeline.interval import Interval, TableState
from ticdc_assets.tables.progress import progress_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.task import Part, Target
    from ticdc_assets.schema.lineage import History
    from ticdc_assets.tables.control import QuarantinedRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class Offered:
    """A quarantined record and the bytes to decode: its own, or mended ones."""

    record: QuarantinedRecord
    data: bytes
    is_mended: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Changes of one lineage and version, as a data file of its changelog holds them."""

    lineage_id: str
    version_ts: int
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of offered records that belong together: their changes, or why there are none."""

    records: tuple[QuarantinedRecord, ...]
    rows: tuple[Rows, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """`intervals` and `tables` are those of every lineage that has a changelog; `high` is how far each of it is."""

    lake: Lake
    run_id: str
    record: WatermarkRecord
    history: History
    intervals: dict[str, Interval]
    tables: dict[str, Table]

    def targets(self, folder: Path) -> dict[str, Target]:
        """Where a decoder is to put the changes of each lineage: all below `folder`, whatever their commit_ts."""
        found = {}
        for number, (lineage_id, table) in enumerate(self.tables.items()):
            target = target_of(self.intervals[lineage_id], table, -1)
            found[lineage_id] = _in_folder(target, folder / str(number))
        return found

    def unsettled(self, record: QuarantinedRecord, rows: Iterable[Rows]) -> str:
        """Why changes that are ordered by arrival cannot be put among the others yet; "" where they can.

        Position is all the progress there is: nothing may come in before what stands ahead of it is in.
        """
        if not self.lake.by_arrival:
            return ""
        states = {table.lineage: table.state for table in self.record.tables}
        moving = (str(TableState.LIVE), str(TableState.DROPPED))
        if self.record.recorded_at > record.recorded_at and all(states.get(r.lineage_id) in moving for r in rows):
            return ""
        return (
            f"{record.path}, record {record.line}: expected a table that has all that came before, found one that is "
            "held or was not published since. Run `ticdc-assets run`, then replay again."
        )


def ground_of(lake: Lake, run_id: str) -> Ground | None:
    """The ground of a changefeed; None before anything was published."""
    record = lake.control.newest()
    if record is None:
        return None
    history = lake.history()
    taken = lake.settle_changelogs(history, record)
    recorded = lake.recorded(record)
    wanted = {
        lineage.id: Interval(lineage, -1, recorded[lineage.id].watermark)
        for lineage in history.lineages
        if lineage.id in recorded and recorded[lineage.id].changelog is not None and lineage.id not in taken
    }
    tables, _ = ensure_changelogs(lake, history, wanted, record)
    intervals = {
        i: Interval(wanted[i].lineage, -1, max(wanted[i].high, progress_of(table).watermark))
        for i, table in tables.items()
    }
    return Ground(lake, run_id, record, history, intervals, tables)


def rows_of(parts: Iterable[Part]) -> tuple[Rows, ...]:
    """The changes that a decoder wrote, read back."""
    return tuple(Rows(p.lineage_id, p.version_ts, pq.read_table(p.uri)) for p in parts if p.rows)


def above(record: QuarantinedRecord) -> str:
    """Why a change has to wait whose commit_ts its table has not reached."""
    return (
        f"{record.path}, record {record.line}: expected a commit_ts that its table is complete up to, found a later "
        "one. It waits: run `ticdc-assets run` until the table has come so far, then replay again."
    )


def homeless(record: QuarantinedRecord) -> str:
    """Why there is nowhere to put a change."""
    return (
        f"{record.path}, record {record.line}: expected a table of this changefeed with a changelog, found none. "
        "Look at `tables` in the config, and at `ticdc-assets tables`."
    )


def _in_folder(target: Target, folder: Path) -> Target:
    folder.mkdir(parents=True, exist_ok=True)
    return type(target)(target.lineage_id, target.low, target.high, str(folder), target.schemas)
