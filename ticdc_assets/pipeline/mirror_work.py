"""Which mirrors are behind their changelogs, and which tables hold back the recorded TSO. It needs no JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.errors import rebuild_command
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.interval import TableState
from ticdc_assets.pipeline.mirror_retirement import is_retired
from ticdc_assets.pipeline.segments import came_late, reached_versions, segments
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.progress import VERSION, Progress, columns_of, lineage_of, progress_of, version_of
from ticdc_assets.tables.replayed import Replayed, unfollowed

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.lineage import History, Lineage
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord
    from ticdc_assets.tables.mirror import Segment
    from ticdc_assets.tables.places import Place


@dataclass(frozen=True, slots=True)
class MirrorWork:
    """One lineage's pending segments up to `watermark`, from where its mirror is as `planned`; `replayed` where changes
    below came back to its changelog. For one `to_be_made_anew` changes came of a version that it has left: its segments
    only bring it to the version that it is to have then. One with `damage` is left as it is.
    """

    lineage: Lineage
    place: Place
    changelog: Table
    segments: tuple[Segment, ...]
    watermark: int
    replayed: Replayed | None = None
    is_new: bool = False
    to_be_made_anew: bool = False
    planned: Progress = field(default_factory=Progress)
    damage: str = ""


def pending_work(
    lake: Lake,
    history: History,
    record: WatermarkRecord,
    only: Iterable[str] | None = None,
    errors: dict[str, str] | None = None,
    awaited: Collection[str] = (),
) -> list[MirrorWork]:
    """The lineages whose mirror is behind its changelog or its table's newest shape. What cannot be told of one, since
    its own tables cannot be read, goes to `errors`, by lineage; where nobody asks for them it is raised. Of dropped
    tables whose mirrors are not kept, those are there that an exchange of rows awaits."""
    wanted = None if only is None else set(only)
    recorded = lake.recorded(record)
    places = lake.places(history)
    works = []
    for lineage in history.lineages:
        if lineage.id not in recorded or (wanted is not None and lineage.id not in wanted):
            continue
        if is_retired(lake, recorded[lineage.id]) and lineage.id not in awaited:
            continue
        try:
            work = _work(lake, lineage, places[lineage.id], recorded[lineage.id])
        except Exception as error:
            if errors is None:
                raise
            errors[lineage.id] = str(of_one_table(error))
            continue
        if work is not None:
            works.append(work)
    return works


def _work(lake: Lake, lineage: Lineage, place: Place, recorded: TableRecord) -> MirrorWork | None:
    watermark = recorded.watermark
    if watermark == 0 or not list(reached_versions(lineage, watermark)):
        return None
    changelog = load_or_none(lake.catalog, place.changelog)
    if changelog is None or lineage_of(changelog) != lineage.id:
        return None  # another table has its name: its own is held where it is
    mirror = mirror_of(lake, lineage.id, place)
    damage = damage_of(lineage, mirror) if mirror is not None else ""
    if damage:
        work = MirrorWork(lineage, place, changelog, (), watermark, damage=damage)
        return None if recorded.note.endswith(damage) else work
    late = mirror is not None and lake.by_arrival and came_late(lineage, changelog, mirror, watermark)
    left = tuple(segments(lineage, changelog, mirror, watermark, lake.by_arrival))
    if late:
        left = tuple(replace(segment, files=()) for segment in left)
    replayed = unfollowed(changelog, mirror)
    planned = progress_of(mirror) if mirror is not None else Progress()
    if not left and mirror is not None and replayed is None and not late:
        return None
    return MirrorWork(lineage, place, changelog, left, watermark, replayed, mirror is None, late, planned)


def mirror_of(lake: Lake, lineage_id: str, place: Place) -> Table | None:
    """The lineage's mirror, if it has one: a table of that name may be another's, which its writer refuses."""
    found = load_or_none(lake.catalog, place.mirror)
    return found if found is not None and lineage_of(found) == lineage_id else None


def damage_of(lineage: Lineage, mirror: Table) -> str:
    """What somebody did to the mirror that a run cannot go on from, as a sentence; "" where nothing."""
    name, todo = ".".join(mirror.name()), f"{rebuild_command('.'.join(lineage.name))} makes it anew."
    version, told = int(mirror.properties[VERSION]), version_of(mirror)
    if version != told:
        return (
            f"{name}: expected rows as of the statement at {version}, found those of {told}: an earlier snapshot was "
            f"set. {todo}"
        )
    places = columns_of(mirror.properties)
    there = {field.field_id for field in mirror.schema().fields}
    if all(ids[0] in there for ids in places.values()):
        return ""
    lost = sorted(
        c.name for v in lineage.versions for c in v.table.columns if c.uid in places and places[c.uid][0] not in there
    )
    return f"{name}: expected its columns, found none for {', '.join(dict.fromkeys(lost))}: it was dropped. {todo}"


def blocked_tables(records: Sequence[TableRecord]) -> list[TableRecord]:
    """The tables that hold back the recorded TSO."""
    return [r for r in records if r.state in (str(TableState.WAITING), str(TableState.STOPPED))]
