"""`ticdc-assets verify --repair`: compares mirrors with TiDB, adds its rows where they differ, compares again; and
`ticdc-assets resync`: brings tables to what TiDB has, so that those that are held or new go on from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.commands.read.verify import VerifyOptions, as_object, compared
from ticdc_assets.commands.repair.replay import mirrors_followed
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.reconcile.chosen_rows import resync_rows
from ticdc_assets.pipeline.reconcile.repair import RepairReport, rebuild_changed_by_others, repair
from ticdc_assets.pipeline.reconcile.resync import ResyncReport, resync_tables
from ticdc_assets.pipeline.reconcile.whole_lake import resync_all
from ticdc_assets.plurals import counted
from ticdc_assets.sources.upstream.rows import UpstreamRows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.pipeline.history.verify import TableVerdict


def repair_mirrors(config: Config, changefeed: Changefeed, options: VerifyOptions) -> int:
    """Print the verdict of each table, what was added to it, and the verdict after that. Returns the exit code: 1 if a
    table still differs or could not be compared."""
    if options.at is not None:
        advice = "A repair is made at the TSO that the mirrors have now: leave out --at."
        raise ConfigError("--repair", "no --at", str(options.at), advice)
    if options.extent.sample is not None:
        advice = "Repair the tables that differ in a sample: `ticdc-assets verify --repair --table SCHEMA.TABLE`."
        raise ConfigError("--repair", "no --sample", "a sample", advice)
    terminal, lake = Terminal(), Lake(config, changefeed)
    with spark_stopped_after(config):
        verdicts = compared(terminal, lake, options)
        rebuilt, faults = _rebuilt(terminal, config, lake, verdicts)
        if rebuilt:
            again = {v.source_table: v for v in compared(terminal, lake, replace(options, tables=rebuilt))}
            verdicts = [again.get(verdict.source_table, verdict) for verdict in verdicts]
        differing = [verdict for verdict in verdicts if verdict.comparison is not None and not verdict.is_equal]
        report = _repaired(terminal, lake, differing, options) if differing else RepairReport("")
        faults += mirrors_followed(terminal, config, lake, report.run_id) if report.added else []
        for fault in faults:
            terminal.note(fault)
        names = tuple(".".join(verdict.name) for verdict in differing if verdict.source_table in report.added)
        repaired = compared(terminal, lake, replace(options, tables=names)) if names else []
    newest = {verdict.source_table: verdict for verdict in (*verdicts, *repaired)}
    if options.as_json:
        objects = {i: as_object(verdict, options.keys) for i, verdict in newest.items()}
        terminal.json([objects[i] | {"repaired": report.added.get(i, 0)} for i in objects])
    return 0 if all(verdict.is_equal for verdict in newest.values()) and not faults else 1


def _rebuilt(
    terminal: Terminal, config: Config, lake: Lake, verdicts: list[TableVerdict]
) -> tuple[tuple[str, ...], list[str]]:
    """The names of the tables that were rebuilt because another writer had changed them, and the errors."""
    compared_tables = [verdict.source_table for verdict in verdicts if verdict.comparison is not None]
    on_progress = named(lake.changefeed.name, terminal.on_progress)
    rebuilt, errors = rebuild_changed_by_others(lake, jvm_of(config), compared_tables, on_progress)
    for name in rebuilt.values():
        terminal.note(f"{name}: another writer has changed it: it is rebuilt from its changelog, and compared again.")
    return tuple(rebuilt.values()), list(errors.values())


def _repaired(terminal: Terminal, lake: Lake, differing: list[TableVerdict], options: VerifyOptions) -> RepairReport:
    upstream = lake.changefeed.large_rows.upstream
    assert upstream is not None
    with UpstreamRows(upstream) as rows, terminal.working(f"{lake.changefeed.name}: reading the rows that differ"):
        report = repair(lake, differing, rows)
    for verdict in differing:
        name, added = ".".join(verdict.name), report.added.get(verdict.source_table)
        if added is None:
            terminal.note(f"{name}: not repaired: {report.errors[verdict.source_table]}")
        elif not options.as_json:
            terminal.result(f"{name}: repaired: {counted(added, 'change')} at {moment(verdict.tso)}")
    return report


# -- resync ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResyncOptions:
    """The options of `resync`. With `where` or a file of `keys`, those rows of one table."""

    tables: tuple[str, ...]
    at: int | None
    where: str | None
    keys: Path | None
    as_json: bool


def resync(config: Config, changefeed: Changefeed, options: ResyncOptions) -> int:
    """Print one line per table; where none is named, all tables are brought to what TiDB has. Returns the exit code:
    1 if a table has an error or a mirror could not follow."""
    terminal, lake = Terminal(), Lake(config, changefeed)
    names = [split_name(text) for text in dict.fromkeys(options.tables)]
    is_of_rows = options.where is not None or options.keys is not None
    lines = _lines(options.keys) if options.keys is not None else ()
    with spark_stopped_after(config):
        on_progress = named(changefeed.name, terminal.on_progress)
        if is_of_rows:
            report = resync_rows(lake, names[0], options.where, lines, jvm_of(config))
        elif names:
            report = resync_tables(lake, names, options.at, jvm_of(config), on_progress)
        else:
            report = resync_all(lake, options.at, jvm_of(config), on_progress)
        faults = mirrors_followed(terminal, config, lake, report.run_ids[-1]) if report.run_ids else []
    for name in report.rebuilt:
        terminal.note(f"{name}: another writer had changed it: it was rebuilt from its changelog first.")
    for fault in (*(f"{name}: {error}" for name, error in report.errors.items()), *faults):
        terminal.note(fault)
    if options.as_json:
        terminal.json(as_objects(report))
        return 1 if report.errors or faults else 0
    if report.compared is not None:
        terminal.result(f"{'.'.join(names[0])}: {counted(report.compared, 'row')} compared")
    for name, rows in report.copied.items():
        terminal.result(f"{name}: copied at {moment(report.tsos[name])}: {counted(rows, 'row')}")
    for name, changes in report.added.items():
        done = f"repaired at {moment(report.tsos[name])}: {counted(changes, 'change')}"
        terminal.result(f"{name}: {done if changes else f'equal at {moment(report.tsos[name])}'}")
    for name in report.gone:
        terminal.result(f"{name}: TiDB does not have it any more")
    if report.gap is not None:
        begin, end = map(moment, report.gap)
        terminal.result(f"{changefeed.name}: no changes are known between {begin} and {end}. Runs go on from there.")
    return 1 if report.errors or faults else 0


def _lines(file: Path) -> Sequence[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--keys {file}", "a file with keys", type(error).__name__, "Check the path.") from None


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
