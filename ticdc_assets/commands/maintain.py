"""`ticdc-assets maintain`: thin the records, expire snapshots, compact where asked, remove leftovers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets import spark
from ticdc_assets.amounts import counted
from ticdc_assets.assets.known_tables import state_folder
from ticdc_assets.commands.each import each
from ticdc_assets.commands.jvm import jvm_of
from ticdc_assets.commands.terminal import Terminal, noise_kept_in
from ticdc_assets.commands.tso_text import moment
from ticdc_assets.pipeline.lake import Lake, to_look_at
from ticdc_assets.pipeline.maintenance_run import DAYS_KEPT, OLDER_THAN_HOURS, MaintenanceReport, Policy, maintain
from ticdc_assets.tables.retention import pin, unpin

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

LISTED_MAX: Final = 20
"""Leftovers that are shown to a person; --json has them all."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says; ages that it does not say are None."""

    older_than_hours: float | None
    days_kept: int | None
    compact: bool
    dry_run: bool
    as_json: bool
    pin: int | None = None
    unpin: int | None = None

    def policy(self) -> Policy:
        """The same from this moment on."""
        hours = OLDER_THAN_HOURS if self.older_than_hours is None else self.older_than_hours
        days = DAYS_KEPT if self.days_kept is None else self.days_kept
        return Policy(datetime.now(UTC), hours, days, self.compact, self.dry_run)


def change_pins(config: Config, changefeed: Changefeed, asked: Asked) -> int:
    """Pin or unpin a record, and nothing else; in a dry run only tell what would be pinned then."""
    terminal, control = Terminal(), Lake(to_look_at(config), changefeed).control
    pins: tuple[int, ...] = ()
    if asked.pin is not None:
        pins = pin(control, asked.pin, write=not asked.dry_run)
    if asked.unpin is not None:
        pins = unpin(control, asked.unpin, write=not asked.dry_run)
    if asked.as_json:
        terminal.json({"changefeed": changefeed.name, "dry_run": asked.dry_run, "pinned": pins})
    else:
        verb = "would be pinned" if asked.dry_run else "pinned"
        terminal.tell(f"{changefeed.name}: {verb}: {', '.join(map(moment, pins)) or 'none'}.")
    return 0


def maintain_all(config: Config, chosen: Sequence[Changefeed], asked: Asked) -> int:
    """Each changefeed after the other. The exit code is 1 where one failed or a location had to be left alone."""
    terminal = Terminal()
    reports: list[MaintenanceReport] = []

    def maintained(changefeed: Changefeed) -> bool:
        with terminal.working(f"{changefeed.name}: looking at its tables"):
            report = _maintain(terminal, config, changefeed, asked)
        reports.append(report)
        _tell(terminal, report, asked.as_json)
        return not report.left_alone

    with noise_kept_in(state_folder(config) / "maintain.log"):
        try:
            code = each(chosen, maintained, terminal.note)
        finally:
            spark.stop()
    if asked.as_json:
        terminal.json([as_object(report) for report in reports])
    return code


def _maintain(terminal: Terminal, config: Config, changefeed: Changefeed, asked: Asked) -> MaintenanceReport:
    def say(text: str) -> None:
        terminal.say(f"{changefeed.name}: {text}")

    return maintain(Lake(to_look_at(config), changefeed), asked.policy(), jvm_of(config), say)


def as_object(report: MaintenanceReport) -> dict[str, Any]:
    """Everything that went, by name."""
    return {
        "changefeed": report.changefeed,
        "dry_run": report.dry_run,
        "records": report.records,
        "tables": [
            {"table": name, "branches": list(found.branches), "snapshot_ids": list(found.snapshot_ids)}
            for name, found in sorted(report.expired.items())
        ],
        "compacted": [{"table": name, "files": count} for name, count in sorted(report.compacted.items())],
        "leftovers": [{"uri": leftover.uri, "size_bytes": leftover.size_bytes} for leftover in report.leftovers],
        "left_alone": [{"location": place, "reason": why} for place, why in sorted(report.left_alone.items())],
    }


def _tell(terminal: Terminal, report: MaintenanceReport, as_json: bool) -> None:
    if not as_json:
        terminal.tell(summary(report))
        for leftover in report.leftovers[:LISTED_MAX]:
            terminal.tell(f"  {leftover.uri}")
        if len(report.leftovers) > LISTED_MAX:
            terminal.tell(f"  and {len(report.leftovers) - LISTED_MAX:,} more; --json lists all.")
    for place, reason in sorted(report.left_alone.items()):
        terminal.note(f"{place}: left alone, because {reason}.")


def summary(report: MaintenanceReport) -> str:
    """One line on a changefeed."""
    would = "would remove" if report.dry_run else "removed"
    compacted = (
        f" compacted {counted(sum(report.compacted.values()), 'file')} of {counted(len(report.compacted), 'table')};"
    )
    return (
        f"{report.changefeed}:{compacted if report.compacted else ''} {would} {counted(report.records, 'record')}, "
        f"{counted(report.snapshots, 'snapshot')}, {counted(report.branches, 'branch', 'branches')} of killed runs "
        f"and {counted(len(report.leftovers), 'leftover file')} of {counted(report.size_bytes, 'byte')}."
    )
