"""Which tables are held because messages of their topic cannot be read, or have not been captured yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.pipeline.interval import Hold, Interval, TableState
from ticdc_assets.schema.lineage import SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.pipeline.capture_ledger import CaptureFault
    from ticdc_assets.pipeline.offset_ranges import Partition
    from ticdc_assets.pipeline.stream_look import StreamLook
    from ticdc_assets.tables.control import WatermarkRecord

CAPTURE: Final = "capture: "
"""How the note begins of a table that is held because of what the capture has, or lacks."""

_SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class CaptureHolds:
    """The tables that are held because of what the capture has or lacks: by lineage, and by name where nothing is known
    of them but what messages tell that are not read."""

    known: Mapping[str, Hold] = field(default_factory=dict)
    unread: Mapping[tuple[str, str], Hold] = field(default_factory=dict)

    def are_told(self, record: WatermarkRecord | None) -> bool:
        """Whether the record says of each of these tables why it is held, and of no other."""
        tables = record.tables if record is not None else ()
        told = {t.lineage: t.note for t in tables if t.note.startswith(CAPTURE)}
        wanted = {**self.known, **{unknown_id(*name): hold for name, hold in self.unread.items()}}
        return told.keys() == wanted.keys() and all(told[i].startswith(hold.reason) for i, hold in wanted.items())


def unknown_id(schema: str, table: str) -> str:
    """What a table is recorded as that is only a name so far."""
    return f"{schema}.{table}@unknown"


def faulty(look: StreamLook, intervals: Mapping[str, Interval], shared: Collection[str]) -> CaptureHolds:
    """The tables of topics with a fault stop, and new ones of other topics wait for the watermark of these. A topic of
    `shared` has statements of any table.

    A table is another topic's only where its messages were seen there and nowhere else.
    """
    known: dict[str, Hold] = {}
    unread: dict[tuple[str, str], Hold] = {}
    borne = _names(intervals)
    for fault in look.faults:
        hold = Hold(TableState.STOPPED, CAPTURE + fault.sentence)
        for lineage_id, interval in intervals.items():
            if _needs_more(interval) and not _is_elsewhere(look, fault, _names({"": interval}), shared):
                known.setdefault(lineage_id, hold)
        for folded, name in look.told.items():
            if folded not in borne and not _is_elsewhere(look, fault, {folded}, shared):
                unread.setdefault(name, hold)
    if look.faults:
        waits = Hold(TableState.WAITING, CAPTURE + look.faults[0].sentence)
        unread = {name: waits for folded, name in look.told.items() if folded not in borne} | unread
    return CaptureHolds(known, unread)


def awaited(
    look: StreamLook, intervals: Mapping[str, Interval], missing: Sequence[Partition], known: int, partition_num: int
) -> CaptureHolds:
    """All tables, where partitions of which the capture has nothing are what keeps them from going on."""
    present = look.ledger.partitions
    if not missing or any(partition not in look.watermarks for partition in present):
        return CaptureHolds()
    if min((look.watermarks[partition] for partition in present), default=0) <= known:
        return CaptureHolds()
    hold, borne = Hold(TableState.WAITING, CAPTURE + _awaited(look, missing, partition_num)), _names(intervals)
    return CaptureHolds(
        {i: hold for i, interval in intervals.items() if interval.hold is None and _needs_more(interval)},
        {name: hold for folded, name in look.told.items() if folded not in borne},
    )


def _names(intervals: Mapping[str, Interval]) -> set[SourceName]:
    return {fold_name(t.schema, t.table) for interval in intervals.values() for t in interval.lineage.tenures}


def _needs_more(interval: Interval) -> bool:
    gone = interval.lineage.dropped_ts
    return not interval.is_over and (gone is None or gone > interval.low)


def _is_elsewhere(look: StreamLook, fault: CaptureFault, names: Set[SourceName], shared: Collection[str]) -> bool:
    if fault.partition is None or fault.partition[0] in shared:
        return False
    carriers = {topic for topic, carried in look.carried.items() if not names.isdisjoint(carried)}
    return bool(carriers) and fault.partition[0] not in carriers


def _awaited(look: StreamLook, missing: Sequence[Partition], partition_num: int) -> str:
    listed = ", ".join(f"{topic}[{number}]" for topic, number in missing[:_SHOWN_MAX])
    more = f" and {len(missing) - _SHOWN_MAX} more" if len(missing) > _SHOWN_MAX else ""
    if all(partition in look.known for partition in missing):
        why = "which earlier runs read, since no watermark counts without all partitions"
    else:
        why = f"since sink_uri has partition-num={partition_num}"
    return f"expected messages of {listed}{more}, {why}, found none. Capture them too; it goes on when they come."
