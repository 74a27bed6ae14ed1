"""What is pending of a changefeed and what is held, told without Dagster: to import it takes longer than to look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.known_tables import is_sample, remember, tables_of
from ticdc_assets.assets.verdicts import goes_on, nothing_quarantined, source_moves
from ticdc_assets.commands.each import EXIT_FAILED
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror_work import blocked_tables, pending_work
from ticdc_assets.pipeline.runs import run_of

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.pipeline.message_pending import PendingMessages
    from ticdc_assets.pipeline.storage_run import Pending
    from ticdc_assets.tables.control import WatermarkRecord

Counts = dict[str, int]
_NAMES_MAX: Final = 5
"""How many tables a warning names."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one changefeed. `faults` are what needs somebody, `warnings` what does not; both as sentences.

    `error_code` is the exit code of the error that ended it, 0 where none did.
    """

    changefeed: str
    record: WatermarkRecord | None
    was_needed: bool
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: dict[str, Counts] = field(default_factory=dict)
    error_code: int = 0

    @property
    def exit_code(self) -> int:
        """What this changefeed alone gives."""
        return self.error_code or (EXIT_FAILED if self.faults else 0)


def looked_at(config: Config, changefeed: Changefeed, until: int | None) -> tuple[Ran, bool]:
    """What there is to say without a run, and whether one is needed."""
    lake = Lake(config, changefeed)
    pending = run_of(lake, until).look()
    warning = remember(config, changefeed.name, tables_of(pending.history, lake.follows))
    warnings = tuple(filter(None, (warning, _asks_for_nothing(changefeed, pending))))
    needed = is_needed(lake, pending)
    if not needed and until is None:
        # A run has a check that says this. That nothing is pending may be because nothing is written any more.
        clock = Clock(pending.checkpoint, datetime.now(UTC), lake.tells_time)
        moves = source_moves(clock, is_sample(config))
        warnings += () if moves.passed else (f"{changefeed.name}: {moves.sentence}",)
    return Ran(changefeed.name, pending.record, False, tuple(held(lake, pending.record)), warnings), needed


def _asks_for_nothing(changefeed: Changefeed, pending: Pending | PendingMessages) -> str:
    """The warning that the config's `tables` leave out all that the source has."""
    names = sorted({".".join(lineage.name) for lineage in pending.history.lineages if lineage.dropped_ts is None})
    if not names or pending.intervals:
        return ""
    more = len(names) - _NAMES_MAX
    there = ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{changefeed.name}: `tables` asks for none of the tables that the source has: {there}"


def is_needed(lake: Lake, pending: Pending | PendingMessages) -> bool:
    """Whether a run would change anything: also where one was interrupted before its mirrors or its record."""
    record = pending.record
    if not pending.is_empty or record is None:
        return not pending.is_empty
    unfinished = not record.complete and not blocked_tables(record.tables)
    errors: dict[str, str] = {}
    return unfinished or bool(pending_work(lake, pending.history, record, errors=errors) or errors)


def held(lake: Lake, record: WatermarkRecord | None) -> Iterator[str]:
    """What needs somebody, a sentence each."""
    for table in blocked_tables(record.tables if record else ()):
        yield f"{lake.changefeed.name}, {table.schema}.{table.table}: {goes_on(table).sentence}"
    verdict = nothing_quarantined(lake.control.quarantined(), f"{'.'.join(lake.control.namespace)}.quarantine")
    if not verdict.passed:
        yield f"{lake.changefeed.name}: {verdict.sentence}"
