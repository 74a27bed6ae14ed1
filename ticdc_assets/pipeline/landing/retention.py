"""Which landed messages are removed: those that are decoded and older than `source.kafka.days_kept`.

Whole commits are removed, the oldest first, so that all other messages keep their ordinals. A commit with messages that
some table has not consumed, or with unresolved messages in quarantine, stays, and so do all later commits.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from ticdc_assets.config import KafkaSource
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.tables import messages as messages_table

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.stream.offsets.ranges import Window
    from ticdc_assets.tables.messages import Landing, Segment

Position = tuple[str, int]
"""A partition, `topic/number`, and an offset, as in the table `quarantine`."""


def remove_decoded(lake: Lake, now: datetime, *, dry_run: bool) -> int:
    """Remove what may be removed in one commit; in a dry run only count it. Returns the number of messages.

    Raises:
        StaleRunError: every try met a commit of another writer.
    """
    source, record = lake.changefeed.source, lake.control.newest()
    if not isinstance(source, KafkaSource) or source.days_kept is None or record is None:
        return 0
    table = messages_table.load(lake.catalog, lake.control.namespace)
    if table is None:
        return 0
    unread = StreamCursor.from_json(record.cursor).window()
    quarantined = [kept.position for kept in lake.control.quarantined()]
    limit_us = int((now - timedelta(days=source.days_kept)).timestamp() * 1_000_000)
    gone = list(
        takewhile(
            lambda landing: _may_go(landing, unread, quarantined, limit_us),
            messages_table.landings(table),
        )
    )
    if gone and not dry_run:
        messages_table.remove(table, lake.changefeed.name, gone)
    return sum(landing.rows for landing in gone)


def _may_go(landing: Landing, unread: Window, quarantined: Collection[Position], limit_us: int) -> bool:
    return all(
        segment.newest_us is not None
        and segment.newest_us < limit_us
        and not unread.overlaps((segment.topic, segment.partition), segment.first, segment.end)
        and not any(_has(segment, position) for position in quarantined)
        for segment in landing.segments
    )


def _has(segment: Segment, position: Position) -> bool:
    partition, offset = position
    return partition == f"{segment.topic}/{segment.partition}" and segment.first <= offset < segment.end
