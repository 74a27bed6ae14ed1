"""What is pending or held in a changefeed, without importing Dagster, which takes longer than the check itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ticdc_assets.assets.checks.results import LagLimits, checkpoint_near_clock, not_held, nothing_quarantined
from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.known_tables import KnownTable, is_sample, tables_with_assets
from ticdc_assets.commands.output.each import EXIT_FAILED
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.history_tables.pending import pending_histories, refusals
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import topic_faults, unlanded_offsets
from ticdc_assets.pipeline.mirror.pending import blocked_tables, pending_work, tables_beyond
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.recorded.views import views_are_behind
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.pipeline.source import Pending
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord

CountsByOperation = dict[str, int]
_NAMES_MAX: Final = 5
"""Tables named in a warning."""


@dataclass(frozen=True, slots=True)
class ChangefeedResult:
    """The result of one changefeed. `faults` and `warnings` are sentences; only `faults` need action.

    `error_code` is the exit code of the error that ended the run, else 0.
    """

    changefeed: str
    record: WatermarkRecord | None
    was_needed: bool
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: dict[str, CountsByOperation] = field(default_factory=dict)
    error_code: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of this changefeed alone."""
        return self.error_code or (EXIT_FAILED if self.faults else 0)


def scan_result(
    config: Config, changefeed: Changefeed, until: int | None
) -> tuple[ChangefeedResult, bool, tuple[KnownTable, ...]]:
    """The result if no run is needed, whether one is needed, and the tables that have assets in it."""
    lake = Lake(config, changefeed)
    pending = run_of(lake, until).scan()
    warnings = (*_asks_for_nothing(changefeed, pending), *_without_history(lake, pending))
    needed = is_needed(lake, pending) or unlanded_offsets(lake) > 0
    if not needed and until is None:
        # A run reports this in a check. If nothing is pending, TiCDC may have stopped writing.
        clock = Clock(pending.checkpoint, datetime.now(UTC), lake.measures_lag)
        moves = checkpoint_near_clock(clock, is_sample(config), LagLimits.of(changefeed.dagster.max_lag_s))
        warnings += () if moves.passed else (f"{changefeed.name}: {moves.sentence}",)
    result = ChangefeedResult(changefeed.name, pending.record, False, tuple(held(lake, pending.record)), warnings)
    return result, needed, tables_with_assets(pending.history, lake.follows)


def _without_history(lake: Lake, pending: Pending) -> Iterator[str]:
    """One sentence for each table that has no history although the config asks for one."""
    names = {source_table.id: ".".join(source_table.name) for source_table in pending.history.source_tables}
    for source_table_id, reason in refusals(lake, pending.history, pending.record).items():
        yield f"{lake.changefeed.name}: {names[source_table_id]} has no history: {reason}"


def _asks_for_nothing(changefeed: Changefeed, pending: Pending) -> Iterator[str]:
    """The warning that the config's `tables` exclude every table of the source."""
    names = sorted(
        {
            ".".join(source_table.name)
            for source_table in pending.history.source_tables
            if source_table.dropped_ts is None
        }
    )
    if not names or pending.commit_ranges:
        return
    more = len(names) - _NAMES_MAX
    there = ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
    yield f"{changefeed.name}: `tables` selects none of the tables of the source: {there}"


def is_needed(lake: Lake, pending: Pending) -> bool:
    """Whether a run would change anything: also after a run that stopped before its mirrors or its record."""
    record = pending.record
    if not pending.is_empty or record is None:
        return not pending.is_empty
    unfinished = not record.complete and not blocked_tables(record.tables)
    unfinished |= any(table.has(NoteCode.SET_BACK) for table in record.tables)  # it may have been restored
    errors: dict[str, Note] = {}
    plan = Plan.of(lake, record, pending.history)
    behind = pending_work(lake, plan, errors=errors) or pending_histories(lake, plan, errors=errors)
    return unfinished or bool(behind or errors) or views_are_behind(lake, pending.history)


def held(lake: Lake, record: WatermarkRecord | None) -> Iterator[str]:
    """One sentence for each topic and table that needs action, with tables of one cause together, and one where tables
    are not at one TSO."""
    for sentence in topic_faults(lake).values():
        yield f"{lake.changefeed.name}: {sentence}"
    for same in _by_cause(blocked_tables(record.tables if record else ())):
        more = f" and {counted(len(same) - 1, 'more table')}" if len(same) > 1 else ""
        yield f"{lake.changefeed.name}, {same[0].schema}.{same[0].table}{more}: {not_held(same[0]).sentence}"
    if record is not None:
        yield from _beyond(lake.changefeed.name, record)
    verdict = nothing_quarantined(lake.control.quarantined(), f"{'.'.join(lake.control.namespace)}.quarantine")
    if not verdict.passed:
        yield f"{lake.changefeed.name}: {verdict.sentence}"


def _by_cause(tables: Iterable[TableRecord]) -> Iterable[list[TableRecord]]:
    """The tables that are held for one reason, and need the same of the user."""
    found: dict[Hashable, list[TableRecord]] = {}
    for table in tables:
        causes = tuple((note.code, note.advice or note.detail) for note in table.notes)
        found.setdefault((table.state, causes), []).append(table)
    return found.values()


def _beyond(changefeed: str, record: WatermarkRecord) -> Iterator[str]:
    for table in tables_beyond(record.tables, record.tso)[:1]:
        found = f"{table.schema}.{table.table} beyond {record.tso}, since a run ended early"
        advice = f"A run up to {table.watermark} or later makes them complete."
        yield f"{changefeed}: expected tables that are complete up to one TSO, found {found}. {advice}"
