"""`rebuild`: mirrors made anew from their changelogs, each put in place in one commit.

A mirror is made under a second name (`tables.clone`), as far as the changelog is complete or as of a TSO, while readers
read the old one and runs go on. What comes behind that TSO is the next run's. A rebuild that ends early, or that loses
to a run, leaves the mirror as it was.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.errors import ConfigError, NotYetError, StaleRunError
from ticdc_assets.faults import interrupted_by, plain
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.mirror_rounds import Course, catch_up
from ticdc_assets.pipeline.mirror_run import MIRROR_FAULT, MirrorReport, options_of, record_mirrors, writer_of
from ticdc_assets.pipeline.mirror_work import mirror_of
from ticdc_assets.pipeline.rebuild_source import changelog_from_source, check_can_be_read_again
from ticdc_assets.pipeline.segments import reached_versions, segments
from ticdc_assets.schema.evolution import TruncateRows
from ticdc_assets.schema.lineage import Version, fold_name
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.clone import clone_of
from ticdc_assets.tables.mirror import COMMIT_TS_COLUMN, first_keyed
from ticdc_assets.tables.mirror_versions import columns_at
from ticdc_assets.tables.progress import BORN, REPLAYED, VERSION, Progress, lineage_of, progress_of
from ticdc_assets.tables.replayed import unfollowed

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.lineage import History, Lineage
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog
    from ticdc_assets.tables.places import Place

TRIES: Final = 3
"""A rebuild that a run has overtaken begins again; so often."""


@dataclass(slots=True)
class RebuildReport:
    """By lineage, the TSO (by arrival the position) that its mirror is at now, or why it is as it was."""

    run_id: str
    record: WatermarkRecord
    rebuilt: dict[str, Progress] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """Which tables to make anew, named as `schema.table` (all where none is), from where, and as of which TSO."""

    tables: tuple[str, ...] = ()
    from_source: bool = False
    at: int | None = None


def rebuild_tables(
    lake: Lake, jvm: Callable[[], JvmCatalog], wish: Wish, say: Callable[[str], None] = lambda _: None
) -> RebuildReport:
    """Make what is wished for anew. A fault of one table stops no other.

    Raises ConfigError where a name or the TSO cannot be meant, NotYetError before the first run.
    """
    if wish.from_source:
        check_can_be_read_again(lake, bool(wish.tables))
    record, history = recorded_ground(lake)
    chosen, at = chosen_tables(lake, history, record, wish.tables), wish.at
    _check_tso(lake, at, chosen if wish.tables else ())
    lake.settle_mirrors(history, record)
    report = RebuildReport(uuid.uuid4().hex, record)
    for lineage in chosen:
        say(f"making {'.'.join(lineage.name)} anew")
        work = partial(_rebuilt, lake, jvm, lineage.id, at)
        try:
            if wish.from_source:
                again = partial(_changelog_read_again, lake, jvm, lineage.id, say)
                report.rebuilt[lineage.id] = _with_tries(again, report.run_id)
            if not wish.from_source or any(version.table.key for version in lineage.versions):
                report.rebuilt[lineage.id] = _with_tries(work, report.run_id)
        except NotMadeError as error:
            report.rebuilt.pop(lineage.id, None)
            report.errors[lineage.id] = str(error)
        except Exception as error:
            if interrupted_by(error):
                raise
            report.rebuilt.pop(lineage.id, None)
            report.errors[lineage.id] = str(plain(error))
    record, history = recorded_ground(lake)
    mirrors = MirrorReport(record, list(report.rebuilt), _faults_left(record, report.rebuilt))
    report.record = record_mirrors(lake, report.run_id, history, record, mirrors, asked_for_all=False)
    return report


def _faults_left(record: WatermarkRecord, rebuilt: Collection[str]) -> dict[str, str]:
    """The faults that the record tells of mirrors that are as they were."""
    told = {t.lineage: t.note for t in record.tables if t.note.startswith(MIRROR_FAULT) and t.lineage not in rebuilt}
    return {lineage_id: note.removeprefix(MIRROR_FAULT) for lineage_id, note in told.items()}


def recorded_ground(lake: Lake) -> tuple[WatermarkRecord, History]:
    """The newest record and the history so far."""
    record = lake.control.newest()
    if record is None:
        todo = "Run `ticdc-assets run` first."
        raise NotYetError(f"changefeed {lake.changefeed.name}", "a changefeed that was published", "none", todo)
    return record, lake.history()


def chosen_tables(lake: Lake, history: History, record: WatermarkRecord, only: Collection[str]) -> list[Lineage]:
    """The tables with these names now, of those recorded; all that can have a mirror where no name is given."""
    recorded = {i: table for i, table in lake.recorded(record).items() if table.changelog is not None}
    known = [lineage for lineage in history.lineages if lineage.id in recorded]
    if not only:
        return [n for n in known if n.dropped_ts is None and list(reached_versions(n, recorded[n.id].watermark))]
    found: list[Lineage] = []
    for name in only:
        named = [lineage for lineage in known if _folded(".".join(lineage.name)) == _folded(name)]
        if not named:
            todo = "Name it as schema.table, as it is called at the source now: `ticdc-assets tables` lists them."
            raise ConfigError(f"--table {name}", "a table of this changefeed with a changelog", "none", todo)
        # Of tables that were dropped and made again under one name, the last is meant.
        found.append(next((n for n in named if n.dropped_ts is None), named[-1]))
    return found


def _folded(name: str) -> str:
    return fold_name("", name)[1]


def _check_tso(lake: Lake, at: int | None, named: Collection[Lineage]) -> None:
    if at is None:
        return
    if lake.by_arrival:
        found = "a stream that is read in the order of arrival"
        todo = "Rebuild it without --at."
        raise ConfigError(f"changefeed {lake.changefeed.name}", "a stream that can be cut at a TSO", found, todo)
    if not named:
        todo = "Name the tables with --table."
        raise ConfigError("--at", "tables to bring to that TSO", "none named", todo)


def _with_tries(work: Callable[[str], Progress], run_id: str) -> Progress:
    for left in reversed(range(TRIES)):
        try:
            return work(f"{run_id}{left}")
        except StaleRunError:
            if not left:
                raise
    raise AssertionError


def _changelog_read_again(
    lake: Lake, jvm: Callable[[], JvmCatalog], lineage_id: str, say: Callable[[str], None], run_id: str
) -> Progress:
    """Make the changelog anew from the source."""
    record, history = recorded_ground(lake)
    lineage, taken = history.by_id()[lineage_id], lake.settle_changelogs(history, record)
    changelog = load_or_none(lake.catalog, lake.places(history)[lineage_id].changelog)
    if changelog is None or lineage_of(changelog) != lineage_id or lineage_id in taken:
        todo = "Run `ticdc-assets run` first, which says why it is not there."
        raise ConfigError(".".join(lake.places(history)[lineage_id].changelog), "the table's changelog", "none", todo)
    clone = clone_of(jvm(), changelog, clone_name(lake, lineage, f"c{run_id}"), lake.changefeed.name)
    try:
        clone.empty()
        changelog_from_source(lake, jvm(), lineage, record, clone, run_id, say)
        return progress_of(changelog.refresh())
    finally:
        forget_clones(lake, lineage)


def _rebuilt(lake: Lake, jvm: Callable[[], JvmCatalog], lineage_id: str, at: int | None, run_id: str) -> Progress:
    """One try, from what is recorded now: a run may have come further since the last one."""
    record, history = recorded_ground(lake)
    work = _Work(
        lake, jvm, history.by_id()[lineage_id], lake.places(history)[lineage_id], lake.recorded(record)[lineage_id], at
    )
    return work.rebuild(run_id)


@dataclass(frozen=True)
class _Work:
    """One mirror to be made anew, up to `at`, else as far as its changelog is."""

    lake: Lake
    jvm: Callable[[], JvmCatalog]
    lineage: Lineage
    place: Place
    recorded: TableRecord
    at: int | None

    def rebuild(self, run_id: str) -> Progress:
        changelog = self._changelog()
        watermark = self._watermark(changelog)
        first = self._first(watermark)
        mirror = mirror_of(self.lake, self.lineage.id, self.place)
        if mirror is None:
            return self._made(run_id, changelog, watermark)
        return self._made_beside(run_id, mirror, changelog, first, watermark)

    @property
    def _name(self) -> str:
        return ".".join(self.lineage.name)

    def _changelog(self) -> Table:
        found = load_or_none(self.lake.catalog, tuple(self.recorded.changelog or ()))
        if found is None or lineage_of(found) != self.lineage.id:
            found = load_or_none(self.lake.catalog, self.place.changelog)
        if found is None or lineage_of(found) != self.lineage.id:
            todo = "Run `ticdc-assets run` first, which says why it is not there."
            raise ConfigError(".".join(self.place.changelog), f"the changelog of {self._name}", "none", todo)
        return found

    def _watermark(self, changelog: Table) -> int:
        reached = self.recorded.watermark
        if self.at is not None and self.at > reached:
            todo = "Take a TSO up to that one, or none."
            raise ConfigError("--at", f"a TSO up to which {self._name} is complete: {reached}", str(self.at), todo)
        return reached if self.at is None else self.at

    def _first(self, watermark: int) -> Version:
        """The version to begin with: that of the last TRUNCATE, since nothing from before it is left, else the first
        with a key."""
        reached = [version for version, _ in reached_versions(self.lineage, watermark)]
        if not reached:
            todo = "Take a later TSO." if self.at is not None else "Name its key with `keys`, if it has one."
            raise ConfigError(self._name, f"a table with a key at {watermark}", "none", todo)
        emptied = [v for v in reached if any(isinstance(effect, TruncateRows) for effect in v.effects)]
        return emptied[-1] if emptied else first_keyed(self.lineage)

    # -- where there is none --------------------------------------------------------------------------------------

    def _made(self, run_id: str, changelog: Table, watermark: int) -> Progress:
        course = self._course(run_id, self.place.mirror, changelog, Progress(), first_keyed(self.lineage), watermark)
        return progress_of(self._finished(course))

    # -- beside the present one -----------------------------------------------------------------------------------

    def _made_beside(self, run_id: str, mirror: Table, changelog: Table, first: Version, watermark: int) -> Progress:
        clone = clone_of(self.jvm(), mirror, clone_name(self.lake, self.lineage, run_id), self.lake.changefeed.name)
        try:
            born = first_keyed(self.lineage)
            begin = Progress() if first is born else Progress(first.from_ts)
            told = {VERSION: str(first.from_ts), BORN: str(born.from_ts)}
            key = [column_name(name) for name in first.table.key]
            partitioning = options_of(self.lake, self.lineage).partitioning
            clone.empty_with((*columns_at(first), COMMIT_TS_COLUMN), key, told, partitioning, begin)
            course = self._course(run_id, clone.identifier, changelog, begin, first, watermark)
            progress = progress_of(self._finished(course))
            mark = unfollowed(changelog, None)
            clone.take_over({REPLAYED: mark.run_id} if mark is not None else None)
            return progress
        finally:
            forget_clones(self.lake, self.lineage)

    def _course(
        self, run_id: str, name: Identifier, changelog: Table, begin: Progress, first: Version, watermark: int
    ) -> Course:
        planned = segments(self.lineage, changelog, None, watermark, self.lake.by_arrival)
        left = deque(segment for segment in planned if segment.version.from_ts >= first.from_ts)
        writer = writer_of(self.lake, run_id, self.jvm(), self.lineage, name)
        return Course(writer, self.lineage, self.place.mirror_location, changelog, begin, left)

    def _finished(self, course: Course) -> Table:
        catch_up(self.lake, [course], SparkWorkers(self.jvm().spark))
        if course.error:
            raise NotMadeError(course.error)
        assert course.table is not None
        return course.table


class NotMadeError(Exception):
    """Raised with the sentence of what stopped the mirror in the making."""


def clone_name(lake: Lake, lineage: Lineage, run_id: str) -> Identifier:
    """What a table is called while it is made anew."""
    return (*lake.control.namespace, f"{_prefix(lineage)}{run_id}")


def _prefix(lineage: Lineage) -> str:
    return f"anew_{hashlib.sha256(lineage.id.encode()).hexdigest()[:12]}_"


def forget_clones(lake: Lake, lineage: Lineage) -> None:
    """Take the lineage's clones out of the catalog, also what a killed rebuild left; their files stay, for those that
    the table took over are its own."""
    for identifier in lake.catalog.list_tables(lake.control.namespace):
        if identifier[-1].startswith(_prefix(lineage)):
            with suppress(NoSuchTableError):
                lake.catalog.drop_table(identifier)
