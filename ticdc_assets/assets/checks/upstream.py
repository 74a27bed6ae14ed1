"""The check of each mirror, and of each table without a key, against the upstream TiDB, where the config asks for it.

It reads whole tables on both sides, so no run of the changefeed evaluates it: a job of its own does, and
`ticdc-assets check`.
"""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import dagster as dg

from ticdc_assets.assets.checks import results as verdicts
from ticdc_assets.assets.checks.definitions import check_result
from ticdc_assets.assets.checks.results import Verdict
from ticdc_assets.assets.known_tables import KnownTable
from ticdc_assets.assets.resources import ChangefeedRun, report_failures
from ticdc_assets.assets.steps import Feed
from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.history.extent import Extent, Sample
from ticdc_assets.pipeline.history.verify import TableVerdict, extent_text, verify
from ticdc_assets.schema.history.source_table import fold_name

EQUALS_UPSTREAM: Final = "equals_upstream"

_SETTINGS: Final = {
    "sample": dg.Field(
        dg.Noneable(str),
        default_value=None,
        description="Only so many ranges of each table, or a percentage such as 15%: those compared longest ago.",
    ),
    "changed": dg.Field(bool, default_value=False, description="Only the keys that changed since they were compared."),
}


def upstream_check_keys(feed: Feed) -> list[dg.AssetCheckKey]:
    """The keys of these checks; none where the config does not ask for them."""
    tables = feed.tables if feed.shown.verifies else ()
    return [dg.AssetCheckKey(_asset(feed, table), EQUALS_UPSTREAM) for table in tables]


def _asset(feed: Feed, table: KnownTable) -> dg.AssetKey:
    key = feed.names.mirror if table.has_key else feed.names.changelog
    return key(table.schema, table.table)


def upstream_checks(feed: Feed) -> dg.AssetChecksDefinition:
    """One step for all tables: they are compared one after another."""
    names = feed.names
    text = "The table has the rows and values that TiDB had at its TSO."
    specs = [dg.AssetCheckSpec(key.name, asset=key.asset_key, description=text) for key in upstream_check_keys(feed)]

    @dg.multi_asset_check(
        name=names.verify_op,
        specs=specs,
        can_subset=True,
        required_resource_keys={names.resource},
        config_schema=_SETTINGS,
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run: ChangefeedRun = getattr(context.resources, names.resource)
        selected = context.selected_asset_check_keys
        tables = [t for t in feed.tables if dg.AssetCheckKey(_asset(feed, t), EQUALS_UPSTREAM) in selected]
        extent = _extent(context.op_execution_context.op_config)
        with report_failures(run):
            for table, verdict in _verdicts(run, tables, extent):
                yield check_result(dg.AssetCheckKey(_asset(feed, table), EQUALS_UPSTREAM), verdict)

    return checks


def _extent(settings: dict[str, Any]) -> Extent:
    sample = settings["sample"]
    if sample is None or settings["changed"]:
        return Extent(changed=settings["changed"])
    try:
        return Extent(Sample.of(sample))
    except ValueError:
        found = f'"{sample}"'
        raise ConfigError("sample", "a whole number of ranges, or a percentage such as 15%", found, "") from None


def _verdicts(run: ChangefeedRun, tables: list[KnownTable], extent: Extent) -> Iterator[tuple[KnownTable, Verdict]]:
    """One verdict for each table."""
    left: dict[str, tuple[str, KnownTable]] = {}
    for table in tables:
        found = run.tables().get(fold_name(table.schema, table.table))
        if found is None or found.record.state == TableState.DROPPED:
            yield table, verdicts.unknown_table_verdict()
        else:
            left[found.source_table.id] = (f"{found.record.schema}.{found.record.table}", table)
    try:
        names = [name for name, _ in left.values()]
        for verdict in verify(run.lake, None, names, extent=extent) if left else ():
            yield left.pop(verdict.source_table)[1], of_verdict(verdict)
    except NotYetError as error:
        for _, table in left.values():
            yield table, Verdict(False, str(error), warns=True)


def of_verdict(verdict: TableVerdict) -> Verdict:
    """A difference fails; a table that could not be compared warns, and passes where none can be at any TSO."""
    comparison = verdict.comparison
    facts = {"compared": comparison is not None, "tso": str(verdict.tso)}
    if comparison is None:
        sentence = f"Not compared: {verdict.reason.rstrip('.')}."
        return Verdict(not verdict.is_comparable, sentence, warns=True, facts=facts)
    facts |= {"mirror_rows": comparison.mirror_rows, "upstream_rows": comparison.upstream_rows}
    if verdict.row is not None:
        facts |= {"extent": verdict.row.extent, "compared_ranges": verdict.row.compared_ranges}
    facts |= {"not_kept": verdict.unkept} if verdict.unkept else {}
    if verdict.is_equal:
        rows = f"{comparison.mirror_rows:,} rows{extent_text(verdict)}"
        return Verdict(True, f"Equal to TiDB at {verdict.tso}: {rows}.", facts=facts)
    kinds = Counter(row.kind for row in comparison.differences)
    columns = sorted({column for row in comparison.differences for column in row.columns})
    listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    of = f", in the columns {', '.join(columns)}" if columns else ""
    sentence = (
        f"Differs from TiDB at {verdict.tso}: rows {listed}{of}. `ticdc-assets verify --keys` lists their keys. Rows "
        "that are older than the changefeed are missing until a dump is loaded."
    )
    return Verdict(False, sentence, facts={**facts, **kinds})
