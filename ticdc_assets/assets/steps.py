"""What every step has at hand: the names, the tables with assets, the changefeed's run, and where to report to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import KnownTable, asset_names
from ticdc_assets.assets.metadata import Clock
from ticdc_assets.assets.resources import PROGRESS, ChangefeedRun
from ticdc_assets.schema.history import SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.schema.history import History, Lineage
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord

RETRY: Final = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
CODE_VERSION: Final = "1"
"""Raised when the same stream would come out otherwise than before."""

DATA_VERSION_TAG: Final = "dagster/data_version"


@dataclass(frozen=True, slots=True)
class Feed:
    """One changefeed as the definitions know it: fixed when the code location loads."""

    names: FeedNames
    tables: tuple[KnownTable, ...]

    @property
    def mirrored(self) -> tuple[KnownTable, ...]:
        return tuple(table for table in self.tables if table.has_key)


def sayer(context: dg.AssetExecutionContext) -> Callable[[str], None]:
    """Tells progress to Dagster's log, and to whoever else listens in this process."""

    def say(text: str) -> None:
        context.log.info(text)
        listener = PROGRESS.get()
        if listener is not None:
            listener(text)

    return say


def clock(run: ChangefeedRun) -> Clock:
    """The source's checkpoint and the present."""
    return Clock(run.checkpoint, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Reported:
    """One lineage to report: under which name its assets are, and what the newest record says of it."""

    name: SourceName
    lineage: Lineage
    record: TableRecord


def reported(history: History, record: WatermarkRecord | None) -> dict[SourceName, Reported]:
    """By folded asset name, every lineage that the record has."""
    names = asset_names(history)
    records = {table.lineage: table for table in record.tables} if record else {}
    return {
        fold_name(*names[lineage.id]): Reported(names[lineage.id], lineage, records[lineage.id])
        for lineage in history.lineages
        if lineage.id in records
    }


def without_assets(feed: Feed, found: dict[SourceName, Reported]) -> list[Reported]:
    """What was found and has no asset in the definitions that this run was started with."""
    known = folded(feed.tables)
    return [table for name, table in found.items() if name not in known]


def folded(tables: Iterable[KnownTable]) -> set[SourceName]:
    return {fold_name(table.schema, table.table) for table in tables}
