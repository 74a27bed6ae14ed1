"""`ticdc-assets resync`: brings tables to what TiDB has, so that those that are held or new go on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.commands.repair.replay import mirrors_followed
from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.reconcile.resync import ResyncReport, resync_tables
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.config import Changefeed, Config


def resync(config: Config, changefeed: Changefeed, tables: Sequence[str], at: int | None, as_json: bool) -> int:
    """Print one line per table. Returns the exit code: 1 if a table has an error or a mirror could not follow."""
    terminal, lake = Terminal(), Lake(config, changefeed)
    names = [split_name(text) for text in dict.fromkeys(tables)]
    with spark_stopped_after(config):
        on_progress = named(changefeed.name, terminal.on_progress)
        report = resync_tables(lake, names, at, jvm_of(config), on_progress)
        faults = mirrors_followed(terminal, config, lake, report.run_ids[-1]) if report.run_ids else []
    for name in report.rebuilt:
        terminal.note(f"{name}: another writer had changed it: it was rebuilt from its changelog first.")
    for fault in (*(f"{name}: {error}" for name, error in report.errors.items()), *faults):
        terminal.note(fault)
    if as_json:
        terminal.json(as_objects(report))
        return 1 if report.errors or faults else 0
    for name, rows in report.copied.items():
        terminal.result(f"{name}: copied at {moment(report.tsos[name])}: {counted(rows, 'row')}")
    for name, changes in report.added.items():
        done = f"repaired at {moment(report.tsos[name])}: {counted(changes, 'change')}"
        terminal.result(f"{name}: {done if changes else f'equal at {moment(report.tsos[name])}'}")
    return 1 if report.errors or faults else 0


def as_objects(report: ResyncReport) -> list[dict[str, Any]]:
    """The tables that have no error as JSON values: `copied` counts rows, `repaired` changes."""
    return [
        {
            "schema": schema,
            "table": table,
            "tso": report.tsos[name],
            "copied": report.copied.get(name),
            "repaired": report.added.get(name),
        }
        for name in (*report.copied, *report.added)
        for schema, table in [split_name(name)]
    ]
