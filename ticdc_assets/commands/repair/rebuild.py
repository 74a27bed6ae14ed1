"""`ticdc-assets rebuild`: rebuilds mirrors from their changelogs, or changelogs and mirrors from the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.each import each
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.rebuild.run import RebuildReport, RebuildRequest, rebuild_tables

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

_HELD: Final = (TableState.STOPPED, TableState.WAITING)


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The options of `rebuild`."""

    tables: tuple[str, ...]
    from_source: bool
    at: int | None
    as_json: bool
    day: date | None = None


def rebuild(config: Config, chosen: Sequence[Changefeed], options: RebuildOptions) -> int:
    """Print one line per table. Returns the exit code: 1 if any table was not rebuilt."""
    terminal, request = Terminal(), RebuildRequest(options.tables, options.from_source, options.at, options.day)
    results: list[dict[str, Any]] = []

    def rebuilt(changefeed: Changefeed) -> bool:
        lake = Lake(config, changefeed)
        with terminal.working(f"{changefeed.name}: looking at its tables"):
            report = rebuild_tables(lake, jvm_of(config), request, named(changefeed.name, terminal.on_progress))
        objects = as_objects(changefeed.name, lake, report)
        results.extend(objects)
        if not options.as_json:
            print_tables(terminal, objects)
        for table in objects:
            if table["error"]:
                terminal.note(f"{changefeed.name}, {table['table']}: {table['error']}")
        return not report.errors

    with spark_stopped_after(config):
        code = each(chosen, rebuilt, terminal.note)
    if options.as_json:
        terminal.json(results)
    return code


def as_objects(changefeed: str, lake: Lake, report: RebuildReport) -> list[dict[str, Any]]:
    """The result of each table as JSON values."""
    recorded = Lake.recorded(report.record)
    return [
        {
            "changefeed": changefeed,
            "table": f"{recorded[i].schema}.{recorded[i].table}",
            "rebuilt": i in report.rebuilt,
            "watermark": report.rebuilt[i].watermark if i in report.rebuilt and lake.measures_lag else None,
            "rows": recorded[i].rows,
            "state": recorded[i].state,
            "note": recorded[i].note,
            "error": report.errors.get(i, ""),
        }
        for i in (*report.rebuilt, *report.errors)
    ]


def print_tables(terminal: Terminal, objects: Sequence[dict[str, Any]]) -> None:
    """Print a line for each table: up to where it was rebuilt, and why it stays stopped or waiting."""
    for table in objects:
        if table["rebuilt"]:
            reached = f" up to {moment(table['watermark'])}" if table["watermark"] else ""
            held = f" The table stays {table['state']}: {table['note']}" if table["state"] in _HELD else ""
            terminal.result(f"{table['changefeed']}, {table['table']}: rebuilt{reached}, {table['rows']:,} rows.{held}")
        else:
            terminal.result(f"{table['changefeed']}, {table['table']}: unchanged.")
