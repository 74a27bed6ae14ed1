"""What a data team does with a changefeed: it loads the definitions, follows the sensor, runs jobs, calls commands.

The source is a recorded bucket that is delivered in steps. All that is done here is what users do: Dagster's own
definitions, and the command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.cli import main
from ticdc_assets.pipeline.maintenance import MaintenanceReport, Policy, maintain
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.maintenance import compaction
from ticdc_assets_tests.assets.feeds import QUIET
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay
from ticdc_assets_tests.pipeline.maintenance.maintained import LATER
from ticdc_assets_tests.scenarios.readings import views_that_differ


class Team:
    """A team with one changefeed, `feed`, its code location, and its Dagster instance."""

    def __init__(self, workload: Workload, folder: Path, instance: dg.DagsterInstance, **settings: Any) -> None:
        self.workload = workload
        self.bucket = Replay(workload, folder / "bucket")
        self.deliver(files=3)  # the first checkpoint
        self.lake = FeedLake(workload, folder / "lake", self.bucket.folder, **settings)
        self._instance = instance
        self._cursor: str | None = None
        self.reload()

    # -- the source ---------------------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> int:
        return self.bucket.checkpoint

    def deliver(self, up_to: int = 0, files: int = 0) -> None:
        """The next writes of the bucket: some, or all until TiCDC writes that checkpoint."""
        self.bucket.write(files)
        while self.checkpoint < up_to:
            self.bucket.write()

    def file_of(self, table: str) -> Path:
        """The newest data file of a table."""
        files = (self.bucket.folder / table.replace(".", "/", 1)).rglob("*.csv")
        return max(files, key=lambda path: (int(path.parent.name), path.name))

    # -- Dagster ------------------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Load the code location again."""
        self._definitions = definitions_of(self.lake.config)

    def tick(self) -> dg.SensorResult:
        """The sensor's present result."""
        repository = self._definitions.get_repository_def()
        [sensor] = [sensor for sensor in repository.sensor_defs if sensor.name == "feed_new_files"]
        context = dg.build_sensor_context(cursor=self._cursor, instance=self._instance, repository_def=repository)
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        self._cursor = result.cursor or self._cursor
        return result

    def follow(self) -> set[str]:
        """Start the one run that the sensor asks for. The checks that did not pass, each with its asset."""
        [_] = self.tick().run_requests or []
        result = self.job("feed__run")
        assert (self.tick().run_requests or []) == []
        return {f"{e.asset_key.path[-1]}/{e.check_name}" for e in result.get_asset_check_evaluations() if not e.passed}

    def job(self, name: str, **config: Any) -> dg.ExecuteInProcessResult:
        """One run of a job; the config is that of its one step."""
        job = self._definitions.resolve_job_def(name)
        ops = {"ops": {job.graph.node_defs[0].name: {"config": config}}} if config else {}
        return job.execute_in_process({**QUIET, **ops}, instance=self._instance, raise_on_error=False)

    def skips(self) -> str:
        """Why the sensor asks for no run now."""
        skipped = self.tick().skip_reason
        assert skipped is not None
        return skipped.skip_message or ""

    def closed_days(self) -> set[str]:
        """The days that are complete."""
        return self._instance.get_materialized_partitions(dg.AssetKey(["feed", "days"]))

    # -- beside Dagster -----------------------------------------------------------------------------------------------

    def live_run(self) -> None:
        """A run of another process, as far as this one's tables tell."""
        report = self.lake.run()
        assert report is not None
        assert report.errors == {}

    def maintain_later(self) -> MaintenanceReport:
        """Maintenance when all that there is now is old, and two files are many."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "FILES_MAX", 1)
            jvm = JvmCatalog(spark.session(self.lake.config), self.lake.catalog_name)
            return maintain(self.lake.lake, Policy(LATER, compact=True), lambda: jvm)

    def views_that_differ(self) -> list[str]:
        """The views that show other rows than the truth at the checkpoint."""
        return views_that_differ(self.lake, self.checkpoint)

    # -- the command line ---------------------------------------------------------------------------------------------

    def call(self, command: str, *arguments: str) -> int:
        """The exit code of a command, in this process. It leaves the Spark session to what is done next."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark, "stop", lambda: None)
            return main(self._command(command, *arguments))

    def _command(self, command: str, *arguments: str) -> list[str]:
        return [command, "--config", str(self.lake.config.path), *arguments]
