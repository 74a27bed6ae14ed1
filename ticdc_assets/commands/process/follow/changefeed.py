"""One changefeed of `run --follow`: its runs, one after the other, with one Spark session.

A run does what a run of the Dagster job does, without Dagster: land, scan, publish the changelogs, merge the mirrors,
record. With an instance, one run in DAGSTER_EVERY_S is the Dagster job itself, which reports all assets and evaluates
all checks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets import spark
from ticdc_assets.assets.checks.results import no_late_rows
from ticdc_assets.assets.known_tables import KnownTable, tables_with_assets
from ticdc_assets.commands.jvm import jvm_of
from ticdc_assets.commands.process.pending import ChangefeedResult, CountsByOperation, held, is_needed
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import LandingReport, land
from ticdc_assets.pipeline.maintenance.upkeep import Upkeep
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.pipeline.sources import is_landed
from ticdc_assets.spark import Workers
from ticdc_assets.spark.requirements import require_java
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.pipeline.record import ChangelogReport
    from ticdc_assets.pipeline.run import ChangelogRun
    from ticdc_assets.pipeline.source import Pending
    from ticdc_assets.tables.control.records import WatermarkRecord

ThroughDagster = Callable[["Changefeed", Sequence[KnownTable], OnProgress], ChangefeedResult]

DAGSTER_EVERY_S: Final = 600.0
RETRY_TIMEOUT_S: Final = 10.0
"""How long a landing waits for brokers: the loop tries again soon, and a stop and the other changefeeds wait for it."""


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """One scan of the source. `ran` is None where nothing was pending; then no table was written.

    `published`: whether tables have changed. They have not where all that is pending lies above the watermark.
    `seconds` gives the time of each stage in order. `checkpoint` is the TSO up to which the source is complete, 0
    without one. `run_id` is empty if only mirrors were merged. `landed` is None where nothing is landed.
    """

    changefeed: str
    checkpoint: int
    seconds: Mapping[str, float]
    run_id: str = ""
    ran: ChangefeedResult | None = None
    landed: LandingReport | None = None
    published: bool = False


@dataclass(slots=True)
class _Stages:
    """Measures the stages of a run."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 3)


def _state(record: WatermarkRecord | None) -> tuple[object, ...]:
    return () if record is None else (record.tso, record.complete, record.tables)


class FollowedChangefeed:
    """Runs one changefeed whenever it is asked to. After an error it opens the lake again."""

    def __init__(
        self,
        config: Config,
        changefeed: Changefeed,
        is_stopping: Callable[[], bool],
        through_dagster: ThroughDagster | None = None,
    ) -> None:
        self.changefeed = changefeed
        self._config = config
        self._is_stopping = is_stopping
        self._through_dagster = through_dagster
        self._next_dagster_s = 0.0
        self._lake: Lake | None = None
        self._is_unsure = True
        self._jvm = jvm_of(config)
        self.upkeep = Upkeep(self._jvm)

    def run(self, on_progress: OnProgress) -> FollowedRun:
        """Process what is pending. A stop ends it after the current stage.

        Raises any error of a run: what was published before stays, and the next run continues from there.
        """
        try:
            return self._run(on_progress)
        except Exception:
            self._lake, self._is_unsure = None, True
            raise

    def keep_up(self) -> None:
        """Take the next steps of the upkeep, if any are due."""
        if self._lake is not None and spark.is_running():
            self.upkeep.work(self._lake)

    def _run(self, on_progress: OnProgress) -> FollowedRun:
        lake = self._lake = self._lake or Lake(self._config, self.changefeed)
        stages, landed = _Stages(), None
        if is_landed(self.changefeed):
            with stages.stage("land"):
                landed = land(lake, self._workers(), on_progress, RETRY_TIMEOUT_S)
        with stages.stage("scan"):
            source_run = run_of(lake)
            pending = source_run.scan()
            needed = not pending.is_empty or (self._is_unsure and is_needed(lake, pending))
        if not needed or self._is_stopping():
            self._is_unsure = self._is_unsure and needed
            return FollowedRun(self.changefeed.name, pending.checkpoint, stages.seconds, landed=landed)
        if not spark.is_running():
            require_java()
        self._is_unsure = True
        if self._through_dagster is not None and time.monotonic() >= self._next_dagster_s:
            with stages.stage("dagster"):
                tables = tables_with_assets(pending.history, lake.follows)
                ran = self._through_dagster(self.changefeed, tables, on_progress)
            self._next_dagster_s = time.monotonic() + DAGSTER_EVERY_S
            run_id = ran.record.run_id if ran.record is not None else ""
        else:
            ran, run_id = self._processed(lake, source_run, pending, stages, on_progress)
            self._is_unsure = self._is_stopping()
        published = bool(ran.changes) or _state(ran.record) != _state(pending.record)
        return FollowedRun(self.changefeed.name, pending.checkpoint, stages.seconds, run_id, ran, landed, published)

    def _processed(
        self,
        lake: Lake,
        source_run: ChangelogRun,
        pending: Pending,
        stages: _Stages,
        on_progress: OnProgress,
    ) -> tuple[ChangefeedResult, str]:
        report: ChangelogReport | None = None
        if not pending.is_empty:
            with stages.stage("changelogs"):
                report = source_run.publish_changelogs(pending, self._workers(), on_progress)
        record = report.record if report is not None else pending.record
        if not self._is_stopping():
            with stages.stage("mirrors"):
                merged = run_mirrors(lake, uuid.uuid4().hex, self._jvm, on_progress)
            record = merged.record if merged is not None else record
        faults = tuple(dict.fromkeys(held(lake, record)))
        names = {source_table.id: ".".join(source_table.name) for source_table in pending.history.source_tables}
        late = no_late_rows({names[i]: rows for i, rows in report.late_rows.items()} if report is not None else {})
        warnings = () if late.passed else (f"{self.changefeed.name}: {late.sentence}",)
        changes: dict[str, CountsByOperation] = report.rows_by_op if report is not None else {}
        result = ChangefeedResult(self.changefeed.name, record, True, faults, warnings, changes)
        return result, report.run_id if report else ""

    def _workers(self) -> Workers:
        return spark.LazySparkWorkers(self._config)
