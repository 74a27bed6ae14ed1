"""The next cursor after a scan of messages, and what the snapshots of tables say of the messages that they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.storage.plan import next_ordinal
from ticdc_assets.pipeline.stream.decode.task import Arrival
from ticdc_assets.pipeline.stream.offsets.ranges import GAPS_MAX, TopicPartition, union, within, without

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
    from ticdc_assets.pipeline.stream.scan.result import StreamScan
    from ticdc_assets.schema.history.source_table import Stop
    from ticdc_assets.tables.progress import Files, Progress


def advanced(
    cursor: StreamCursor, scan: StreamScan, ends: Mapping[TopicPartition, int], *, is_dated: bool
) -> StreamCursor:
    """The cursor after all scanned messages of each partition are consumed, up to `ends`. Earlier messages that no run
    has read are consumed too, unless one of them is above the TSO of the run: then all of them are read again.

    Args:
        ends: by partition, the offset after the last message to consume.
        is_dated: whether rows have a commit_ts.
    """
    offsets, begins, gaps, digests = dict(cursor.offsets), dict(cursor.begins), dict(cursor.gaps), dict(cursor.digests)
    read = dict(still_read(cursor, scan).read)
    for partition, first_left in ends.items():
        old_end = cursor.offsets.get(partition)
        old_begin = cursor.begins.get(partition, 0) if old_end is not None else scan.offsets.begins[partition]
        old_end = old_begin if old_end is None else old_end
        seen = scan.offsets.ledger.ranges(partition)
        end = max(old_end, first_left)
        if is_dated and first_left < old_end:
            left = (
                scan.commits.maxima[partition].first_offset_from(old_end) if partition in scan.commits.maxima else None
            )
            end = max(old_end, scan.offsets.ends[partition] if left is None else left)
            seen = within(seen, old_end, end)
        consumed = union(without(old_begin, old_end, cursor.gaps.get(partition, ())), within(seen, 0, end))
        begins[partition] = consumed[0][0] if consumed else old_begin
        offsets[partition] = end
        gaps[partition] = tuple(without(begins[partition], end, consumed)[-GAPS_MAX:])
        digests[partition] = scan.offsets.ledger.digests(partition, end)
        if is_dated:
            # after an accepted gap nothing counts as read: messages that fill it later are new
            read[partition] = next((b for a, b in scan.offsets.ledger.ranges(partition) if a <= end < b), end)
    kept = {partition: found for partition, found in gaps.items() if found}
    moved = replace(cursor, offsets=offsets, begins=begins, read=read, gaps=kept, digests=digests)
    return moved if is_dated else replace(moved, messages=scan.messages)


def begun(cursor: StreamCursor, scan: StreamScan) -> StreamCursor:
    """The cursor with the first offset of each partition that it does not have yet, of which nothing is consumed.

    Tables may have rows of this scan while another table keeps the cursor back: a later capture must not begin after
    this offset. A partition with a fault before its first offset is left out, so that the fault stays.
    """
    until = scan.offsets.until
    firsts = {p: first for p, first in scan.offsets.begins.items() if p not in cursor.offsets}
    begins = {p: first for p, first in firsts.items() if until.get(p, first) >= first}
    return replace(cursor, offsets={**cursor.offsets, **begins}, begins={**cursor.begins, **begins})


def still_read(cursor: StreamCursor, scan: StreamScan) -> StreamCursor:
    """The cursor without the messages as read that this scan did not have.

    Their tables may have advanced without them, so rows below the new TSO would be missing when the messages come back.
    """
    read = {}
    for partition, (first, end) in cursor.in_part.items():
        present = next((b for a, b in scan.offsets.ledger.ranges(partition) if a <= first < b), first)
        read[partition] = min(end, present, max(first, scan.offsets.until.get(partition, end)))
    return replace(cursor, read=read)


def gone(cursor: StreamCursor, scan: StreamScan) -> TopicPartition | None:
    """A partition whose capture no longer has the offset from which it was first read."""
    read = (partition for partition, offset in cursor.offsets.items() if offset > cursor.begins.get(partition, 0))
    return next((p for p in read if scan.offsets.begins.get(p, cursor.offsets[p]) > cursor.begins.get(p, 0)), None)


# -- streams without commit_ts in captures with one file per partition -------------------------------------------------
#
# In such a capture the ordinal of a message changes with every message that is appended to an earlier file. So a
# table's own newest snapshot records the last offset that it has of each partition. What a run adds is one delivery,
# numbered after all earlier deliveries.


def arrival_of(scan: StreamScan, stop: Stop | None, progress: Progress) -> Arrival:
    """The offsets that a table takes after its progress; none after its stop."""
    last = dict(progress.files)
    since = {partition: last[_name(partition)] + 1 for partition in scan.offsets.ends if _name(partition) in last}
    until = (
        {partition: scan.first_above(partition, stop.ts) for partition in scan.offsets.ends} if stop is not None else {}
    )
    return Arrival(next_ordinal(progress), since, until)


def consumed_with(scan: StreamScan, arrival: Arrival, progress: Progress) -> Files:
    """The files entry of the table's next snapshot: by partition, the last offset that it has."""
    last = dict(progress.files)
    for partition, end in scan.offsets.ends.items():
        last[_name(partition)] = max(last.get(_name(partition), -1), arrival.until.get(partition, end) - 1)
    return tuple(sorted(last.items()))


def _name(partition: TopicPartition) -> str:
    topic, number = partition
    return f"{topic}/{number}"
