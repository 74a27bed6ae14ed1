"""`ticdc-assets maintain`: removes old records, expires snapshots, compacts on request, removes orphan files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.each import each
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.maintenance import DAYS_KEPT, OLDER_THAN_HOURS, MaintenanceReport, Policy, maintain
from ticdc_assets.plurals import counted
from ticdc_assets.tables.control.retention import pin_record, unpin

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

LISTED_MAX: Final = 20
"""Files listed on a terminal; --json lists all."""


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """The options of `maintain`; an age is None where it is not given."""

    older_than_hours: float | None
    days_kept: int | None
    compact: bool
    dry_run: bool
    as_json: bool
    pin: int | None = None
    unpin: int | None = None

    def policy(self) -> Policy:
        """The policy of these options, relative to now."""
        hours = OLDER_THAN_HOURS if self.older_than_hours is None else self.older_than_hours
        days = DAYS_KEPT if self.days_kept is None else self.days_kept
        return Policy(datetime.now(UTC), hours, days, self.compact, self.dry_run)


def change_pins(config: Config, changefeed: Changefeed, options: MaintainOptions) -> int:
    """Pin or unpin a record; no maintenance. A dry run only shows the pins that would result."""
    terminal, control = Terminal(), Lake(read_only_config(config), changefeed).control
    pins: tuple[int, ...] = ()
    if options.pin is not None:
        pins = pin_record(control, options.pin, write=not options.dry_run)
    if options.unpin is not None:
        pins = unpin(control, options.unpin, write=not options.dry_run)
    if options.as_json:
        terminal.json({"changefeed": changefeed.name, "dry_run": options.dry_run, "pinned": pins})
    else:
        verb = "would be pinned" if options.dry_run else "pinned"
        terminal.result(f"{changefeed.name}: {verb}: {', '.join(map(moment, pins)) or 'none'}.")
    return 0


def maintain_all(config: Config, chosen: Sequence[Changefeed], options: MaintainOptions) -> int:
    """Maintain one changefeed after another. Returns the exit code: 1 if one failed or a location was left alone."""
    terminal = Terminal()
    reports: list[MaintenanceReport] = []

    def maintained(changefeed: Changefeed) -> bool:
        with terminal.working(f"{changefeed.name}: looking at its tables"):
            report = _maintain(terminal, config, changefeed, options)
        reports.append(report)
        _print(terminal, report, options.as_json)
        return not report.left_alone

    with spark_stopped_after(config, "maintain.log"):
        code = each(chosen, maintained, terminal.note)
    if options.as_json:
        terminal.json([as_object(report) for report in reports])
    return code


def _maintain(
    terminal: Terminal, config: Config, changefeed: Changefeed, options: MaintainOptions
) -> MaintenanceReport:
    on_progress = named(changefeed.name, terminal.on_progress)
    return maintain(Lake(read_only_config(config), changefeed), options.policy(), jvm_of(config), on_progress)


def as_object(report: MaintenanceReport) -> dict[str, Any]:
    """The report as JSON values: everything that was removed, by name."""
    return {
        "changefeed": report.changefeed,
        "dry_run": report.dry_run,
        "records": report.records,
        "messages": report.messages,
        "tables": [
            {"table": name, "branches": list(found.branches), "snapshot_ids": list(found.snapshot_ids)}
            for name, found in sorted(report.expired.items())
        ],
        "compacted": [{"table": name, "files": count} for name, count in sorted(report.compacted.items())],
        "leftovers": [{"uri": leftover.uri, "size_bytes": leftover.size_bytes} for leftover in report.leftovers],
        "late_files": [*report.late_files],
        "left_alone": [{"location": place, "reason": why} for place, why in sorted(report.left_alone.items())],
    }


def _print(terminal: Terminal, report: MaintenanceReport, as_json: bool) -> None:
    if not as_json:
        terminal.result(summary(report))
        for leftover in report.leftovers[:LISTED_MAX]:
            terminal.result(f"  {leftover.uri}")
        if len(report.leftovers) > LISTED_MAX:
            terminal.result(f"  and {len(report.leftovers) - LISTED_MAX:,} more; --json lists all.")
        if report.late_files:
            terminal.lines(late_files(report))
    for place, reason in sorted(report.left_alone.items()):
        terminal.note(f"{place}: left alone, because {reason}.")


def late_files(report: MaintenanceReport) -> str:
    """The late files of a changefeed."""
    verb = "would be" if report.dry_run else "are"
    listed = "".join(f"\n  {path}" for path in report.late_files[:LISTED_MAX])
    count = counted(len(report.late_files), "file")
    return (
        f"{report.changefeed}: {count} came after the folders were closed. They {verb} read by the next run, which "
        f"adds the rows that its tables lack:{listed}"
    )


def summary(report: MaintenanceReport) -> str:
    """One line for a changefeed."""
    would = "would remove" if report.dry_run else "removed"
    compacted = (
        f" compacted {counted(sum(report.compacted.values()), 'file')} of {counted(len(report.compacted), 'table')};"
    )
    messages = f"{counted(report.messages, 'landed message')}, " if report.messages else ""
    return (
        f"{report.changefeed}:{compacted if report.compacted else ''} {would} {messages}"
        f"{counted(report.records, 'record')}, "
        f"{counted(report.snapshots, 'snapshot')}, {counted(report.branches, 'branch', 'branches')} of killed runs "
        f"and {counted(len(report.leftovers), 'orphan file')} of {counted(report.size_bytes, 'byte')}."
    )
