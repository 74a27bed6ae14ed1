"""`ticdc-assets load`: an initial load from a Dumpling export, or from TiDB itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.each import EXIT_FAILED
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.errors import ConfigError
from ticdc_assets.names.folding import fold
from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.load.source import DumpChanges
from ticdc_assets.pipeline.load.task import DumpRequest
from ticdc_assets.pipeline.reconcile.load import UpstreamChanges
from ticdc_assets.pipeline.run.load import LoadReport, load
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.dump.listing import METADATA, Dump, read_dump
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.spark.requirements import require_java

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.protocols.dump.form import DumpForm


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of `load`. `place` is None where TiDB is read. `zone` is the time zone of Dumpling's session. Only
    tables that the filter rules `tables` select are loaded."""

    place: str | None
    at: int | None
    zone: str | None
    tables: tuple[str, ...]
    without: tuple[str, ...]
    form: DumpForm


def load_tables(config: Config, changefeed: Changefeed, options: LoadOptions) -> int:
    """Load the tables and print one line. Returns the exit code: 1 if a table was not loaded."""
    terminal, lake = Terminal(), Lake(config, changefeed)
    source = _source(lake, options)
    source.scan()  # refuses before Java starts
    require_java()
    workers = cache(lambda: SparkWorkers(spark.session(config)))
    with spark_stopped_after(config), terminal.working(f"{changefeed.name}: reading the tables"):
        report = load(
            lake,
            source,
            workers,
            jvm_of(config),
            named(changefeed.name, terminal.on_progress),
        )
    terminal.result(_summary(changefeed.name, report))
    for name, error in report.errors.items():
        terminal.note(f"{changefeed.name}, {name}: {error}")
    return EXIT_FAILED if report.errors else 0


def _summary(name: str, report: LoadReport) -> str:
    if report.record is None:
        return f"{name}: there is no table that `tables` selects."
    state = "complete" if report.record.complete else "not complete"
    reached = f"{state} up to {moment(report.record.tso)}"
    if not report.rows and not report.errors:
        return f"{name}: everything is loaded; {reached}."
    rows = sum(report.rows.values())
    return f"{name}: {counted(rows, 'row')} of {counted(len(report.record.tables), 'table')} loaded, {reached}."


def _source(lake: Lake, options: LoadOptions) -> DumpChanges:
    if options.place is not None:
        return DumpChanges(lake, _request(lake.changefeed, options, options.place))
    without = [split_name(text) for text in options.without]
    return UpstreamChanges(lake, options.at, TableFilter(options.tables), without)


def _request(changefeed: Changefeed, options: LoadOptions, place: str) -> DumpRequest:
    root = open_root(place)
    dump = read_dump(root)
    selected = TableFilter(options.tables)
    left = {fold_name(*table.name) for table in dump.tables if not selected.matches(*table.name)}
    if options.zone is not None:
        time_zone(options.zone)  # raises where there is none
    return DumpRequest(
        dump=dump,
        root_uri=place,
        ts=_ts_of(root, dump, options.at),
        form=options.form,
        zone=options.zone or changefeed.time_zone,
        without=frozenset((*left, *_without(dump, options.without))),
    )


def _ts_of(root: Root, dump: Dump, at: int | None) -> int:
    """The dump's TSO. Raises ConfigError where the command line and `metadata` do not agree, or neither names one."""
    if at is None and dump.tso is None:
        advice = "Export with --consistency snapshot, or give the TSO of --snapshot with --at."
        raise ConfigError(root.where(METADATA), "one TSO in its lines `Pos:`", "none, or several", advice)
    if at is not None and dump.tso not in (None, at):
        advice = "Leave --at out, or give that TSO."
        raise ConfigError("--at", f"{dump.tso}, the TSO in {root.where(METADATA)}", str(at), advice)
    return at or dump.tso or 0


def _without(dump: Dump, texts: Sequence[str]) -> list[SourceName]:
    known = {".".join(fold_name(*table.name)): fold_name(*table.name) for table in dump.tables}
    unknown = [text for text in texts if fold(text) not in known]
    if unknown:
        raise ConfigError("--without", "a table of the dump, as SCHEMA.TABLE", unknown[0], "Check the name.")
    return [known[fold(text)] for text in texts]
