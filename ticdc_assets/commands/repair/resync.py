"""`ticdc-assets resync`: copies tables from TiDB, so that tables that are held or new to the lake go on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.commands.output.tso_text import moment
from ticdc_assets.commands.repair.replay import mirrors_followed
from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.reconcile.copy import CopyReport, copy_tables, live_tables, upstream_of
from ticdc_assets.plurals import counted
from ticdc_assets.spark import SparkWorkers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.config import Changefeed, Config


def resync(config: Config, changefeed: Changefeed, tables: Sequence[str], at: int | None, as_json: bool) -> int:
    """Print one line per table. Returns the exit code: 1 if a table could not be copied or a mirror could not follow.

    A table that is not held is left as it is.
    """
    terminal, lake = Terminal(), Lake(config, changefeed)
    upstream_of(lake)
    names = [split_name(text) for text in dict.fromkeys(tables)]
    live = live_tables(lake, names)
    for shown in map(".".join, live):
        terminal.note(
            f"{shown}: it is live. `ticdc-assets verify --repair --table {shown}` adds what differs from TiDB."
        )
    wanted = [name for name in names if name not in live]
    if not wanted:
        return 0
    with spark_stopped_after(config):
        workers = SparkWorkers(jvm_of(config)().spark)
        report = copy_tables(lake, wanted, at, workers, named(changefeed.name, terminal.on_progress))
        faults = mirrors_followed(terminal, config, lake, report.run_id) if report.rows else []
    for fault in (*(f"{shown}: not copied: {error}" for shown, error in report.errors.items()), *faults):
        terminal.note(fault)
    if as_json:
        terminal.json(as_objects(wanted, report))
    for shown, rows in report.rows.items() if not as_json else ():
        terminal.result(f"{shown}: copied at {moment(report.tsos[shown])}: {counted(rows, 'row')}")
    return 1 if report.errors or faults else 0


def as_objects(names: Sequence[tuple[str, str]], report: CopyReport) -> list[dict[str, Any]]:
    """The tables that were copied as JSON values."""
    copied = ((name, ".".join(name)) for name in names)
    return [
        {"schema": name[0], "table": name[1], "tso": report.tsos[shown], "rows": report.rows[shown]}
        for name, shown in copied
        if shown in report.rows
    ]
