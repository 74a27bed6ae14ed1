"""The segments of a changelog that a mirror has not merged yet.

The changes between two statements of a table are one segment. A long segment is cut, so that the memory of a merge does
not grow with the amount of pending changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, pairwise, takewhile
from typing import TYPE_CHECKING, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.types import LongType

from ticdc_assets.changes import layout
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.tables.iceberg.properties import BORN, VERSION
from ticdc_assets.tables.mirror.exchanged_rows import is_awaited
from ticdc_assets.tables.mirror.writer import ChangelogFile, Segment
from ticdc_assets.tables.progress import WATERMARK, Progress, from_summary, progress_of
from ticdc_assets.tso import INT64_MAX

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

SEGMENT_ROWS: Final = 1_000_000
"""A segment with more changes is cut where one of its files ends."""


def segments(
    source_table: SourceTable, changelog: Table, mirror: Table | None, watermark: int, by_arrival: bool
) -> Iterator[Segment]:
    """The segments of a changelog that the mirror has not merged, in order.

    Args:
        mirror: None for a mirror that is not created yet.
        watermark: where the last segment ends; an exchange of rows that the changelog does not have yet ends it
            earlier.
        by_arrival: whether the changes have no commit_ts and are ordered by `_ticdc_seq`.
    """
    have = progress_of(mirror) if mirror is not None else Progress()
    applied = int(mirror.properties[VERSION]) if mirror is not None else source_table.versions[0].from_ts
    published = progress_of(changelog)
    # Earlier releases wrote replayed changes into an empty changelog at the watermark 0.
    reached = published.watermark or watermark
    is_behind = published.position > have.position if by_arrival else reached > have.watermark
    last = (
        reached_position(source_table, changelog, have.position, watermark)
        if by_arrival and is_behind
        else have.position
    )
    for version, following in reached_versions(source_table, watermark):
        if version.from_ts < applied:
            continue
        if version.from_ts > applied and is_awaited(version, changelog):
            return
        end = min(watermark, following.from_ts) if following else watermark
        low, high = (have.position, last) if by_arrival else (max(have.watermark, version.from_ts), end)
        files = changelog_files(changelog, version, low, high, by_arrival) if is_behind else ()
        if files or version.from_ts > applied:
            # A run may end after this segment: changes of a version that comes later must then be left.
            position = before_newer(changelog, version.from_ts, low, high) if by_arrival else None
            yield from _cut(Segment(version, low, high, end, files, position))


def reached_position(source_table: SourceTable, changelog: Table, low: int, watermark: int) -> int:
    """The position up to which a mirror at the position `low` may merge changes by arrival, at `watermark`: before the
    first change of a version that is not reached, which no segment would include later."""
    newest = [version for version, _ in reached_versions(source_table, watermark)][-1]
    return before_newer(changelog, newest.from_ts, low, progress_of(changelog).position)


def before_newer(changelog: Table, version_ts: int, low: int, high: int) -> int:
    """The position before the first change in `(low, high]` of a version after `version_ts`, or `high`."""
    firsts = [file.first for file in _files(changelog, layout.SEQ, low, high, (version_ts, INT64_MAX))]
    return min([max(low, first - 1) for first in firsts], default=high)


def came_late(source_table: SourceTable, changelog: Table, mirror: Table, watermark: int) -> bool:
    """Whether changes arrived, by arrival, of a version that the mirror has passed: no segment includes them any
    more."""
    low, applied, born = progress_of(mirror).position, int(mirror.properties[VERSION]), int(mirror.properties[BORN])
    if applied == born or progress_of(changelog).position <= low:
        return False
    high = reached_position(source_table, changelog, low, watermark)
    older = And(GreaterThanOrEqual(layout.TABLE_VERSION, born), LessThan(layout.TABLE_VERSION, applied))
    where = And(_between(layout.SEQ, low, high), older)
    return len(changelog.scan(row_filter=where, selected_fields=(layout.SEQ,), limit=1).to_arrow()) > 0


def changelog_files(
    changelog: Table, version: Version, low: int, high: int, by_arrival: bool
) -> tuple[ChangelogFile, ...]:
    """The data files of a changelog that may hold changes in `(low, high]`, ordered by their first position.

    Args:
        version: the version of the changes, which selects files only with `by_arrival`.
        low, high: values of `_ticdc_commit_ts`, or of `_ticdc_seq` with `by_arrival`.
    """
    if by_arrival:
        return _files(changelog, layout.SEQ, low, high, (version.from_ts - 1, version.from_ts))
    return _files(changelog, layout.COMMIT_TS, low, high)


def _files(
    changelog: Table, bound: str, low: int, high: int, versions: tuple[int, int] | None = None
) -> tuple[ChangelogFile, ...]:
    """The data files that may hold changes in `(low, high]` of `bound`, and in that range of versions where given.

    It compares the bounds itself: pyiceberg's planner takes longer to prepare than a small manifest to read.
    """
    if high <= low:
        return ()
    field_id = changelog.schema().find_field(bound).field_id
    version_id = changelog.schema().find_field(layout.TABLE_VERSION).field_id
    found = []
    for file in _data_files(changelog, bound, low):
        first, last = _bound(file.lower_bounds, field_id, low + 1), _bound(file.upper_bounds, field_id, high)
        if last > low and first <= high and (versions is None or _may_have(file, version_id, *versions)):
            found.append(ChangelogFile(file.file_path, file.record_count, first, last))
    return tuple(sorted(found, key=lambda file: (file.first, file.uri)))


def _may_have(file: DataFile, field_id: int, low: int, high: int) -> bool:
    return _bound(file.upper_bounds, field_id, high) > low and _bound(file.lower_bounds, field_id, low + 1) <= high


def _data_files(changelog: Table, bound: str, low: int) -> Iterator[DataFile]:
    for manifest in _manifests(changelog, bound, low):
        for entry in manifest.fetch_manifest_entry(changelog.io):
            yield entry.data_file


def _manifests(changelog: Table, bound: str, low: int) -> list[ManifestFile]:
    """The manifests that may name files with changes after `low`: those of later commits than the newest one whose
    progress is not beyond it. A run appends each time, and must not read the manifests of all runs before it."""
    snapshot = changelog.current_snapshot()
    if snapshot is None:
        return []
    have = next((seq for seq, reached in _commits(changelog, bound) if reached <= low), -1)
    manifests = snapshot.manifests(changelog.io)
    return [m for m in manifests if (m.sequence_number or 0) > have and m.content == ManifestContent.DATA]


def _commits(changelog: Table, bound: str) -> Iterator[tuple[int, int]]:
    """The sequence numbers of the commits with progress, newest first, each with the largest `bound` of all changes
    up to it."""
    for snapshot in ancestors_of(changelog.current_snapshot(), changelog.metadata):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if WATERMARK in summary:
            reached = from_summary(summary)
            if bound == layout.SEQ or reached.watermark:
                yield snapshot.sequence_number or 0, reached.position if bound == layout.SEQ else reached.watermark


def _between(bound: str, low: int, high: int) -> BooleanExpression:
    return And(GreaterThan(bound, low), LessThanOrEqual(bound, high))


def _bound(bounds: dict[int, bytes] | None, field_id: int, unknown: int) -> int:
    stored = (bounds or {}).get(field_id)
    return unknown if stored is None else int(from_bytes(LongType(), stored))


def _cut(segment: Segment) -> Iterator[Segment]:
    """The segment in parts of about SEGMENT_ROWS. By arrival it stays whole, because a merge can only resume at its
    end."""
    ends = [] if segment.by_arrival else _ends(segment.files)
    for low, end in pairwise([segment.low, *ends, segment.high]):
        files = tuple(file for file in segment.files if file.last > low and file.first <= end)
        watermark = segment.watermark if end == segment.high else end
        yield replace(segment, low=low, high=end, watermark=watermark, files=files)


def _ends(files: Sequence[ChangelogFile]) -> list[int]:
    """Where a part has enough changes, and some are left for the next part."""
    rows, last = 0, 0
    ends: list[int] = []
    for file in files:
        if ends and file.last <= ends[-1]:
            continue  # the part before has all of it
        rows, last = rows + file.rows, max(last, file.last)
        if rows >= SEGMENT_ROWS and any(other.last > last for other in files):
            ends.append(last)
            rows = 0
    return ends


def reached_versions(source_table: SourceTable, watermark: int) -> Iterable[tuple[Version, Version | None]]:
    """The versions up to `watermark` that a mirror can have, each with the next one: those with a key.

    A table that lost its key keeps the mirror that it had until then (`lost_key`).
    """
    reached = [version for version in source_table.versions if version.from_ts <= watermark]
    pairs = zip(reached, [*reached[1:], None], strict=False)
    keyed = dropwhile(lambda pair: not pair[0].table.key, pairs)
    return takewhile(lambda pair: bool(pair[0].table.key), keyed)


def lost_key(source_table: SourceTable, watermark: int) -> int | None:
    """The TSO at which a table lost its key; None where it has one, or never had one."""
    had = False
    for version in source_table.versions:
        if version.from_ts <= watermark and had and not version.table.key:
            return version.from_ts
        had = had or bool(version.table.key)
    return None
