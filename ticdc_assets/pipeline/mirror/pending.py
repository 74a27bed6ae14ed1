"""Which mirrors are behind their changelogs, and which tables hold back the recorded TSO. Needs no JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SetBackError
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import UNFIT_CHANGELOGS, Note, NoteCode
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.mirror.retirement import is_retired
from ticdc_assets.pipeline.mirror.segments import came_late, reached_versions, segments
from ticdc_assets.pipeline.set_back import mirror_was_set_back, require_whole
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.properties import EFFECTS, VERSION
from ticdc_assets.tables.mirror.size import has_newer_rows
from ticdc_assets.tables.progress import Progress, field_ids_by_uid, progress_of, source_table_of, version_of
from ticdc_assets.tables.replayed import Replayed, unfollowed

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control.records import TableRecord
    from ticdc_assets.tables.locations import TableLocations
    from ticdc_assets.tables.mirror.writer import Segment


@dataclass(frozen=True, slots=True)
class MirrorWork:
    """One source table's pending segments up to `watermark`, from the mirror's progress as `planned`.

    `replayed` is true if a replay added changes below that progress. `must_be_rebuilt` is true if changes of a schema
    version arrived that the mirror has passed; the segments then only bring it to its next version. A mirror with
    `damage` is not changed, nor is one whose changelog was set back, as `damage` then says.
    """

    source_table: SourceTable
    place: TableLocations
    changelog: Table
    segments: tuple[Segment, ...]
    watermark: int
    replayed: Replayed | None = None
    is_new: bool = False
    must_be_rebuilt: bool = False
    planned: Progress = field(default_factory=Progress)
    damage: Note | None = None


def pending_work(
    lake: Lake,
    plan: Plan,
    only: Iterable[str] | None = None,
    errors: dict[str, Note] | None = None,
    awaited: Collection[str] = (),
) -> list[MirrorWork]:
    """The mirrors that are behind their changelog, or behind the newest columns of their table. Writes nothing.

    Args:
        plan: its record has the watermarks that the mirrors have to reach.
        only: the ids of the source tables to look at; None for all.
        errors: gets the error of each table that cannot be read, by source table; without it the first one is raised.
        awaited: the source tables whose mirrors an exchange of rows needs, also if they are dropped and not kept.
    """
    wanted = None if only is None else set(only)
    works = []
    for source_table in plan.history.source_tables:
        recorded = plan.recorded.get(source_table.id)
        if recorded is None or (wanted is not None and source_table.id not in wanted):
            continue
        if is_retired(lake, recorded) and source_table.id not in awaited:
            continue
        try:
            work = _work(lake, source_table, plan.locations[source_table.id], recorded, plan.newest.recorded_at)
        except Exception as error:
            if errors is None:
                raise
            errors[source_table.id] = Note.of(NoteCode.MIRROR, of_one_table(error))
            continue
        if work is not None:
            works.append(work)
    return works


def _work(
    lake: Lake, source_table: SourceTable, place: TableLocations, recorded: TableRecord, at: datetime
) -> MirrorWork | None:
    watermark = recorded.watermark
    if recorded.has(*UNFIT_CHANGELOGS):
        return None  # its mirror waits for the changelog
    if watermark == 0:
        return None
    changelog = load_or_none(lake.catalog, place.changelog)
    if changelog is None or source_table_of(changelog) != source_table.id:
        return None  # another table has its name: its own is held where it is
    try:
        require_whole(lake, recorded, at, changelog)
    except SetBackError as error:
        damage = Note.of(NoteCode.SET_BACK, error)
        return MirrorWork(source_table, place, changelog, (), watermark, damage=damage)
    if not list(reached_versions(source_table, watermark)):
        return None
    mirror = mirror_of(lake, source_table.id, place)
    damaged = damage_of(source_table, mirror) if mirror is not None else None
    if damaged is not None:
        work = MirrorWork(source_table, place, changelog, (), watermark, damage=damaged)
        return None if damaged in recorded.notes else work
    late = mirror is not None and lake.by_arrival and came_late(source_table, changelog, mirror, watermark)
    left = tuple(segments(source_table, changelog, mirror, watermark, lake.by_arrival))
    if late:
        left = tuple(replace(segment, files=()) for segment in left)
    # The property of the mirror that names the last replay stays when a user sets an earlier snapshot.
    was_rolled_back = mirror is not None and mirror_was_set_back(recorded, at, mirror)
    replayed = unfollowed(changelog, None if was_rolled_back else mirror)
    planned = progress_of(mirror) if mirror is not None else Progress()
    if not left and mirror is not None and replayed is None and not late:
        return None
    return MirrorWork(source_table, place, changelog, left, watermark, replayed, mirror is None, late, planned)


def mirror_of(lake: Lake, source_table_id: str, place: TableLocations) -> Table | None:
    """The source table's mirror, if it has one. A table of another source table does not count; the writer refuses
    it."""
    found = load_or_none(lake.catalog, place.mirror)
    return found if found is not None and source_table_of(found) == source_table_id else None


def damage_of(source_table: SourceTable, mirror: Table) -> Note | None:
    """Damage to the mirror by another writer that stops a run."""
    name = ".".join(mirror.name())
    version, rows_version = int(mirror.properties[VERSION]), version_of(mirror)
    if version != rows_version:
        return _damage(
            f"{name}: expected rows as of the statement at {version}, found those of {rows_version}: "
            "the mirror was rolled back to an earlier snapshot."
        )
    if _is_of_other_statements(source_table, mirror):
        return _damage(
            f"{name}: expected the effects of all statements up to {version} on its rows, found a statement that "
            "arrived after newer rows were merged."
        )
    places = field_ids_by_uid(mirror.properties)
    there = {field.field_id for field in mirror.schema().fields}
    if all(ids[0] in there for ids in places.values()):
        return None
    lost = sorted(
        c.name
        for v in source_table.versions
        for c in v.table.columns
        if c.uid in places and places[c.uid][0] not in there
    )
    return _damage(f"{name}: expected its columns, found none for {', '.join(dict.fromkeys(lost))}: it was dropped.")


def _damage(detail: str) -> Note:
    return Note(NoteCode.MIRROR, detail, (Advice.REBUILD,))


def _is_of_other_statements(source_table: SourceTable, mirror: Table) -> bool:
    """Whether a statement is known now that is older than the mirror's version or rows and was not applied to it."""
    version, watermark = int(mirror.properties[VERSION]), progress_of(mirror).watermark
    if mirror.properties.get(EFFECTS, found := effects_digest(source_table, version)) != found:
        return True
    passed = (v for v in source_table.versions if version < v.from_ts < watermark and not v.table.inferred)
    return any(has_newer_rows(mirror, v.from_ts) for v in passed)


def blocked_tables(records: Sequence[TableRecord]) -> list[TableRecord]:
    """The tables that hold back the recorded TSO."""
    return [r for r in records if r.state in (str(TableState.WAITING), str(TableState.STOPPED))]


def tables_beyond(records: Sequence[TableRecord], tso: int) -> list[TableRecord]:
    """The tables that a run which ended before its record has published beyond a recorded TSO."""
    return [r for r in records if r.watermark > tso]
