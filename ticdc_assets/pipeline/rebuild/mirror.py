"""Rebuilds one mirror from its changelog: in a clone that the mirror takes over, or new where there is none.

Clones are in the namespace of the control tables while a table is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from ticdc_assets.changes.layout import COMMIT_TS_COLUMN
from ticdc_assets.errors import ConfigError
from ticdc_assets.faults import interrupted_by
from ticdc_assets.names import column_name
from ticdc_assets.notes import UNFIT_CHANGELOGS
from ticdc_assets.pipeline.changed_settings import settings_hold
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.pending import mirror_of
from ticdc_assets.pipeline.mirror.rounds import Failure, MirrorJob, catch_up
from ticdc_assets.pipeline.mirror.segments import reached_versions, segments
from ticdc_assets.pipeline.mirror.writers import options_of, writer_of
from ticdc_assets.pipeline.set_back import require_whole
from ticdc_assets.schema.evolution.schema_state import TruncateRows
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.properties import BORN, EFFECTS, REPLAYED, VERSION
from ticdc_assets.tables.locations import TableLocations, second_name, second_names
from ticdc_assets.tables.mirror.branch import MirrorBranch
from ticdc_assets.tables.mirror.clone import clone_of
from ticdc_assets.tables.mirror.column_change import columns_at
from ticdc_assets.tables.mirror.partitioning import fields_at
from ticdc_assets.tables.mirror.writer import first_keyed
from ticdc_assets.tables.progress import Progress, progress_of, source_table_of
from ticdc_assets.tables.replayed import unfollowed


class NotMadeError(Exception):
    """Raised with the error that stopped the new table."""


@contextmanager
def kept_clone(lake: Lake, source_table: SourceTable, clone: Identifier) -> Iterator[None]:
    """Forget the clone of this rebuild at the end, and those of killed rebuilds where this one succeeds.

    Raises NotMadeError where another rebuild of the table has succeeded meanwhile, and has forgotten this clone: any
    error of a library may come from that.
    """
    try:
        yield
    except BaseException as error:
        was_forgotten = not interrupted_by(error) and not lake.catalog.table_exists(clone)
        _forget(lake, clone)
        if not was_forgotten:
            raise
        found = f"{'.'.join(source_table.name)}: expected no other rebuild of it at the same time, found one."
        raise NotMadeError(f"{found} That one has replaced the table, and this one has changed nothing.") from error
    forget_clones(lake, source_table)


def clone_name(lake: Lake, source_table: SourceTable, run_id: str) -> Identifier:
    """The name of a table's clone while it is rebuilt."""
    return second_name(lake.control.namespace, "clone", source_table.id, run_id)


def forget_clones(lake: Lake, source_table: SourceTable) -> None:
    """Remove the source table's clones from the catalog, including those of killed rebuilds. Their files stay: some
    belong to the rebuilt table."""
    for identifier in second_names(lake.catalog, lake.control.namespace, "clone", source_table.id):
        _forget(lake, identifier)


def _forget(lake: Lake, clone: Identifier) -> None:
    with suppress(NoSuchTableError):
        lake.catalog.drop_table(clone)


