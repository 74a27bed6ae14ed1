"""The life of a lake in any catalog and store: killed runs, whole runs, maintenance and rebuilds, against the truth.

Each catalog needs other jars, so that its Spark session has a process of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import yaml

from ticdc_assets import failpoints, spark
from ticdc_assets.config import load
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import redacted_error
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance import MaintenanceReport, Policy, maintain
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.apart import CONTEXT, apart
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.faults.raced import Meeting
from ticdc_assets_tests.pipeline.gaps import Log, as_read, as_sent, expected
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay
from ticdc_assets_tests.pipeline.maintenance.maintained import LATER
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of
from ticdc_assets_tests.scenarios.readings import views_that_differ
from ticdc_assets_tests.services.object_store import S3Store

VARIANT = "storage-csv-swapraw"  # two tables swap names
SECONDS_MAX = 300
PUBLISHED = "published"
VIEWS = "{schema}__recorded.{table}"


@dataclass(frozen=True)
class World:
    """A config and what it reads of the environment, and where TiCDC's files are written: a folder, or a store.

    `secrets` are what no process may show on its command line. `views` is whether the catalog has views. `of_process`
    are the variables that libraries read of the environment themselves.
    """

    folder: Path
    blocks: Mapping[str, Any]
    environ: Mapping[str, str] = field(default_factory=dict)
    source: S3Store | None = None
    secrets: tuple[str, ...] = ()
    views: bool = True
    written: int = 0
    of_process: Mapping[str, str] = field(default_factory=dict)
    publish: str = "each"

    @property
    def path(self) -> Path:
        return self.folder / "changefeeds.yaml"

    @property
    def workload(self) -> Workload:
        return next(w for w in workloads(VARIANT, "seed1") if w.root.parent.name == VARIANT)

    @property
    def tsos(self) -> list[int]:
        """The TSOs of which there is a truth."""
        return sorted({entry["ts"] for entry in self.workload.truth})

    def configure(self) -> None:
        variant = self.workload.variant
        where = f"s3://{self.source.bucket}/sink" if self.source else str(self.folder / "sink")
        feed = {"sink_uri": variant["sink_uri"], "config": variant["config"], "source": {"storage": where}}
        feed |= {"publish": self.publish}
        feed |= {"views": VIEWS} if self.views else {}
        settings = {"spark": {"master": "local[2]"}, **self.blocks, "changefeeds": {"feed": feed}}
        self.path.write_text(yaml.safe_dump(settings))

    def fill(self, ts: int) -> World:
        """What TiCDC writes until its checkpoint is at `ts`."""
        replay = Replay(self.workload, self.folder / "sink")
        replay.at = self.written
        while replay.checkpoint < ts:
            replay.write()
        if self.source is not None:
            self.source.upload(self.folder / "sink", "sink")
        return replace(self, written=replay.at)

    def lake(self) -> OpenedLake:
        os.environ.update(self.of_process)
        return OpenedLake(self.workload, self.path, self.environ)


class OpenedLake(FeedLake):
    """A lake by a config that a test has written itself."""

    def __init__(self, workload: Workload, path: Path, environ: Mapping[str, str]) -> None:
        self.workload = workload
        self.config = load(path, environ)
        self.lake = Lake(self.config, self.config.changefeed("feed"))

    def jvm(self) -> JvmCatalog:
        return JvmCatalog(spark.session(self.config), self.catalog_name)

    def maintain(self) -> MaintenanceReport:
        return maintain(self.lake, Policy(LATER), self.jvm)

    def rebuild(self, *tables: str, from_source: bool = False) -> dict[str, str]:
        """The differences after all tables are made again."""
        fresh = Lake(self.config, self.config.changefeed("feed"))
        return rebuild_tables(fresh, self.jvm, RebuildRequest(tables, from_source)).errors

    def is_complete_at(self, ts: int) -> bool:
        """Whether all tables can be read together at `ts`."""
        newest = self.lake.control.newest(complete=True)
        return newest is not None and newest.tso >= ts

    def views_that_differ(self, ts: int) -> list[str]:
        """The views that show other rows than the truth at a TSO."""
        if self.lake.changefeed.target.view is None:
            return [".".join(view.view) for view in self.lake.control.views()]
        return views_that_differ(self, ts)

    def lost_and_repeated(self) -> tuple[int, int]:
        """How many changes the changelogs lack, and how many they have too often."""
        wanted = as_sent(expected(self.workload), gaps_of(self.lake.changefeed), Log(self.workload))
        found = as_read(self.changes(), wanted, gaps_of(self.lake.changefeed), Log(self.workload))
        return (wanted - found).total(), (found - wanted).total()


# ---- a life ----------------------------------------------------------------------------------------------------------


def live(world: World) -> None:
    """A lake from its first run, which is killed, to a rebuild of all; equal to the truth each time."""
    world.configure()
    world = world.fill(world.tsos[0])
    assert dies(world, Failpoint.DECODED), "the run was not killed"
    assert dies(world, Failpoint.AFTER_CHANGELOG_COMMIT), "the run was not killed"
    apart(_go_on, world, seconds_max=SECONDS_MAX)


def _go_on(world: World) -> None:
    lake = world.lake()
    for ts in world.tsos:
        world = world.fill(ts)
        run(lake)
        assert lake.differences(ts) == []
        assert lake.views_that_differ(ts) == []
    assert [secret for secret in world.secrets if secret in command_lines()] == []
    final = world.tsos[-1]
    assert lake.run() is None

    report = lake.maintain()
    assert report.left_alone == {}
    assert report.leftovers, "the killed runs left no files"
    assert lake.differences(final) == []
    assert lake.views_that_differ(final) == []

    assert lake.rebuild() == {}
    table = next(".".join(name) for name, record in lake.records().items() if record.mirror)
    assert lake.rebuild(table, from_source=True) == {}
    lake.run()
    assert lake.differences(final) == []
    assert lake.views_that_differ(final) == []


def command_lines() -> str:
    """What every user of the machine sees of its processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().decode(errors="replace"))
    assert any("SparkSubmit" in line for line in found)
    return "".join(found)


