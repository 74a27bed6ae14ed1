"""Which landed messages are removed: those that are decoded and older than `source.kafka.days_kept`.

Whole commits are removed, the oldest first, so that all other messages keep their ordinals. A commit with messages that
some table has not consumed, or with unresolved messages in quarantine, stays, and so do all later commits. Tables and
quarantine are those of the changefeed itself and of those that decode its messages again (`source: {messages: NAME}`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from ticdc_assets.config import KafkaSource, MessagesSource
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.landings import landings_of, remove_landings

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.offsets.ranges import Window
    from ticdc_assets.tables.control.records import RecordPosition
    from ticdc_assets.tables.control.tables import Control
    from ticdc_assets.tables.landings import LandedSegment, Landing


def remove_decoded(lake: Lake, now: datetime, *, dry_run: bool) -> int:
    """Remove what may be removed in one commit; in a dry run only count it. Returns the number of messages.

    Raises:
        StaleRunError: every try met a commit of another writer.
    """
    source = lake.changefeed.source
    if not isinstance(source, KafkaSource) or source.days_kept is None:
        return 0
    table = messages_table.load(lake.catalog, lake.control.namespace)
    readers = _readers(lake)
    records = [record for reader in readers if (record := reader.newest()) is not None]
    if table is None or len(records) < len(readers):  # a changefeed without a record has decoded nothing
        return 0
    unread = [StreamCursor.from_json(record.cursor).window() for record in records]
    quarantined = [kept.position for reader in readers for kept in reader.quarantined()]
    limit_us = int((now - timedelta(days=source.days_kept)).timestamp() * 1_000_000)
    gone = list(
        takewhile(
            lambda landing: _may_go(landing, unread, quarantined, limit_us),
            landings_of(table),
        )
    )
    if gone and not dry_run:
        remove_landings(table, lake.changefeed.name, gone)
    return sum(landing.rows for landing in gone)


def _readers(lake: Lake) -> list[Control]:
    """The control tables of all changefeeds that decode the messages of this one, its own first."""
    replayed = MessagesSource(lake.changefeed.name)
    others = [changefeed for changefeed in lake.config.changefeeds if changefeed.source == replayed]
    return [lake.control, *(Lake(lake.config, changefeed).control for changefeed in others)]


def _may_go(landing: Landing, unread: Sequence[Window], quarantined: Collection[RecordPosition], limit_us: int) -> bool:
    return all(
        segment.newest_us is not None
        and segment.newest_us < limit_us
        and not any(u.overlaps((segment.topic, segment.partition), segment.first, segment.end) for u in unread)
        and not any(_has(segment, position) for position in quarantined)
        for segment in landing.segments
    )


def _has(segment: LandedSegment, position: RecordPosition) -> bool:
    partition, offset = position
    return partition == f"{segment.topic}/{segment.partition}" and segment.first <= offset < segment.end
