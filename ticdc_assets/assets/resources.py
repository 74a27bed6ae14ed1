"""What the steps of a changefeed share, opened on first use: the catalog, the scan of the source, Spark.

One `ChangefeedRun` lives as long as a Dagster run in one process, so its steps share one scan and one Spark session.
Loading definitions opens nothing, and a run with nothing to do starts no JVM.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from ticdc_assets import spark
from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.table_status import Reported, reported
from ticdc_assets.config import Changefeed, Config, load
from ticdc_assets.errors import ConfigError, LakeError, SourceError, StaleRunError, TicdcAssetsError
from ticdc_assets.faults import interrupted_by, note_frames, redacted_error
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.pipeline.quarantine import quarantined_by_table
from ticdc_assets.pipeline.record import ChangelogReport
from ticdc_assets.pipeline.run import ChangelogRun, run_of
from ticdc_assets.pipeline.source import Pending
from ticdc_assets.pipeline.sources import is_landed
from ticdc_assets.plurals import counted
from ticdc_assets.printable import printable
from ticdc_assets.schema.history.source_table import SourceName
from ticdc_assets.tso import parse_tso
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.control.records import QuarantinedRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


PROGRESS: Final[ContextVar[OnProgress | None]] = ContextVar("progress", default=None)
"""Receives the progress of a run in this process too; the command line sets it."""


@dataclass(slots=True)
class RunOutcome:
    """What the steps of one run have read and done so far."""

    offsets_left: int = 0
    pending: Pending | None = None
    checkpoint: int | None = None
    changelogs: ChangelogReport | None = None
    tables: dict[SourceName, Reported] | None = None
    quarantined: dict[str, list[QuarantinedRecord]] | None = None


@dataclass
class ChangefeedRun:
    """One changefeed in one Dagster run. `until` is the TSO at which the run stops; None for no limit."""

    config: Config
    changefeed: Changefeed
    until: int | None = None
    outcome: RunOutcome = field(default_factory=RunOutcome)

    @cached_property
    def lake(self) -> Lake:
        return Lake(self.config, self.changefeed)

    @cached_property
    def run(self) -> ChangelogRun:
        return run_of(self.lake, self.until)

    def land(self, on_progress: OnProgress) -> None:
        """Copy the current messages of a Kafka source into the lake; does nothing for other sources."""
        if not is_landed(self.changefeed):
            return
        report = land(self.lake, self.workers(), on_progress)
        if report.left:
            on_progress(f"{counted(report.left, 'offset')} left for the next run, by the bounds of source.kafka")
        if report.messages:
            self.forget()
        self.outcome.offsets_left = report.left

    def pending(self) -> Pending:
        """The scan of the source, shared by the steps of this run."""
        if self.outcome.pending is None:
            self.outcome.pending = self.run.scan()
        return self.outcome.pending

    def publish_changelogs(self, on_progress: OnProgress, only: Collection[str] | None = None) -> ChangelogReport:
        """Append everything that the scan found to the changelogs, or to those of the source tables `only`, by id."""
        self.outcome.changelogs = self.run.publish_changelogs(self.pending(), self.workers(), on_progress, only)
        self.published()
        return self.outcome.changelogs

    def clock(self) -> Clock:
        """The TSO up to which the source is complete (0 where it has no watermark), and the current time."""
        if self.outcome.checkpoint is None:
            self.outcome.checkpoint = self._checkpoint()
        return Clock(self.outcome.checkpoint, datetime.now(UTC), self.lake.measures_lag)

    def _checkpoint(self) -> int:
        checkpoint = self.run.source.checkpoint()
        return self.pending().checkpoint if checkpoint is None else checkpoint

    def tables(self) -> dict[SourceName, Reported]:
        """The newest record of every table, by asset name."""
        if self.outcome.tables is None:
            self.outcome.tables = reported(self.lake.history(), self.lake.control.newest())
        return self.outcome.tables

    def quarantined(self) -> dict[str, list[QuarantinedRecord]]:
        """The records in quarantine, by source table."""
        if self.outcome.quarantined is None:
            self.outcome.quarantined = quarantined_by_table(self.lake.history(), self.lake.control.quarantined())
        return self.outcome.quarantined

    def published(self) -> None:
        """Discard what was read from the control tables. Called after this run has published."""
        self.outcome.tables = self.outcome.quarantined = None

    def forget(self) -> None:
        """Scan again on next use. Called after another run has published."""
        self.outcome = RunOutcome()

    def workers(self) -> Workers:
        """Workers that start Spark with their first task; a run without tasks starts no JVM."""
        return spark.LazySparkWorkers(self.config)

    def jvm(self) -> JvmCatalog:
        """The catalog in Spark's JVM, which starts if it is not running."""
        from ticdc_assets.tables.iceberg.jvm import JvmCatalog

        return JvmCatalog(spark.session(self.config), self.config.catalog.name)


