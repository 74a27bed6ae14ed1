"""Which tables are held because messages of their topic cannot be read, or have not been captured yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode, of_codes
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.record import unknown_id
from ticdc_assets.pipeline.stream.offsets.ledger import CaptureFault
from ticdc_assets.schema.history.source_table import SourceName

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition
    from ticdc_assets.pipeline.stream.scan.result import StreamScan
    from ticdc_assets.tables.control.records import WatermarkRecord

_SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class CaptureHolds:
    """The tables that are held because of the capture: by source table, and by name where only unread messages mention
    the table."""

    known: Mapping[str, Hold] = field(default_factory=dict)
    unread: Mapping[tuple[str, str], Hold] = field(default_factory=dict)

    def are_recorded(self, record: WatermarkRecord | None) -> bool:
        """Whether the record has the reason for which each of these tables is held, and for no other table."""
        tables = record.tables if record is not None else ()
        recorded = {t.source_table: note for t in tables for note in of_codes(t.notes, NoteCode.MESSAGES)}
        wanted = {**self.known, **{unknown_id(*name): hold for name, hold in self.unread.items()}}
        return recorded == {i: hold.note for i, hold in wanted.items()}


def faulty(
    scan: StreamScan, commit_ranges: Mapping[str, CommitRange], shared: Collection[str], *, is_dated: bool = True
) -> CaptureHolds:
    """The tables that stop or wait because messages of a topic cannot be read.

    A table of such a topic stops; a new table of another topic waits for the watermark of the faulty one. A table
    counts as one of another topic if its messages were seen there and nowhere else.

    Args:
        shared: topics that may have statements of any table. If one of these has a fault, tables of other topics stop
            too, but first reach the end of their commit range, which is not above the last watermark of the faulty
            topic.
        is_dated: whether rows have a commit_ts. Without it no watermark bounds a commit range, and such tables stop at
            once.
    """
    known: dict[str, Hold] = {}
    unread: dict[tuple[str, str], Hold] = {}
    with_tables = _names(commit_ranges)
    for fault in scan.offsets.faults:
        hold = Hold(TableState.STOPPED, fault.note)
        for source_table_id, commit_range in commit_ranges.items():
            names = commit_range.source_table.folded_names
            may_advance = is_dated and commit_range.low < commit_range.high and _is_elsewhere(scan, fault, names, ())
            if _needs_more(commit_range) and not may_advance and not _is_elsewhere(scan, fault, names, shared):
                known.setdefault(source_table_id, hold)
        for folded, name in scan.mentioned.items():
            if folded not in with_tables and not _is_elsewhere(scan, fault, {folded}, shared):
                unread.setdefault(name, hold)
    if scan.offsets.faults:
        waits = Hold(TableState.WAITING, scan.offsets.faults[0].note)
        unread = {name: waits for folded, name in scan.mentioned.items() if folded not in with_tables} | unread
    return CaptureHolds(known, unread)


def foreign_topics(scan: StreamScan, default_topic: str) -> frozenset[str]:
    """The topics of which messages were read and none could be decoded: no table and no watermark is known of them.

    A pattern, also one that is made of dispatch rules, may match topics of other producers. A topic of TiCDC counts
    from its first statement, row or watermark on, the default topic always. So does one with missing messages: they may
    have been such.
    """
    faulty_partitions = [fault.partition for fault in scan.offsets.faults]
    if None in faulty_partitions:
        return frozenset()
    told = {topic for topic, _ in (*scan.watermarks.newest, *filter(None, faulty_partitions))}
    return frozenset({topic for topic, _ in scan.offsets.ends} - told - scan.tables.by_topic.keys() - {default_topic})


def with_topic_faults(scan: StreamScan, sentences: Mapping[str, str], shared: Collection[str]) -> None:
    """Add the faults of whole topics to a scan. The other topics advance without the watermarks of a faulty one, unless
    it is in `shared`: then it may have statements of their tables."""
    partitions = sorted(p for p in scan.offsets.partitions if p[0] not in scan.offsets.foreign)
    of_topics = [
        CaptureFault(Note(NoteCode.MESSAGES, sentences[partition[0]]), partition, scan.offsets.ends.get(partition, 0))
        for partition in partitions
        if partition[0] in sentences
    ]
    scan.offsets.faults = (*scan.offsets.faults, *of_topics)
    scan.offsets.left_out = frozenset({fault.partition[0] for fault in of_topics if fault.partition} - set(shared))


def behind(
    scan: StreamScan,
    commit_ranges: Mapping[str, CommitRange],
    shared: Collection[str],
    live: Set[SourceName],
    high: int,
) -> dict[str, Hold]:
    """By source table, the hold of each table of a topic that is behind the TSO `high`.

    Args:
        shared: topics that may have statements of any table.
        live: the names of the tables that exist.
        high: the TSO that the other topics have reached without this one.
    """
    held: dict[str, Hold] = {}
    for partition, watermark in sorted(scan.watermarks.newest.items()):
        if watermark >= high or not scan.is_active(partition[0], live):
            continue
        fault = CaptureFault(_behind(partition, watermark, high), partition)
        for source_table_id, commit_range in commit_ranges.items():
            is_open = commit_range.low < high and _needs_more(commit_range) and commit_range.hold is None
            if is_open and not _is_elsewhere(scan, fault, commit_range.source_table.folded_names, shared):
                held.setdefault(source_table_id, Hold(TableState.WAITING, fault.note))
    return held


def _behind(partition: TopicPartition, watermark: int, high: int) -> Note:
    detail = (
        f"expected the watermark of {partition[0]}[{partition[1]}] to reach {high}, which the other topics have "
        f"reached, found {watermark}."
    )
    return Note(NoteCode.MESSAGES, detail, (Advice.AWAIT_WATERMARK,))


def awaited(
    scan: StreamScan,
    commit_ranges: Mapping[str, CommitRange],
    missing: Sequence[TopicPartition],
    known: int,
    partition_num: int,
) -> CaptureHolds:
    """Holds of all tables, if the stream waits for partitions that have no message in the capture.

    Args:
        missing: these partitions.
        known: the recorded TSO; without a later watermark in the other partitions, nothing waits.
        partition_num: the configured number of partitions of each topic, for the sentence.
    """
    present = {partition for partition in scan.offsets.ledger.partitions if partition[0] not in scan.offsets.foreign}
    if not missing or any(partition not in scan.watermarks.newest for partition in present):
        return CaptureHolds()
    if min((scan.watermarks.newest[partition] for partition in present), default=0) <= known:
        return CaptureHolds()
    hold = Hold(TableState.WAITING, _awaited(scan, missing, partition_num))
    with_tables = _names(commit_ranges)
    return CaptureHolds(
        {
            i: hold
            for i, commit_range in commit_ranges.items()
            if commit_range.hold is None and _needs_more(commit_range)
        },
        {name: hold for folded, name in scan.mentioned.items() if folded not in with_tables},
    )


def _names(commit_ranges: Mapping[str, CommitRange]) -> set[SourceName]:
    return {name for commit_range in commit_ranges.values() for name in commit_range.source_table.folded_names}


def _needs_more(commit_range: CommitRange) -> bool:
    gone = commit_range.source_table.dropped_ts
    return not commit_range.is_over and (gone is None or gone > commit_range.low)


def _is_elsewhere(scan: StreamScan, fault: CaptureFault, names: Set[SourceName], shared: Collection[str]) -> bool:
    if fault.partition is None or fault.partition[0] in shared:
        return False
    carriers = {topic for topic, tables in scan.tables.by_topic.items() if not names.isdisjoint(tables)}
    return bool(carriers) and fault.partition[0] not in carriers


def _awaited(scan: StreamScan, missing: Sequence[TopicPartition], partition_num: int) -> Note:
    listed = ", ".join(f"{topic}[{number}]" for topic, number in missing[:_SHOWN_MAX])
    more = f" and {len(missing) - _SHOWN_MAX} more" if len(missing) > _SHOWN_MAX else ""
    if all(partition in scan.offsets.known for partition in missing):
        why = "which the source has, since no watermark counts without all partitions"
    else:
        why = f"since sink_uri has partition-num={partition_num}"
    detail = f"expected messages of {listed}{more}, {why}, found none."
    return Note(NoteCode.MESSAGES, detail, (Advice.AWAIT_PARTITIONS,))
