"""Replays quarantined records: decodes them again, or corrected bytes, and publishes the changes.

A replay loses nothing wherever it ends: a record is resolved only after its changes are in the changelogs, and a
repeated replay adds nothing twice. It succeeds as the first one did, also for records that the first one resolved. The
mirrors follow in `mirror.run`.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.pipeline.changelog.late_rows import has_all
from ticdc_assets.pipeline.changelog.publish import Publication, Published
from ticdc_assets.pipeline.commit_range import Hold
from ticdc_assets.pipeline.quarantine import DISCARDED, with_quarantine
from ticdc_assets.pipeline.record import record_changelogs, table_record
from ticdc_assets.pipeline.replay.context import Judged, Replay, ReplayContext, ReplayInput, replay_context_of
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.pipeline.sources import replay_of
from ticdc_assets.pipeline.tasks import FileState
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.control.records import QuarantinedRecord, RecordPosition
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


class Resolution(StrEnum):
    """The outcome of a record; the first two resolve it."""

    REPLAYED = "replayed"
    DISCARDED = DISCARDED
    STILL_BAD = "still bad"


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """One record and its outcome, with the reason where it is still bad."""

    record: QuarantinedRecord
    resolution: Resolution
    reason: str = ""


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay; `added` counts, by source table, the changes that changelogs gained."""

    run_id: str
    outcomes: list[ReplayOutcome] = field(default_factory=list)
    added: dict[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether every record was resolved."""
        return all(outcome.resolution is not Resolution.STILL_BAD for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay: `only` these records (all where None), with the `corrected` bytes of some. The `discarded`
    records are resolved without a change."""

    only: frozenset[RecordPosition] | None = None
    corrected: Mapping[RecordPosition, bytes] = field(default_factory=dict)
    discarded: frozenset[RecordPosition] = frozenset()


def position_of(text: str) -> RecordPosition:
    """The position of a record that is named as PATH:LINE. Raises ConfigError."""
    path, colon, line = text.rpartition(":")
    if not (path and colon and line.isascii() and line.isdigit()):
        advice = "Copy it from the list that `ticdc-assets replay --quarantine` prints."
        raise ConfigError("the name of a record", "PATH:LINE", repr(text), advice)
    return (path, int(line))


def replay(lake: Lake, request: ReplayRequest) -> ReplayReport:
    """Replay the records. Raises NotYetError where a named record is not quarantined or was resolved in another way,
    StaleRunError where another run committed first."""
    require_control_tables(lake)
    lake.control.claim()
    report = ReplayReport(uuid.uuid4().hex)
    known = {record.position: record for record in lake.control.ever_quarantined()}
    for position, resolution in _named(request):
        _check_named(lake, known.get(position), position, resolution)
    kept = {position for position, record in known.items() if record.resolution is None}
    lake.control.resolve(dict.fromkeys(request.discarded & kept, str(Resolution.DISCARDED)), report.run_id)
    report.outcomes += [ReplayOutcome(known[position], Resolution.DISCARDED) for position in sorted(request.discarded)]
    wanted = (kept if request.only is None else request.only) - request.discarded
    inputs = [_input(known[position], request) for position in sorted(wanted)]
    replay_context = replay_context_of(lake, report.run_id) if inputs else None
    if replay_context is not None:
        _take_in(lake, replay_context, inputs, report)
    elif inputs:
        reason = "expected a changefeed that was published, found none. Run `ticdc-assets run` first."
        report.outcomes += [ReplayOutcome(one.record, Resolution.STILL_BAD, reason) for one in inputs]
    _record_quarantine(lake, report.run_id)
    return report


def _record_quarantine(lake: Lake, run_id: str) -> None:
    """Record what the tables lack after the replay."""
    newest = lake.control.newest()
    tables = with_quarantine(lake, newest.tables) if newest is not None else ()
    if newest is not None and tables != newest.tables:
        lake.control.record(replace(newest, recorded_at=now(), run_id=run_id, tables=tables))


def _named(request: ReplayRequest) -> Iterator[tuple[RecordPosition, Resolution]]:
    """The records that the request names, and how each is to be resolved."""
    for position in sorted({*(request.only or ()), *request.corrected} - request.discarded):
        yield position, Resolution.REPLAYED
    for position in sorted(request.discarded):
        yield position, Resolution.DISCARDED


def _check_named(lake: Lake, record: QuarantinedRecord | None, position: RecordPosition, wanted: Resolution) -> None:
    if record is None or record.resolution not in (None, wanted):
        raise _not_open(lake, position, record)


def _not_open(lake: Lake, position: RecordPosition, record: QuarantinedRecord | None) -> NotYetError:
    path, line = position
    return NotYetError(
        f"changefeed {lake.changefeed.name}, {path}:{line}",
        "a record of the quarantine that is not resolved yet",
        "none" if record is None else f"one that was {record.resolution} before",
        "`ticdc-assets replay --quarantine` lists them as PATH:LINE.",
    )


def _input(record: QuarantinedRecord, request: ReplayRequest) -> ReplayInput:
    corrected = request.corrected.get(record.position)
    return ReplayInput(record, record.raw) if corrected is None else ReplayInput(record, corrected, is_corrected=True)


def _take_in(lake: Lake, replay_context: ReplayContext, inputs: Sequence[ReplayInput], report: ReplayReport) -> None:
    with tempfile.TemporaryDirectory() as folder:
        replay: Replay[Any] = replay_of(lake)(replay_context, Path(folder))
        new_schemas = replay.new_schemas(inputs)
        if new_schemas:
            lake.control.keep_ddl_events(new_schemas)
            replay_context = (
                replay_context_of(lake, report.run_id, before=replay_context.plan.history) or replay_context
            )
            replay = replay_of(lake)(replay_context, Path(folder))
        judged = replay.judged(inputs)
        for one in judged:
            _require_same_changes(replay_context, replay, one)
        published, held = _published(replay_context, replay, [one for one in judged if not _replayed_before(one)])
    report.added = {i: sum(changelog.rows_by_op.values()) for i, changelog in published.items()}
    _record(lake, replay_context, published)
    source_tables = replay_context.plan.source_tables
    for one in judged:
        holds = (held[i].reason(source_tables[i]) for i in sorted(one.source_tables & held.keys()))
        problem = one.problem or next(holds, "")
        resolution = Resolution.STILL_BAD if problem else Resolution.REPLAYED
        report.outcomes += [ReplayOutcome(record, resolution, problem) for record in one.records]
    replayed = [outcome.record for outcome in report.outcomes if outcome.resolution is Resolution.REPLAYED]
    still_open = [record.position for record in replayed if record.resolution is None]
    lake.control.resolve(dict.fromkeys(still_open, str(Resolution.REPLAYED)), report.run_id)


def _published(
    replay_context: ReplayContext, replay: Replay[Any], judged: Sequence[Judged[Any]]
) -> tuple[dict[str, Published], dict[str, Hold]]:
    """Decode the sound records in one task and publish their changes as late ones: what each changelog gained, or its
    hold."""
    pieces = [piece for one in judged for piece in one.pieces]
    touched = {i for one in judged for i in one.source_tables}
    if not touched:
        return {}, {}
    targets = {i: target for i, target in replay_context.targets().items() if i in touched}
    done = replay.decode(pieces, targets)
    late = replace(done, parts=tuple(replace(part, late=True) for part in done.parts))
    publication = Publication(
        lake=replay_context.lake,
        run_id=replay_context.run_id,
        plan=replay_context.plan,
        tables=replay_context.tables,
        workers=LocalWorkers(),
        consumed={i: progress_of(table).files for i, table in replay_context.tables.items()},
        deliveries_are_known=False,
        by_position=True,
    )
    held = {
        source_table.id: file.hold
        for file in done.files
        if file.state is not FileState.READ
        for source_table in replay_context.plan.history.ever_called(*file.name)
    }
    published, broken = publication.publish([late], held)
    return published, held | broken


def _replayed_before(one: Judged[Any]) -> QuarantinedRecord | None:
    return next((record for record in one.records if record.resolution is not None), None)


def _require_same_changes(replay_context: ReplayContext, replay: Replay[Any], one: Judged[Any]) -> None:
    """Raise NotYetError where the bytes of a record that was replayed before are not those of its changes."""
    before = _replayed_before(one)
    if before is None:
        return
    lake, tables = replay_context.lake, replay_context.tables
    parts = replay.decode(one.pieces).parts if not one.problem else ()
    if not parts or not all(has_all(tables[part.source_table_id].refresh(), part, lake.by_arrival) for part in parts):
        raise _not_open(lake, before.position, before)


def _record(lake: Lake, replay_context: ReplayContext, published: Mapping[str, Published]) -> None:
    """Record the changelogs' new snapshots, and the tables that are new."""
    plan, recorded = replay_context.plan, lake.recorded(lake.control.newest())
    new = tuple(
        table_record(plan.commit_ranges[i], None, None, plan.locations[i], published[i].table, ())
        for i in sorted(published)
        if i not in recorded
    )
    changelogs = {i: changelog.table for i, changelog in published.items()}
    record_changelogs(lake, replay_context.run_id, changelogs, new)
