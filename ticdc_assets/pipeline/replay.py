"""Takes quarantined records back in: decodes them again, or the bytes that somebody mended, and publishes the changes.

Nothing is lost on the way, wherever it ends: a record counts as resolved only after its changes are in the changelogs,
and bringing them there again adds nothing. The mirrors follow in `pipeline.mirror_run`.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ticdc_assets.config import StorageSource
from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.replay_changes import put_back
from ticdc_assets.pipeline.replay_ground import Decoded, Ground, Offered, Rows, ground_of
from ticdc_assets.pipeline.replay_messages import MessageReplay
from ticdc_assets.pipeline.replay_storage import StorageReplay
from ticdc_assets.tables.control import QuarantinedRecord, now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

Position = tuple[str, int]


class Fate(StrEnum):
    """What became of a record; the first two end its being quarantined."""

    REPLAYED = "replayed"
    DISCARDED = "discarded"
    STILL_BAD = "still bad"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One record and its fate, with the reason where it is still bad."""

    record: QuarantinedRecord
    fate: Fate
    reason: str = ""


@dataclass(slots=True)
class ReplayReport:
    """What a replay did; `added` counts the changes that changelogs gained, by lineage."""

    run_id: str
    outcomes: list[Outcome] = field(default_factory=list)
    added: dict[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return all(outcome.fate is not Fate.STILL_BAD for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to do with the quarantine: `only` these records (all where None), with the `mended` bytes of some; give up
    the `discarded` ones."""

    only: frozenset[Position] | None = None
    mended: Mapping[Position, bytes] = field(default_factory=dict)
    discarded: frozenset[Position] = frozenset()


def replay(lake: Lake, wish: Wish) -> ReplayReport:
    """Do it. Raises NotYetError where a named record is not quarantined, StaleRunError where another run came first."""
    report = ReplayReport(uuid.uuid4().hex)
    kept = {record.position: record for record in lake.control.quarantined()}
    _check_named(lake, kept, {*(wish.only or ()), *wish.mended, *wish.discarded})
    lake.control.resolve(dict.fromkeys(wish.discarded, str(Fate.DISCARDED)), report.run_id)
    report.outcomes += [Outcome(kept[position], Fate.DISCARDED) for position in sorted(wish.discarded)]
    wanted = kept.keys() - wish.discarded if wish.only is None else wish.only - wish.discarded
    offered = [_offered(kept[position], wish) for position in sorted(wanted)]
    ground = ground_of(lake, report.run_id) if offered else None
    if ground is not None:
        _take_in(lake, ground, offered, report)
    elif offered:
        reason = "expected a changefeed that was published, found none. Run `ticdc-assets run` first."
        report.outcomes += [Outcome(one.record, Fate.STILL_BAD, reason) for one in offered]
    return report


def _check_named(lake: Lake, kept: Mapping[Position, QuarantinedRecord], named: Collection[Position]) -> None:
    for path, line in sorted(named):
        if (path, line) not in kept:
            raise NotYetError(
                f"changefeed {lake.changefeed.name}, {path}:{line}",
                "a record of the quarantine that nobody has resolved yet",
                "none",
                "`ticdc-assets replay --quarantine` lists them as PATH:LINE.",
            )


def _offered(record: QuarantinedRecord, wish: Wish) -> Offered:
    mended = wish.mended.get(record.position)
    return Offered(record, record.raw) if mended is None else Offered(record, mended, is_mended=True)


def _take_in(lake: Lake, ground: Ground, offered: Sequence[Offered], report: ReplayReport) -> None:
    with tempfile.TemporaryDirectory() as folder:
        decoder = StorageReplay if isinstance(lake.changefeed.source, StorageSource) else MessageReplay
        decoded = decoder(ground, Path(folder)).decode(offered)
    by_lineage = _by_lineage(decoded)
    for lineage_id, rows in sorted(by_lineage.items()):
        report.added[lineage_id] = put_back(ground, lineage_id, rows)
    _record(lake, ground, by_lineage)
    sound = [record for one in decoded if not one.problem for record in one.records]
    lake.control.resolve({record.position: str(Fate.REPLAYED) for record in sound}, report.run_id)
    report.outcomes += [
        Outcome(record, Fate.STILL_BAD if one.problem else Fate.REPLAYED, one.problem)
        for one in decoded
        for record in one.records
    ]


def _by_lineage(decoded: Sequence[Decoded]) -> dict[str, list[Rows]]:
    found: dict[str, list[Rows]] = {}
    for rows in (rows for one in decoded if not one.problem for rows in one.rows):
        found.setdefault(rows.lineage_id, []).append(rows)
    return found


def _record(lake: Lake, ground: Ground, touched: Collection[str]) -> None:
    """Say which snapshots the changelogs are at now; complete it is again when the mirrors have followed."""
    newest = lake.control.newest()
    if newest is None:
        return
    snapshots = {i: table.current_snapshot() for i, table in ground.tables.items() if i in touched}
    tables = tuple(
        replace(table, changelog_snapshot_id=snapshot.snapshot_id)
        if (snapshot := snapshots.get(table.lineage)) is not None
        else table
        for table in newest.tables
    )
    if tables != newest.tables:
        record = replace(newest, recorded_at=now(), run_id=ground.run_id, complete=False, tables=tables)
        lake.control.record(record)
