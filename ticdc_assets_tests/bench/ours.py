"""This project's own run, cut into its phases: look, plan, decode and write, commit, mirrors, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import yaml
from pyiceberg.table import Table

from ticdc_assets import spark
from ticdc_assets.config import Config, load
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.spark import SparkWorkers, Workers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.bench.streams.recorded import SCHEMA, TABLE, Form
from ticdc_assets_tests.bench.used import Measured

CORES: Final = 2

_PHASES: Final = {
    Failpoint.SCANNED: "scan",
    Failpoint.CHANGELOGS_MADE: "make changelogs",
    Failpoint.DECODED: "decode and write",
    Failpoint.AFTER_CHANGELOG_COMMIT: "commit changelogs",
    Failpoint.AFTER_CURSOR: "record cursor",
    Failpoint.MIRROR_MADE: "make mirror",
    Failpoint.BEFORE_MIRROR_COMMIT: "merge mirror",
    Failpoint.BRANCH_WRITTEN: "commit mirror",
    Failpoint.AFTER_MIRROR_COMMIT: "publish mirror",
    Failpoint.AFTER_RECORD: "record",
}
"""What has ended at each moment, of a run of one table; with many tables the moments of several come mixed."""


def config_of(form: Form, source: Path, lake: Path) -> Config:
    """A changefeed of the form over a fresh lake in the folder."""
    path = config_file(form, source, lake)
    return load(path, {})


def config_file(form: Form, source: Path, lake: Path) -> Path:
    """The same as the file that a user writes."""
    feed: dict[str, Any] = {"sink_uri": form.sink_uri, "config": {"sink": dict(form.sink)}}
    if form.is_storage:
        separator = "day" if any(source.rglob("20??-??-??")) else "none"
        feed["config"]["sink"]["date-separator"] = separator
        feed["source"] = {"storage": str(source)}
    else:
        feed["source"] = {"capture": str(source)}
    if (registry := source / "registry.json").exists():
        feed["schema_registry"] = {"file": str(registry)}
    return written_config(lake, feed)


def written_config(lake: Path, feed: dict[str, Any]) -> Path:
    """A config with this changefeed and a catalog in the fresh folder."""
    catalog = {
        "name": f"bench_{lake.name}".replace("-", "_"),
        "type": "sql",
        "uri": f"sqlite:///{lake}/catalog.db",
        "warehouse": f"{lake}/warehouse",
    }
    lake.mkdir(parents=True)
    path = lake / "changefeeds.yaml"
    path.write_text(
        yaml.safe_dump({"catalog": catalog, "spark": {"master": f"local[{CORES}]"}, "changefeeds": {"bench": feed}})
    )
    return path


@dataclass
class Phases:
    """Seconds of each phase of one run, in order, and what its tasks used of the processor."""

    seconds: dict[str, float] = field(default_factory=dict)
    tasks: list[dict[str, float]] = field(default_factory=list)
    _since: float = field(default_factory=time.perf_counter)

    def hit(self, moment: Failpoint) -> None:
        """Whatever this moment ends has taken the time since the last one."""
        if moment in _PHASES:
            now = time.perf_counter()
            name = _PHASES[moment]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
            self._since = now


@dataclass
class Run:
    """A run that is over: seconds until the changelogs were there, and until all was."""

    lake: Lake
    changelog_s: float
    whole_s: float
    phases: Phases


class _Timed:
    """Workers that also measure each task."""

    def __init__(self, workers: Workers, tasks: list[dict[str, float]]) -> None:
        self._workers = workers
        self._tasks = tasks

    def map(self, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        answers = self._workers.map(Measured(work), payloads)
        self._tasks += [used for _, used in answers]
        return [answer for answer, _ in answers]


def run(form: Form, source: Path, lake: Path, workers: Workers | None = None, with_mirrors: bool = True) -> Run:
    """One run into a fresh lake: changelogs, then mirrors. Spark is started before the clock."""
    config = config_of(form, source, lake)
    return again(config, workers, with_mirrors)


def again(config: Config, workers: Workers | None = None, with_mirrors: bool = True) -> Run:
    """A run of what is pending for a changefeed that may have a lake already."""
    if workers is None:
        workers = SparkWorkers(spark.session(config))
    phases = Phases()
    LISTENERS.append(phases.hit)
    try:
        lake = Lake(config, config.changefeeds[0])
        begin = time.perf_counter()
        stream = run_of(lake)
        report = stream.publish_changelogs(stream.scan(), _Timed(workers, phases.tasks))
        changelog_s = time.perf_counter() - begin
        if with_mirrors:
            run_mirrors(lake, report.run_id, lambda: JvmCatalog(spark.session(config), config.catalog.name))
        return Run(lake, changelog_s, time.perf_counter() - begin, phases)
    finally:
        LISTENERS.remove(phases.hit)


def lake_in(folder: Path) -> Lake:
    """The lake that a run left in a folder."""
    config = load(folder / "changefeeds.yaml", {})
    return Lake(config, config.changefeeds[0])


def mirror_rows(lake: Lake, table: str = TABLE) -> pa.Table:
    """The rows of a mirror."""
    return _mirror(lake, table).scan().to_arrow()


def mirror_row_count(lake: Lake) -> int:
    """The number of rows of a mirror, without holding all of their columns in memory."""
    mirror = _mirror(lake, TABLE)
    return len(mirror.scan(selected_fields=(mirror.schema().fields[0].name,)).to_arrow())


def _mirror(lake: Lake, table: str) -> Table:
    newest = lake.control.newest()
    assert newest is not None
    record = next(r for r in newest.tables if (r.schema, r.table) == (SCHEMA, table))
    return lake.catalog.load_table(tuple(record.mirror or ()))
