"""The asset `days`: a partition for each UTC day of commits, materialized when the day is complete in all tables.

Changelogs are Iceberg tables partitioned by commit day, but their assets have no partitions: a run appends to every day
of which the source has new changes, while Dagster runs a partitioned asset for chosen days only. A day of this asset is
closed by the record whose TSO has passed it, so an asset of a user that is partitioned by day can depend on it. Runs
report the days that they have closed. A run or a backfill of the asset itself decodes its days again.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.job_events import table_events
from ticdc_assets.assets.metadata.shown import shown
from ticdc_assets.assets.stages.run_step import Results, run_step
from ticdc_assets.assets.steps import progress_logger
from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.printable import printable
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.changelog import COMMIT_DAY
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed
    from ticdc_assets.tables.control.records import WatermarkRecord

_TABLES_LISTED_MAX: Final = 100


def days_spec(feed: Feed, first: date) -> dg.AssetSpec:
    """The asset, from its first day on."""
    spec = dg.AssetSpec(
        feed.names.plain.days,
        deps=[feed.names.plain.source],  # which is external: later data at the source make no closed day stale
        group_name=feed.names.group,
        skippable=True,
        partitions_def=dg.DailyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC"),
        description="The days (UTC) whose commits are complete in all changelogs and mirrors, with their changes.",
    )
    return feed.translated(spec)


def days_asset(feed: Feed, first: date) -> dg.AssetsDefinition:
    """The asset; a run decodes chosen days of all tables again, and a backfill has one run for days in succession."""
    policy = dg.BackfillPolicy.single_run()
    return run_step(feed, feed.names.days_op, [days_spec(feed, first)], _decode_again, backfill=policy)


def _decode_again(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
    chosen, record, errors = list(context.partition_keys), run.lake.control.newest(), []
    closed = () if record is None else closed_days(feed, run, record, known=set())
    left = sorted(set(chosen) - {event.partition for event in closed})
    if left:
        advice = "Run the changefeed first; while a table is held, rebuild its days with the job of rebuilds."
        raise NotYetError(f"days, {left[0]}", "a day that is complete in all tables", "one that is not", advice)
    for day in chosen:
        request = RebuildRequest(from_source=True, day=date.fromisoformat(day))
        report = rebuild_tables(run.lake, run.jvm, request, progress_logger(context))
        run.published()
        asked = {"rebuilt_from": "source", "rebuilt_day": day}
        yield from table_events(feed, run, dict.fromkeys(report.rebuilt, asked))
        errors += [f"{day}: {sentence}" for sentence in report.errors.values()]
        if not report.errors:
            others = {key for key in chosen if key != day}
            yield from (e for e in closed_days(feed, run, report.record, others) if e.partition == day)
    if errors:
        raise dg.Failure(printable(" ".join(errors)), allow_retries=False)


def closed_days(
    feed: Feed, run: ChangefeedRun, record: WatermarkRecord, known: set[str]
) -> Iterator[dg.AssetMaterialization]:
    """A materialization for each day that this record closes: the record is complete, its TSO is past the day, and the
    day is not among the `known` ones."""
    first = feed.shown.days_from
    if first is None or not record.complete:
        return
    end = to_datetime(record.tso).astimezone(UTC).date()
    days = [first + timedelta(days=n) for n in range((end - first).days)]
    closed = [day for day in days if day.isoformat() not in known]
    if not closed:
        return
    rows = _rows_by_day(run, record)
    for day in closed:
        yield dg.AssetMaterialization(
            feed.names.days, partition=day.isoformat(), metadata=_metadata(rows.get(day, {}), record)
        )


def _metadata(rows: Mapping[str, int], record: WatermarkRecord) -> dict[str, Any]:
    listed = dict(sorted(rows.items())[:_TABLES_LISTED_MAX])
    return {
        "dagster/partition_row_count": sum(rows.values()),
        "rows_by_table": dg.MetadataValue.json(shown(listed)),
        "tables": len(rows),
        "closed_at_tso": str(record.tso),
    }


def _rows_by_day(run: ChangefeedRun, record: WatermarkRecord) -> dict[date, Counter[str]]:
    """By day of commit, the changes of each changelog, from the manifests of its recorded snapshot."""
    found: dict[date, Counter[str]] = {}
    for table in record.tables:
        changelog = load_or_none(run.lake.catalog, tuple(table.changelog)) if table.changelog else None
        if changelog is None or table.changelog_snapshot_id is None:
            continue
        for part in changelog.inspect.partitions(table.changelog_snapshot_id).to_pylist():
            day = part["partition"][COMMIT_DAY]
            if day is not None:
                found.setdefault(day, Counter())[f"{table.schema}.{table.table}"] += part["record_count"]
    return found
