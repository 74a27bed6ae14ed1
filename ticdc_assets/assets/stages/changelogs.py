"""The decode step: reads all new data once and appends to every changelog."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.hooks import Results
from ticdc_assets.assets.known_tables import KnownTable, asset_names
from ticdc_assets.assets.metadata.figures import Metadata, ShownTable, changelog_metadata
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages.news import news
from ticdc_assets.assets.stages.run_step import run_step
from ticdc_assets.assets.stages.schema_cache import schema_version
from ticdc_assets.assets.stages.table_specs import changelog_spec
from ticdc_assets.assets.steps import CODE_VERSION, Feed, progress_logger
from ticdc_assets.assets.table_status import Reported, reported
from ticdc_assets.errors import SchemaError
from ticdc_assets.pipeline.quarantine import quarantined_by_table
from ticdc_assets.printable import printable
from ticdc_assets.schema.ddl.tokens import TokenKind, tokens_of
from ticdc_assets.schema.history.source_table import History, fold_name
from ticdc_assets.tables.fields import lake_tables
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import SourceName, SourceTable


RENAMED = "The source no longer has a table of this name. Reload the code location to remove its assets."
SHOWN_MAX: Final = 10
_QUERY_CHARS_MAX: Final = 500
_LITERALS: Final = (TokenKind.STRING, TokenKind.HEX, TokenKind.BITS)
_BACKTICKS: Final = re.compile("`+")

Statements = dict["SourceName", list[tuple[int, str]]]
"""By folded table name, TSO and text of each statement."""


def changelog_assets(feed: Feed) -> dg.AssetsDefinition:
    """All changelogs and the quarantine, in one step: one file may hold rows of several tables and is read once.

    If only some changelogs are selected, the others wait: the next run reads their rows.
    """
    return run_step(feed, feed.names.decode_op, changelog_specs(feed), _publish)


def changelog_specs(feed: Feed) -> list[dg.AssetSpec]:
    """The quarantine and the changelogs."""
    return [_quarantine_spec(feed), *(changelog_spec(feed, table) for table in feed.tables)]


def _quarantine_spec(feed: Feed) -> dg.AssetSpec:
    spec = dg.AssetSpec(
        feed.names.plain.quarantine,
        deps=[feed.names.plain.schema_cache],
        group_name=feed.names.group,
        kinds={"iceberg"},
        code_version=f"{feed.names.protocol}-{CODE_VERSION}",
        description="Records that cannot be decoded: raw, with position and reason.",
    )
    return feed.translated(spec)


def _publish(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
    selected = context.selected_asset_keys
    chosen = [known for known in feed.tables if feed.names.changelog(*known.name) in selected]
    results = _published(context, feed, run, chosen)
    if feed.names.quarantine in selected:
        yield results.quarantine()
    for known in chosen:
        yield results.result(known)
    if len(chosen) == len(feed.tables):
        _log_new_tables(context, feed, results)


def publish_with_news(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
    """All changelogs and the quarantine, in the one step of a requested run."""
    results = _published(context, feed, run, feed.tables)
    outcomes = [(changelog_spec(feed, known), results.result(known)) for known in feed.tables]
    inputs = {feed.names.schema_cache: schema_version(run.pending().history)}
    yield from news(context, feed, [(_quarantine_spec(feed), results.quarantine()), *outcomes], inputs)
    _log_new_tables(context, feed, results)


def _published(
    context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun, chosen: Sequence[KnownTable]
) -> _Results:
    """Append what is pending of the chosen tables, if anything is."""
    pending, on_progress = run.pending(), progress_logger(context)
    if pending.is_empty:
        on_progress("nothing new at the source")
    elif len(chosen) == len(feed.tables):
        run.publish_changelogs(on_progress)
    elif chosen:
        run.publish_changelogs(on_progress, _ids(pending.history, chosen))
    return _Results(feed, run)


def _log_new_tables(context: dg.AssetExecutionContext, feed: Feed, results: _Results) -> None:
    """Log what was appended to tables that have no assets in the loaded definitions."""
    report = results.report
    for table in feed.without_assets(results.reported):
        if report is not None and (table.source_table.id in report.rows_by_op or table.name == table.source_table.name):
            key = changelog_spec(feed, KnownTable(*table.name)).key
            context.log_event(dg.AssetMaterialization(key, metadata=results.metadata(table)))


def _ids(history: History, chosen: Iterable[KnownTable]) -> set[str]:
    """The source tables of these assets."""
    wanted = {fold_name(known.schema, known.table) for known in chosen}
    return {i for i, name in asset_names(history).items() if fold_name(*name) in wanted}


class _Results:
    """Builds the materialization result of each changelog."""

    def __init__(self, feed: Feed, run: ChangefeedRun) -> None:
        pending, self.report = run.pending(), run.outcome.changelogs
        self.reported = reported(pending.history, self.report.record if self.report else pending.record)
        self._names = feed.names
        self._catalog = run.config.catalog.name
        self._clock = run.clock()
        self._places = run.lake.table_locations(pending.history)
        self._control = run.lake.control
        names = (tuple(t.record.changelog) for t in self.reported.values() if t.record.changelog)
        self._tables = lake_tables(run.lake.catalog, names)
        self._statements = by_name([*self._control.ddl_events(), *pending.new_events])
        self._quarantined = self._control.quarantined()
        run_id = self.report.run_id if self.report else None
        now = [record for record in self._quarantined if record.run_id == run_id]
        self._quarantined_now = quarantined_by_table(pending.history, now)

    def quarantine(self) -> dg.MaterializeResult[None]:
        added = self.report.quarantined if self.report else 0
        name = ".".join((self._catalog, *self._control.namespace, "quarantine"))
        counts = {"run_quarantined": added, "dagster/row_count": len(self._quarantined)}
        return dg.MaterializeResult(asset_key=self._names.quarantine, metadata={**counts, "dagster/table_name": name})

    def result(self, known: KnownTable) -> dg.MaterializeResult[None]:
        """A table without changes has a result too: it is now complete up to a later TSO."""
        key, table = self._names.changelog(*known.name), self.reported.get(fold_name(*known.name))
        if table is None:
            return dg.MaterializeResult(asset_key=key, metadata={"state": "unknown", "note": RENAMED})
        version = dg.DataVersion(str(table.record.changelog_snapshot_id))
        return dg.MaterializeResult(asset_key=key, metadata=self.metadata(table), data_version=version)

    def metadata(self, table: Reported) -> Metadata:
        source_table = table.source_table
        identifier = tuple(table.record.changelog or ())
        location = self._places[source_table.id].changelog_location
        shown = ShownTable(self._catalog, identifier, location, self._tables.get(identifier))
        metadata = changelog_metadata(table, shown, self._names.source, self.report, self._clock)
        quarantined = len(self._quarantined_now.get(source_table.id, ()))
        statements = statement_list(source_table, self._statements)
        return {
            **metadata,
            **({"run_quarantined": quarantined} if quarantined else {}),
            **({"statements": dg.MetadataValue.md(statements)} if statements else {}),
        }


# The newest DDL statements of a table, as Markdown for the page of its asset.
#
# Texts in quotes and comments are left out: they may have values of rows, such as those of a partition or a default.


def by_name(events: Iterable[DdlEvent]) -> Statements:
    """The statements of each name, each once, in their order. Schemas without a statement are left out."""
    found: dict[SourceName, dict[tuple[int, str], None]] = {}
    for event in events:
        if event.query and event.table:
            found.setdefault(fold_name(event.schema, event.table), {})[(event.commit_ts, event.query)] = None
    return {name: sorted(statements) for name, statements in found.items()}


def statement_list(source_table: SourceTable, statements: Mapping[SourceName, Sequence[tuple[int, str]]]) -> str:
    """The newest statements of a source table under all its names, the newest first; "" without one."""
    found = {
        statement
        for period in source_table.name_periods
        for statement in statements.get(period.folded, ())
        if period.after_ts <= statement[0] and (period.until_ts is None or statement[0] <= period.until_ts)
    }
    newest = sorted(found, reverse=True)[:SHOWN_MAX]
    older = len(found) - len(newest)
    rest = [f"{older} older in the control table `schemas`."] if older else []
    return "\n\n".join([*(_shown(ts, query) for ts, query in newest), *rest])


def _shown(ts: int, query: str) -> str:
    when = f"{to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC, " if is_tso(ts) else ""
    whole = printable(_without_literals(query))
    text = whole if len(whole) <= _QUERY_CHARS_MAX else f"{whole[:_QUERY_CHARS_MAX]} ..."
    # A text with backticks of its own must not end the block: what follows would be shown as Markdown.
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{when}TSO {ts}\n{fence}sql\n{text}\n{fence}"


def _without_literals(query: str) -> str:
    parts, end = [], 0
    try:
        for token in tokens_of(query):
            gap = " " if token.start > end else ""
            parts.append(gap + ("'...'" if token.kind in _LITERALS else query[token.start : token.end]))
            end = token.end
    except SchemaError:
        return f"{''.join(parts)} ...".strip()
    return "".join(parts).strip()
