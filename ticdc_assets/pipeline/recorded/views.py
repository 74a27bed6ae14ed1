"""Views of the mirrors at the newest complete record, where the config's `views` asks for them. With `held_views:
refuse` they are of the newest record, and a table that is held has no view.

A view shows one snapshot of a mirror. All views are replaced one after another when one of their snapshots changes.
Each view has the TSO of its record in a column. What was made is kept in the control table `views`: a new name before
the view is made, all else after that, so that a run that ended early is continued by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import load_file_io

from ticdc_assets.config.model.config import HeldViews
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import view_identifier
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.history.knowledge import LakeKnowledge
from ticdc_assets.pipeline.quarantine import last_whole
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.tables.catalog import Identifier, ensure_namespace
from ticdc_assets.tables.control.records import ViewRecord
from ticdc_assets.tables.control.tables import everybody, nobody
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.views import JvmViews, ShownSnapshot
from ticdc_assets.tables.locations import TableLocations, with_digest
from ticdc_assets.tso import now
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

VIEWS_AT_ONCE: Final = 8
TRIES_MAX: Final = 5
REPLACED_KEPT: Final = timedelta(minutes=10)
"""How long the metadata file of an earlier text stays for a reader that has just asked for its name."""

_NOT_MADE: Final = 0
"""The snapshot of a view that is not made yet."""

_WITH_FILES: Final = ("sql", "hive")
"""The types of catalogs whose clients write the metadata files of views."""


@dataclass(frozen=True, slots=True)
class WantedView:
    """A view that there must be."""

    source_table: str
    view: Identifier
    location: str | None
    shown: ShownSnapshot

    @property
    def state(self) -> tuple[object, ...]:
        """What decides whether it must be replaced: a later record of the same snapshots needs no other text."""
        return (self.source_table, self.view, self.shown.mirror, self.shown.snapshot_id)


def wanted_views(lake: Lake, history: History) -> list[WantedView]:
    """The views of the newest record that they show, under the names that the tables have in it."""
    template = lake.changefeed.target
    wanted = nobody if lake.changefeed.mirror.held_views is HeldViews.REFUSE else everybody
    record = lake.control.at(last_whole(lake), wanted) if template.view is not None else None
    if record is None:
        return []
    places, newest = lake.table_locations(history), lake.recorded(lake.control.newest())
    known, source_tables = LakeKnowledge.recorded(lake, record), history.by_id()
    taken = {name for place in places.values() for name in (place.mirror, place.changelog, place.history_table)}
    found = []
    for table in record.tables:
        present, place = newest.get(table.source_table, table), places.get(table.source_table)
        if table.state == TableState.DROPPED or table.mirror_snapshot_id is None or place is None:
            continue
        if not table.complete:
            continue  # a join with it fails, and does not mix two TSOs
        if present.mirror is None:
            continue  # its mirror was removed since then
        view = view_identifier(template, lake.changefeed.name, table.schema, table.table)
        assert view is not None
        free = view if view not in taken else with_digest(view, table.source_table)
        taken.add(free)
        told = known.table(source_tables[table.source_table], record.tso).properties
        shown = ShownSnapshot(place.mirror, table.mirror_snapshot_id, record.tso, tuple(told.items()))
        found.append(WantedView(table.source_table, free, _location(place), shown))
    return found


def views_are_behind(lake: Lake, history: History) -> bool:
    """Whether a view must be made, replaced or dropped. Needs no JVM."""
    return _differ(lake.control.views(), wanted_views(lake, history))


def bring_up_views(
    lake: Lake, jvm: Callable[[], JvmCatalog], history: History, on_progress: OnProgress = no_progress
) -> None:
    """Let the views show the newest complete record. `jvm` is called only where one must be changed.

    Raises:
        ConfigError: the catalog has no views, or a name is taken.
        LakeError: a snapshot of the record is gone.
    """
    for _ in range(TRIES_MAX):  # another run may write a record meanwhile
        held, wanted = lake.control.views(), wanted_views(lake, history)
        if not _differ(held, wanted):
            return
        on_progress(f"replacing {counted(len(wanted), 'view')}")
        _replace(lake, JvmViews(jvm()), held, wanted)


def _differ(held: Sequence[ViewRecord], wanted: Sequence[WantedView]) -> bool:
    there = {(view.source_table, tuple(view.view), tuple(view.mirror), view.mirror_snapshot_id) for view in held}
    return there != {view.state for view in wanted}


def _replace(lake: Lake, views: JvmViews, held: Sequence[ViewRecord], wanted: Sequence[WantedView]) -> None:
    by_view, at = {tuple(view.view): view for view in held}, now()
    new = [view for view in wanted if view.view not in by_view]
    if new:  # else nobody would know of them if the run ended here and the table were renamed
        lake.control.keep_views([*held, *(_record(view, None, [], _NOT_MADE) for view in new)])
    for namespace in {view.view[:-1] for view in wanted}:
        ensure_namespace(lake.catalog, namespace)
    with ThreadPoolExecutor(VIEWS_AT_ONCE) as pool:
        files = list(pool.map(partial(_put, lake, views, by_view), wanted))
    hit(Failpoint.VIEWS_REPLACED)
    names = {view.view for view in wanted}
    gone = [view for name, view in by_view.items() if name not in names]
    for former in gone:
        views.drop(tuple(former.view), lake.changefeed.name)
    old = [file["uri"] for former in gone for file in _replaced(former, at)]
    records = []
    for view, metadata in zip(wanted, files, strict=True):
        replaced = _replaced(by_view.get(view.view), at)
        old += [file["uri"] for file in replaced if file["at"] < at - REPLACED_KEPT]
        records.append(_record(view, metadata, [file for file in replaced if file["at"] >= at - REPLACED_KEPT]))
    lake.control.keep_views(records)
    _remove(lake, old)


def _record(
    view: WantedView, metadata: str | None, replaced: list[dict[str, Any]], snapshot_id: int | None = None
) -> ViewRecord:
    name, mirror, shown = list(view.view), list(view.shown.mirror), view.shown
    shown_id = shown.snapshot_id if snapshot_id is None else snapshot_id
    return ViewRecord(view.source_table, name, mirror, shown_id, shown.tso, metadata, replaced)


def _put(lake: Lake, views: JvmViews, held: Mapping[Identifier, ViewRecord], wanted: WantedView) -> str | None:
    found = held.get(wanted.view)
    is_ours = found is not None and found.mirror_snapshot_id != _NOT_MADE
    made = views.put(wanted.view, wanted.shown, lake.changefeed.name, wanted.location, is_ours)
    return made if lake.config.catalog.type in _WITH_FILES else None


def _replaced(held: ViewRecord | None, at: object) -> list[dict[str, Any]]:
    """The metadata files of a view whose text is replaced now."""
    if held is None or held.metadata is None:
        return []
    return [*held.replaced, {"at": at, "uri": held.metadata}]


def _remove(lake: Lake, uris: Sequence[str]) -> None:
    """Remove metadata files, with the checksum files that Hadoop writes beside those on a local disk."""
    for uri in uris:
        folder, _, name = uri.rpartition("/")
        checksum = [f"{folder}/.{name}.crc"] if ":" not in uri or uri.startswith("file:") else []
        for file in (uri, *checksum):
            with suppress(OSError):
                load_file_io(lake.io_properties, file).delete(file)


def _location(place: TableLocations) -> str | None:
    """The folder of a view's metadata, beside its mirror; None where the catalog chooses it."""
    return None if place.mirror_location is None else f"{place.mirror_location.rpartition('/')[0]}/view"