def lake_resource(config: Config, changefeed: Changefeed) -> dg.ResourceDefinition:
    """A new `ChangefeedRun` for every Dagster run. The TSO to stop at is text, as browsers round large numbers."""

    def start(context: dg.InitResourceContext) -> ChangefeedRun:
        until = context.resource_config["until"]
        return ChangefeedRun(config, changefeed, None if until is None else tso_of("until", until))

    schema = {"until": dg.Field(dg.Noneable(str), default_value=None, description="Stop at this TSO.")}
    return dg.ResourceDefinition(start, config_schema=schema, description=f"The changefeed {changefeed.name}.")


def tso_of(name: str, text: str) -> int:
    """Parse a TSO or a time with its zone from a setting. Raises ConfigError."""
    try:
        return parse_tso(text)
    except ValueError:
        advice = "Take one from the UI or `ticdc-assets tables`."
        expected = "a TSO, digits only, or a time with its zone"
        raise ConfigError(name, expected, "something else", advice) from None


class LakeSpark(LazyPySparkResource):  # type: ignore[misc]  # dagster_pyspark has no types
    """The lake's Spark session for a user's own assets: started on first use, with the catalog configured.

    `config_path` is the changefeeds.yaml; "" means the file in TICDC_ASSETS_CONFIG.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012  a pydantic field; the Spark settings are in changefeeds.yaml
    config_path: str = ""

    def _init_session(self) -> None:
        path = Path(self.config_path) if self.config_path else None
        self._spark_session = spark.session(load(path, os.environ))  # one per process; later calls return the same one


def spark_of(config: Config) -> LakeSpark:
    """The same for a config that is loaded."""

    class OfConfig(LakeSpark):
        def _init_session(self) -> None:
            self._spark_session = spark.session(config)

    return OfConfig(config_path=str(config.path))


# -- faults ------------------------------------------------------------------------------------------------------------


RETRIES_MAX: Final = 2
RETRY_AFTER_S: Final = 2


@contextmanager
def report_failures(run: ChangefeedRun, retry_number: int = RETRIES_MAX) -> Iterator[None]:
    """Turn every error into a step failure with one sentence, and retry those that may be temporary.

    Messages of libraries may quote a row, so only the class and position of their errors are shown. Retries are
    requested here and not with a RetryPolicy, which would also restart a step that a user interrupts. An error that
    only follows from an interruption, such as an unfinished call to Spark, is raised as the interruption.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, dg.DagsterError):
            raise
        if interruption := interrupted_by(error):
            raise interruption from None
        run.forget()
        if not isinstance(error, TicdcAssetsError):
            note_frames(error)
        fault = redacted_error(error)
    else:
        return
    if isinstance(fault, (StaleRunError, SourceError, LakeError)) and retry_number < RETRIES_MAX:
        raise dg.RetryRequested(RETRIES_MAX, RETRY_AFTER_S * 2**retry_number) from fault
    raise dg.Failure(printable(str(fault)), allow_retries=False) from fault
