"""One run of a changefeed's job in this process, and its result as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError, DagsterExecutionInterruptedError
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool, StaticPool

from ticdc_assets.assets.checks.definitions import NEAR_CLOCK, NO_LATE_ROWS, ROWS_EQUAL
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.metadata.figures import OPS, watermark_metadata
from ticdc_assets.assets.resources import PROGRESS, ChangefeedRun
from ticdc_assets.assets.stages.schema_cache import OFFSETS_LEFT, is_new, observation
from ticdc_assets.commands.process.pending import ChangefeedResult, CountsByOperation, held
from ticdc_assets.errors import ConfigError
from ticdc_assets.faults import log_named
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.plurals import counted
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from ticdc_assets.assets.known_tables import KnownTable
    from ticdc_assets.config import Changefeed, Config


_PRINTS_NOWHERE_ELSE: Final = {
    # The first run starts Java, which outlives the run: its later output would go to that run's log, or nowhere, and
    # not to the file that errors name.
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


QUIET_LOGGERS: Final = {"console": {"config": {"log_level": "CRITICAL"}}}


@contextmanager
def instance_of(environ: Mapping[str, str]) -> Iterator[dg.DagsterInstance]:
    """The instance in DAGSTER_HOME, else a temporary one. The output of steps goes to the streams of this process."""
    home = environ.get("DAGSTER_HOME")
    if not home:
        with dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as instance:
            yield instance
        return
    if not Path(home).is_absolute() or not Path(home).is_dir():
        raise ConfigError("DAGSTER_HOME", "the absolute path of a folder", home, "Make the folder, or unset it.")
    ref = InstanceRef.from_dir(home, overrides={"compute_logs": _PRINTS_NOWHERE_ELSE})
    with dg.DagsterInstance.from_ref(ref) as instance, connections_kept(instance):
        yield instance


def run_changefeed(
    config: Config,
    changefeed: Changefeed,
    tables: Sequence[KnownTable],
    until: int | None,
    on_progress: OnProgress,
    instance: dg.DagsterInstance,
) -> ChangefeedResult:
    """Process everything pending of one changefeed, once. `tables` are those with assets."""
    lake = Lake(config, changefeed)
    result = _execute(config, changefeed, tables, until, on_progress, instance)
    raise_if_interrupted(result)
    record = Lake(config, changefeed).control.newest()
    faults = [*_failures(result), *held(lake, record)]
    return ChangefeedResult(
        changefeed.name,
        record,
        True,
        tuple(dict.fromkeys(faults)),
        (*_red(result, NO_LATE_ROWS), *_red(result, NEAR_CLOCK), *_left(result, changefeed.name)),
        _changes(result, changefeed.name),
    )


def _execute(
    config: Config,
    changefeed: Changefeed,
    tables: Sequence[KnownTable],
    until: int | None,
    on_progress: OnProgress,
    instance: dg.DagsterInstance,
) -> dg.ExecuteInProcessResult:
    names = FeedNames(changefeed.name, str(changefeed.sink.protocol))
    definitions = definitions_of(config, [changefeed.name], known={changefeed.name: tables})
    job = definitions.resolve_job_def(names.job)
    run_config: dict[str, Any] = {"loggers": QUIET_LOGGERS}
    if until is not None:
        run_config["resources"] = {names.resource: {"config": {"until": str(until)}}}
    _observe(config, changefeed, names, instance)
    listening = PROGRESS.set(on_progress)
    try:
        return job.execute_in_process(run_config, instance=instance, raise_on_error=False)
    finally:
        PROGRESS.reset(listening)


def raise_if_interrupted(result: dg.ExecuteInProcessResult) -> None:
    """Raise KeyboardInterrupt if the user interrupted the run: Dagster turns Ctrl-C into a failed step."""
    for event in result.all_events:
        error = event.step_failure_data.error if event.is_step_failure else None
        if error is not None and error.cls_name == DagsterExecutionInterruptedError.__name__:
            raise KeyboardInterrupt


def _observe(config: Config, changefeed: Changefeed, names: FeedNames, instance: dg.DagsterInstance) -> None:
    # Before the run, so that Dagster has the state of the source from which the run started.
    clock = ChangefeedRun(config, changefeed).clock()
    observed = observation(names, clock.checkpoint, watermark_metadata(clock.checkpoint, clock))
    if is_new(instance, observed):
        instance.report_runless_asset_event(observed)


# -- in sentences ------------------------------------------------------------------------------------------------------


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[str]:
    yield from step_failures(result)
    yield from _red(result, ROWS_EQUAL)  # the other blocking checks are reported once per table, below


def step_failures(result: dg.ExecuteInProcessResult) -> Iterator[str]:
    """One sentence for each failed step; none for a step that failed only because a blocking check did."""
    for event in result.all_events:
        if event.is_step_failure:
            yield from _failure(event)


def _failure(event: dg.DagsterEvent) -> Iterator[str]:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        yield data.user_failure_data.description
    elif data.error is None or data.error.cls_name != DagsterAssetCheckFailedError.__name__:
        cause = data.error and (data.error.cause or data.error)
        kind = cause.cls_name if cause else "an unknown error"
        advice = f"Read the run in Dagster, or {log_named()}."
        yield f"step {event.step_key}: expected to finish, found {kind}. {advice}"


def _red(result: dg.ExecuteInProcessResult, name: str) -> Iterator[str]:
    for check in result.get_asset_check_evaluations():
        if not check.passed and check.check_name == name:
            yield f"{check.asset_key.to_user_string()}: {check.description}"


def _left(result: dg.ExecuteInProcessResult, changefeed: str) -> Iterator[str]:
    """One sentence where the run ended at the limits of one landing."""
    for event in result.all_events:
        if event.is_step_materialization and OFFSETS_LEFT in event.step_materialization_data.materialization.metadata:
            left = int(str(event.step_materialization_data.materialization.metadata[OFFSETS_LEFT].value))
            yield (
                f"{changefeed}: {counted(left, 'offset')} left for the next run, "
                "by max_messages and max_bytes of source.kafka"
            )


def _changes(result: dg.ExecuteInProcessResult, changefeed: str) -> dict[str, CountsByOperation]:
    """The changes that the run added to each changelog, by source table."""
    found: dict[str, CountsByOperation] = {}
    for event in result.all_events:
        if event.is_step_materialization and event.asset_key and event.asset_key.path[1:2] == ["changelog"]:
            entries = event.step_materialization_data.materialization.metadata
            if "source_table" in entries:
                counts = {op: int(str(entries[name].value)) for op, name in OPS.items() if name in entries}
                found[str(entries["source_table"].value)] = counts
    return found


# Dagster's event log in SQLite, with its connections kept open while one process writes hundreds of events.
#
# Dagster opens and closes a database for each event. The last connection that closes a database in WAL mode also copies
# the WAL into it, so the events of a small run took longer than its changes.


@contextmanager
def connections_kept(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep one connection to each database of the instance's event log while the body runs. Each event is still
    committed on its own, and other processes read and write the same files.

    Does nothing for an event log that is not in SQLite files.
    """
    storage = instance.event_log_storage
    if type(storage) is not SqliteEventLogStorage:
        yield
        return
    kept = _KeptConnections(storage)
    storage._connect = kept.connect  # type: ignore[method-assign]  # noqa: SLF001  it has no setting for this
    try:
        yield
    finally:
        with suppress(AttributeError):
            del storage._connect  # noqa: SLF001
        kept.close()


class _KeptConnections:
    """Replaces `SqliteEventLogStorage._connect`, with a pool of one connection."""

    def __init__(self, storage: SqliteEventLogStorage) -> None:
        self._storage = storage
        self._engines: dict[str, Engine] = {}

    @contextmanager
    def connect(self, shard: str) -> Iterator[Connection]:
        """A connection to the database of a run, or to the index, in a transaction of its own."""
        with self._storage._db_lock:  # noqa: SLF001
            if shard not in self._engines:
                self._engines[shard] = self._opened(shard)
            with self._engines[shard].begin() as connection:
                yield connection

    def _opened(self, shard: str) -> Engine:
        place = self._storage.conn_string_for_shard(shard)
        timeout = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
        if shard not in self._storage._initialized_dbs:  # noqa: SLF001
            self._storage._initdb(create_engine(place, poolclass=NullPool, connect_args=timeout))  # noqa: SLF001
            self._storage._initialized_dbs.add(shard)  # noqa: SLF001
        return create_engine(place, poolclass=StaticPool, connect_args={**timeout, "check_same_thread": False})

    def close(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            engine.dispose()