@dataclass(frozen=True)
class MirrorRebuild:
    """One mirror to rebuild, up to `at`, else up to its changelog's watermark."""

    lake: Lake
    jvm: Callable[[], JvmCatalog]
    source_table: SourceTable
    place: TableLocations
    recorded: TableRecord
    recorded_at: datetime
    at: int | None

    def rebuild(self, run_id: str) -> Progress:
        """Rebuild it once, and return its progress. Raises NotMadeError where an error of the table stops it."""
        if self.recorded.has(*UNFIT_CHANGELOGS):
            raise NotMadeError(self.recorded.note)
        changelog = self._changelog()
        hold = settings_hold(self.lake, self.source_table, changelog)
        if hold is not None:
            raise NotMadeError(hold.reason(self.source_table))
        require_whole(self.lake, self.recorded, self.recorded_at, changelog)
        watermark = self._watermark(changelog)
        first = self._first(watermark)
        mirror = mirror_of(self.lake, self.source_table.id, self.place)
        if mirror is None:
            return self._made(run_id, changelog, watermark)
        return self._made_in_clone(run_id, mirror, changelog, first, watermark)

    @property
    def _name(self) -> str:
        return ".".join(self.source_table.name)

    def _changelog(self) -> Table:
        found = load_or_none(self.lake.catalog, tuple(self.recorded.changelog or ()))
        if found is None or source_table_of(found) != self.source_table.id:
            found = load_or_none(self.lake.catalog, self.place.changelog)
        if found is None or source_table_of(found) != self.source_table.id:
            advice = "Run `ticdc-assets run` first; it reports why there is none."
            raise ConfigError(".".join(self.place.changelog), f"the changelog of {self._name}", "none", advice)
        return found

    def _watermark(self, changelog: Table) -> int:
        recorded = self.recorded.watermark
        if self.at is not None and self.at > recorded:
            advice = "Take a TSO up to that one, or none."
            raise ConfigError("at", f"a TSO up to which {self._name} is complete: {recorded}", str(self.at), advice)
        return recorded if self.at is None else self.at

    def _first(self, watermark: int) -> Version:
        """The version to begin with: that of the last TRUNCATE, since no older row remains, else the first with a
        key."""
        reached = [version for version, _ in reached_versions(self.source_table, watermark)]
        if not reached:
            advice = "Take a later TSO." if self.at is not None else "Name its key with `keys`, if it has one."
            raise ConfigError(self._name, f"a table with a key at {watermark}", "none", advice)
        emptied = [v for v in reached if any(isinstance(effect, TruncateRows) for effect in v.effects)]
        return emptied[-1] if emptied else first_keyed(self.source_table)

    # -- where there is none --------------------------------------------------------------------------------------

    def _made(self, run_id: str, changelog: Table, watermark: int) -> Progress:
        job = self._job(run_id, self.place.mirror, changelog, Progress(), first_keyed(self.source_table), watermark)
        return progress_of(self._finished(job))

    # -- under a second name ---------------------------------------------------------------------------------------

    def _made_in_clone(self, run_id: str, mirror: Table, changelog: Table, first: Version, watermark: int) -> Progress:
        branch = MirrorBranch(self.jvm(), self.place.mirror, self.lake.changefeed.name, run_id)
        mirror = branch.with_free_names(mirror, self.source_table)
        clone = clone_of(
            self.jvm(), mirror, clone_name(self.lake, self.source_table, run_id), self.lake.changefeed.name
        )
        with kept_clone(self.lake, self.source_table, clone.identifier):
            born = first_keyed(self.source_table)
            begin = Progress() if first is born else Progress(first.from_ts)
            effects = effects_digest(self.source_table, first.from_ts)
            properties = {VERSION: str(first.from_ts), BORN: str(born.from_ts), EFFECTS: effects}
            key = [column_name(name) for name in first.table.key]
            configured = options_of(self.lake, self.source_table).partitioning
            partitioning = fields_at(self.source_table, first.from_ts, configured)
            clone.empty_with((*columns_at(first), COMMIT_TS_COLUMN), key, properties, partitioning, begin)
            job = self._job(run_id, clone.identifier, changelog, begin, first, watermark)
            progress = progress_of(self._finished(job))
            mark = unfollowed(changelog, None)
            clone.take_over({REPLAYED: mark.run_id} if mark is not None else None)
            return progress

    def _job(
        self, run_id: str, name: Identifier, changelog: Table, begin: Progress, first: Version, watermark: int
    ) -> MirrorJob:
        planned = segments(self.source_table, changelog, None, watermark, self.lake.by_arrival)
        left = tuple(segment for segment in planned if segment.version.from_ts >= first.from_ts)
        writer = writer_of(self.lake, run_id, self.jvm(), self.source_table, name)
        return MirrorJob(writer, self.source_table, self.place.mirror_location, changelog, begin, left)

    def _finished(self, job: MirrorJob) -> Table:
        [mirror] = catch_up(self.lake, [job], SparkWorkers(self.jvm().spark))
        if isinstance(mirror, Failure):
            raise NotMadeError(mirror.note.text(".".join(self.source_table.name)))
        return mirror
