"""Brings a mirror to what its changelog says, after changes came back to the changelog below its watermark.

Where no statement since then did anything to rows, the changes from the first one on are merged once more: for every
key the newest decides, so the mirror ends as if none had been missing. Else the mirror is made anew beside the present
one, from the whole changelog, and its rows are put in place in one commit; earlier snapshots stay as they were.
So it is too where, by arrival, changes came of a version that the mirror has left.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.mirror_rounds import Course, catch_up
from ticdc_assets.pipeline.segments import changelog_files, reached_position
from ticdc_assets.schema.evolution import FillColumn
from ticdc_assets.schema.lineage import Lineage, Version
from ticdc_assets.tables.mirror import MirrorWriter, Segment
from ticdc_assets.tables.mirror_effects import fill_literal
from ticdc_assets.tables.progress import VERSION, Progress, progress_of
from ticdc_assets.tables.replayed import Replayed

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog


def merged_again(
    lake: Lake, lineage: Lineage, changelog: Table, mirror: Table, mark: Replayed, watermark: int
) -> Segment | None:
    """The segment to merge once more into a mirror that is at `watermark`; None where rows went through a statement."""
    applied = next(v for v in lineage.versions if v.from_ts == int(mirror.properties[VERSION]))
    since = [v for v in lineage.versions if mark.version_ts < v.from_ts <= applied.from_ts]
    have = progress_of(mirror)
    if lake.by_arrival:
        # Rows of one version only are merged at a time: those of an older one have no turn any more.
        if since:
            return None
        position = max(have.position, reached_position(lineage, changelog, have.position, watermark))
        files = changelog_files(changelog, applied, mark.first - 1, position, by_arrival=True)
        return Segment(applied, mark.first - 1, position, max(watermark, have.watermark), files, position)
    if any(_touches_rows(version, lake.changefeed.time_zone) for version in since):
        return None
    high = max(watermark, have.watermark)
    files = changelog_files(changelog, applied, mark.first - 1, high, by_arrival=False)
    return Segment(applied, mark.first - 1, high, high, files)


def _touches_rows(version: Version, zone: str) -> bool:
    """Whether the statement that began a version did more to rows than adding columns without a value."""
    return not all(isinstance(e, FillColumn) and fill_literal(e, version, zone) is None for e in version.effects)


def made_anew(
    lake: Lake, jvm: JvmCatalog, course: Course, beside: MirrorWriter, planned: Iterable[Segment], workers: Workers
) -> None:
    """Make a mirror with `beside`, next to the one of the course, and let this one take its rows."""
    mirror, location = course.table, f"{course.location}_{beside.identifier[-1]}"
    assert mirror is not None
    anew = Course(beside, course.lineage, location, course.changelog, Progress(), deque(planned))
    try:
        catch_up(lake, [anew], workers)
        course.error = anew.error
        if anew.table is not None and not anew.error:
            have, found = progress_of(mirror), progress_of(anew.table)
            progress = Progress(max(have.watermark, found.watermark), max(have.position, found.position), beside.run_id)
            course.table = course.writer.take_rows_of(mirror, beside.identifier, progress)
    finally:
        _remove(lake, jvm, course.lineage)


def name_beside(lake: Lake, lineage: Lineage, run_id: str) -> Identifier:
    """What a mirror is called while it is made anew."""
    return (*lake.control.namespace, f"{_prefix_beside(lineage)}{run_id.replace('-', '')}")


def _prefix_beside(lineage: Lineage) -> str:
    return f"rebuilt_{hashlib.sha256(lineage.id.encode()).hexdigest()[:12]}_"


def _remove(lake: Lake, jvm: JvmCatalog, lineage: Lineage) -> None:
    """Remove what stands beside the mirror, also what a killed run left. One that another run still reads from is only
    a reason for that run to fail: it is repeated."""
    for identifier in lake.catalog.list_tables(lake.control.namespace):
        if identifier[-1].startswith(_prefix_beside(lineage)):
            with suppress(NoSuchTableError):
                jvm.thread_session().sql(f"DROP TABLE IF EXISTS {quote_path((jvm.name, *identifier))} PURGE")