def run(lake: OpenedLake) -> None:
    report = lake.run()
    assert report is not None
    assert report.errors == {}


# ---- killed runs -----------------------------------------------------------------------------------------------------


def dies(world: World, failpoint: Failpoint) -> bool:
    """Run the changelogs in a process that is killed where it reaches a failpoint; False where it does not."""
    process = CONTEXT.Process(target=_run_to, args=(world, failpoint))
    process.start()
    process.join(SECONDS_MAX)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"a run to be killed at {failpoint!r} took more than {SECONDS_MAX} s")
    assert process.exitcode in (0, -signal.SIGKILL), f"the run ended with {process.exitcode}"
    return process.exitcode != 0


def _run_to(world: World, failpoint: Failpoint) -> None:
    def listen(reached: Failpoint) -> None:
        if reached is failpoint:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.LISTENERS.append(listen)
    world.lake().publish()


# ---- two runs at once ------------------------------------------------------------------------------------------------


def meet(world: World, failpoint: Failpoint) -> list[str]:
    """The outcomes of two runs of the changelogs that meet at a failpoint: PUBLISHED, or the error."""
    barrier = CONTEXT.Barrier(2)
    runners = []
    for _ in range(2):
        reader, writer = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_run_and_tell, args=(writer, world, failpoint, barrier))
        process.start()
        runners.append((reader, process))
    ends = [reader.recv() for reader, _ in runners]
    for _, process in runners:
        process.join(SECONDS_MAX)
    return ends


def _run_and_tell(writer: Connection, world: World, failpoint: Failpoint, barrier: Barrier) -> None:
    failpoints.LISTENERS.append(Meeting(failpoint, barrier))
    try:
        world.lake().publish()
        writer.send(PUBLISHED)
    except Exception as error:  # noqa: BLE001  the test judges it
        writer.send(str(redacted_error(error)))
    finally:
        barrier.abort()  # nobody waits for one that is through
