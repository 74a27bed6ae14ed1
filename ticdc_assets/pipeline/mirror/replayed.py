"""Updates a mirror after changes were added to its changelog below its watermark.

Where no later statement changed rows, the changes from the first added one on are merged again: the newest change of
every key wins, so the mirror equals one that never lacked them. Else the mirror is rebuilt under a second name from the
whole changelog, and takes its rows in one commit; earlier snapshots stay. By arrival, changes of a version that the
mirror has passed also lead to a rebuild.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.mirror.rounds import Failure, MirrorJob, catch_up
from ticdc_assets.pipeline.mirror.segments import changelog_files, reached_position
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.tables.iceberg.properties import VERSION
from ticdc_assets.tables.locations import second_name, second_names
from ticdc_assets.tables.mirror.effects import fill_literal
from ticdc_assets.tables.mirror.writer import MirrorWriter, Segment
from ticdc_assets.tables.progress import Progress, progress_of
from ticdc_assets.tables.replayed import Replayed

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def merged_again(
    lake: Lake, source_table: SourceTable, changelog: Table, mirror: Table, mark: Replayed, watermark: int
) -> Segment | None:
    """The segment to merge again into a mirror at `watermark`; None where a statement since then changed rows."""
    applied = next(v for v in source_table.versions if v.from_ts == int(mirror.properties[VERSION]))
    since = [v for v in source_table.versions if mark.version_ts < v.from_ts <= applied.from_ts]
    have = progress_of(mirror)
    if lake.by_arrival:
        # Only rows of one version are merged at a time: no later segment includes rows of an older version.
        if since:
            return None
        position = max(have.position, reached_position(source_table, changelog, have.position, watermark))
        files = changelog_files(changelog, applied, mark.first - 1, position, by_arrival=True)
        return Segment(applied, mark.first - 1, position, max(watermark, have.watermark), files, position)
    if any(_touches_rows(version, lake.changefeed.time_zone) for version in since):
        return None
    high = max(watermark, have.watermark)
    files = changelog_files(changelog, applied, mark.first - 1, high, by_arrival=False)
    return Segment(applied, mark.first - 1, high, high, files)


def _touches_rows(version: Version, zone: str) -> bool:
    """Whether the statement of a version changed rows in any way but adding columns without a value."""
    return not all(isinstance(e, FillColumn) and fill_literal(e, version, zone) is None for e in version.effects)


def rebuild_mirror(
    lake: Lake,
    jvm: JvmCatalog,
    job: MirrorJob,
    mirror: Table,
    replacement: MirrorWriter,
    planned: Iterable[Segment],
    workers: Workers,
) -> Table | Failure:
    """Rebuild the job's mirror with the writer `replacement`, under a second name, and let the mirror take its rows."""
    location = None if job.location is None else f"{job.location}_{replacement.identifier[-1]}"
    rebuild = MirrorJob(replacement, job.source_table, location, job.changelog, Progress(), tuple(planned))
    try:
        [rebuilt] = catch_up(lake, [rebuild], workers)
        if isinstance(rebuilt, Failure):
            return rebuilt
        have, found = progress_of(mirror), progress_of(rebuilt)
        progress = Progress(
            max(have.watermark, found.watermark), max(have.position, found.position), replacement.run_id
        )
        return job.writer.take_rows_of(mirror, replacement.identifier, progress)
    finally:
        _remove(lake, jvm, job.source_table)


def replacement_name(lake: Lake, source_table: SourceTable, run_id: str) -> Identifier:
    """The name of a mirror while it is rebuilt."""
    return second_name(lake.control.namespace, "rebuilt", source_table.id, run_id)


def _remove(lake: Lake, jvm: JvmCatalog, source_table: SourceTable) -> None:
    """Remove the rebuilt copies of the mirror, including those of killed runs. A run that still reads one fails and is
    repeated."""
    for identifier in second_names(lake.catalog, lake.control.namespace, "rebuilt", source_table.id):
        with suppress(NoSuchTableError):
            jvm.thread_session().sql(f"DROP TABLE IF EXISTS {quote_path((jvm.name, *identifier))} PURGE")
