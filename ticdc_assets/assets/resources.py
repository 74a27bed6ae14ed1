"""What a step needs of a changefeed, opened when it is first used: catalog, look at the source, Spark.

One `ChangefeedRun` lives as long as a Dagster run in one process, so its steps share one look at the source and one
Spark session. Nothing is opened when definitions load, and a run with nothing to do starts no JVM.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
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
from ticdc_assets.assets.reported import Reported, kept_aside, reported
from ticdc_assets.config import Changefeed, Config, StorageSource, load
from ticdc_assets.errors import ConfigError, LakeError, SourceError, StaleRunError, TicdcAssetsError
from ticdc_assets.faults import interrupted_by, note_frames, plain
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.message_pending import PendingMessages
from ticdc_assets.pipeline.message_run import MessageRun
from ticdc_assets.pipeline.runs import run_of
from ticdc_assets.pipeline.storage_run import ChangelogReport, Pending, StorageRun
from ticdc_assets.schema.lineage import SourceName
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage import read_checkpoint

if TYPE_CHECKING:
    from ticdc_assets.spark import Answer, Payload, Workers
    from ticdc_assets.tables.control import QuarantinedRecord
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog

Say = Callable[[str], None]

PROGRESS: Final[ContextVar[Say | None]] = ContextVar("progress", default=None)
"""Who else wants to hear how far a run in this process is; the command line does."""


class LazySparkWorkers:
    """Spark's workers, with the session started by the first payload."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        return spark.SparkWorkers(spark.session(self._config)).map(work, payloads) if payloads else []


@dataclass(slots=True)
class Outcome:
    """What the steps of one run have seen and done so far."""

    pending: Pending | PendingMessages | None = None
    checkpoint: int | None = None
    changelogs: ChangelogReport | None = None
    tables: dict[SourceName, Reported] | None = None
    quarantined: dict[str, list[QuarantinedRecord]] | None = None


@dataclass
class ChangefeedRun:
    """One changefeed in one Dagster run. `until` is the TSO the run stops at, None for all there is."""

    config: Config
    changefeed: Changefeed
    until: int | None = None
    outcome: Outcome = field(default_factory=Outcome)

    @cached_property
    def lake(self) -> Lake:
        return Lake(self.config, self.changefeed)

    @cached_property
    def source(self) -> StorageRun | MessageRun:
        return run_of(self.lake, self.until)

    def pending(self) -> Pending | PendingMessages:
        """The look at the source that this run's steps share."""
        if self.outcome.pending is None:
            self.outcome.pending = self.source.look()
        return self.outcome.pending

    def publish_changelogs(self, say: Say) -> ChangelogReport:
        """Bring the changelogs up to what the look found."""
        # Each kind of source takes the look that it gave.
        self.outcome.changelogs = self.source.publish_changelogs(self.pending(), self.workers(), say)  # type: ignore[arg-type]
        self.published()
        return self.outcome.changelogs

    def clock(self) -> Clock:
        """The TSO up to which the source is complete (0 where it does not say), and the present."""
        if self.outcome.checkpoint is None:
            self.outcome.checkpoint = self._checkpoint()
        return Clock(self.outcome.checkpoint, datetime.now(UTC), self.lake.tells_time)

    def _checkpoint(self) -> int:
        if isinstance(self.changefeed.source, StorageSource):
            return read_checkpoint(open_root(self.lake.storage_uri)) or 0
        return self.pending().checkpoint

    def tables(self) -> dict[SourceName, Reported]:
        """What the newest record says of every table, by the name of its assets."""
        if self.outcome.tables is None:
            self.outcome.tables = reported(self.lake.history(), self.lake.control.newest())
        return self.outcome.tables

    def quarantined(self) -> dict[str, list[QuarantinedRecord]]:
        """The records kept aside, by the lineage they are of."""
        if self.outcome.quarantined is None:
            self.outcome.quarantined = kept_aside(self.lake.history(), self.lake.control.quarantined())
        return self.outcome.quarantined

    def published(self) -> None:
        """What was read of the control tables is old now."""
        self.outcome.tables = self.outcome.quarantined = None

    def forget(self) -> None:
        """Look anew next time: another run has published."""
        self.outcome = Outcome()

    def workers(self) -> Workers:
        return LazySparkWorkers(self.config)

    def jvm(self) -> JvmCatalog:
        """The catalog in Spark's JVM, which starts if it is not running yet."""
        from ticdc_assets.tables.iceberg_jvm import JvmCatalog

        return JvmCatalog(spark.session(self.config), self.config.catalog.name)


def lake_resource(config: Config, changefeed: Changefeed) -> dg.ResourceDefinition:
    """A fresh `ChangefeedRun` for every Dagster run, told the TSO to stop at as text: browsers round numbers."""

    def start(context: dg.InitResourceContext) -> ChangefeedRun:
        until = context.resource_config["until"]
        return ChangefeedRun(config, changefeed, None if until is None else tso_of("until", until))

    schema = {"until": dg.Field(dg.Noneable(str), default_value=None, description="Stop at this TSO.")}
    return dg.ResourceDefinition(start, config_schema=schema, description=f"The changefeed {changefeed.name}.")


def tso_of(name: str, text: str) -> int:
    """The TSO that a setting is. Raises ConfigError."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise ConfigError(name, "a TSO, digits only", "something else", "Take one from the UI or `ticdc-assets tables`.")


class LakeSpark(LazyPySparkResource):  # type: ignore[misc]  # dagster_pyspark has no types
    """The Spark session of the lake for a user's own assets: started on first use, the catalog configured.

    `config_path` is the changefeeds.yaml, "" for what TICDC_ASSETS_CONFIG names.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012  a pydantic field; what Spark is told is in changefeeds.yaml
    config_path: str = ""

    def _init_session(self) -> None:
        path = Path(self.config_path) if self.config_path else None
        self._spark_session = spark.session(load(path, os.environ))  # one a process, given back when asked again


# -- faults ------------------------------------------------------------------------------------------------------------


RETRIES_MAX: Final = 2
RETRY_AFTER_S: Final = 2


@contextmanager
def told_plainly(run: ChangefeedRun, retry_number: int = RETRIES_MAX) -> Iterator[None]:
    """Every fault becomes a step failure with one sentence; those that may pass are tried again.

    What libraries say of a fault may quote a row, so of their errors only kind and place are told. Retries are asked
    for here and not by a RetryPolicy, which would also start a step again that somebody interrupts. A fault that only
    came of an interruption, as of an answer of Spark's that nobody waited for, is that interruption.
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
        fault = plain(error)
    else:
        return
    if isinstance(fault, (StaleRunError, SourceError, LakeError)) and retry_number < RETRIES_MAX:
        raise dg.RetryRequested(RETRIES_MAX, RETRY_AFTER_S * 2**retry_number) from fault
    raise dg.Failure(str(fault), allow_retries=False) from fault
