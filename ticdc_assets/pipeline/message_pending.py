"""What a look at a capture found pending, and the cursor that says where the next look begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ticdc_assets.pipeline.capture_holds import CaptureHolds
from ticdc_assets.pipeline.interval import Interval, TableState
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.message_task import Told
from ticdc_assets.pipeline.offset_ranges import GAPS_MAX, Partition, Range, Window, union, within, without
from ticdc_assets.pipeline.placed_rows import Places
from ticdc_assets.pipeline.stream_look import StreamLook
from ticdc_assets.protocols.avro_names import Name
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.lineage import History, SourceName, fold_name
from ticdc_assets.tables.control import WatermarkRecord

if TYPE_CHECKING:
    from ticdc_assets.pipeline.ddl_log import DdlLog


@dataclass(frozen=True, slots=True)
class StreamCursor:
    """Per partition: the first offset not consumed, the newest watermark seen, the last one `passed` before it, and
    where it began when it was first read. Messages below `read` were read while no table was held: what they have up to
    the recorded TSO is in the changelogs.

    Consumed are the offsets from there on but for `gaps`, and `digests` tell some of these messages. `messages` is how
    many the capture had when all were, where nothing but their order tells what came first.
    `carried` has the tables that each topic had rows or statements of, where there may be several topics: one whose
    tables are all gone gets no watermarks any more, also when all its messages are consumed.
    """

    offsets: dict[Partition, int] = field(default_factory=dict)
    watermarks: dict[Partition, int] = field(default_factory=dict)
    carried: dict[str, frozenset[SourceName]] = field(default_factory=dict)
    passed: dict[Partition, int] = field(default_factory=dict)
    begins: dict[Partition, int] = field(default_factory=dict)
    read: dict[Partition, int] = field(default_factory=dict)
    gaps: dict[Partition, tuple[Range, ...]] = field(default_factory=dict)
    digests: dict[Partition, dict[int, str]] = field(default_factory=dict)
    messages: int = 0

    def rewound(self) -> StreamCursor:
        """The cursor before the first message, with what is known of the stream."""
        return StreamCursor({}, self.watermarks, self.carried, {}, self.begins, self.read, digests=self.digests)

    def window(self, until: Mapping[Partition, int] = MappingProxyType({})) -> Window:
        """The messages that are not consumed."""
        return Window(self.offsets, self.begins, self.gaps, until)

    def advanced(self, look: StreamLook, ends: Mapping[Partition, int], *, is_dated: bool) -> StreamCursor:
        """The cursor after all that the look saw of each partition was consumed, up to `ends`.

        Messages from before it, which no run had seen, are consumed too, unless one of them is above what the tables
        are brought to (`is_dated` where rows tell that): then all of them come again.
        """
        offsets, begins, gaps, digests = dict(self.offsets), dict(self.begins), dict(self.gaps), dict(self.digests)
        read = dict(self.read)
        for partition, first_left in ends.items():
            old_end = self.offsets.get(partition)
            old_begin = self.begins.get(partition, 0) if old_end is not None else look.begins[partition]
            old_end = old_begin if old_end is None else old_end
            seen = look.ledger.ranges(partition)
            end = max(old_end, first_left)
            if is_dated and first_left < old_end:
                left = [step.offset for step in look.above.get(partition, ()) if step.offset >= old_end]
                end = max(old_end, min(left, default=look.ends[partition]))
                seen = within(seen, old_end, end)
            consumed = union(without(old_begin, old_end, self.gaps.get(partition, ())), within(seen, 0, end))
            begins[partition] = consumed[0][0] if consumed else old_begin
            offsets[partition] = end
            gaps[partition] = tuple(without(begins[partition], end, consumed)[-GAPS_MAX:])
            digests[partition] = look.ledger.digests(partition, end)
            if is_dated:
                # behind a hole that was accepted, nothing is noted as read: what fills it later is new
                read[partition] = next((b for a, b in look.ledger.ranges(partition) if a <= end < b), end)
        kept = {partition: found for partition, found in gaps.items() if found}
        moved = replace(self, offsets=offsets, begins=begins, read=read, gaps=kept, digests=digests)
        return moved if is_dated else replace(moved, messages=look.messages)

    @property
    def in_part(self) -> dict[Partition, tuple[int, int]]:
        """The offsets that were read and are not consumed: those that are, and come all the same, are new ones."""
        return {partition: (self.offsets.get(partition, 0), end) for partition, end in self.read.items()}

    def gone(self, look: StreamLook) -> Partition | None:
        """A partition whose capture does not reach back any more to where it was first read from."""
        read = (partition for partition, offset in self.offsets.items() if offset > self.begins.get(partition, 0))
        return next((p for p in read if look.begins.get(p, self.offsets[p]) > self.begins.get(p, 0)), None)

    def to_json(self) -> str:
        partitions = sorted(self.offsets.keys() | self.watermarks.keys())
        told: dict[str, Any] = {
            "partitions": [
                [*p, self.offsets.get(p), self.watermarks.get(p, 0), self.passed.get(p, 0)] for p in partitions
            ]
        }
        begins = [[*partition, offset] for partition, offset in sorted(self.begins.items()) if offset]
        told |= {"begins": begins} if begins else {}
        read = [[*partition, offset] for partition, offset in sorted(self.read.items()) if offset]
        told |= {"read": read} if read else {}
        gaps = [[*partition, *gap] for partition, found in sorted(self.gaps.items()) for gap in found]
        told |= {"gaps": gaps} if gaps else {}
        told["digests"] = [[*partition, list(of.items())] for partition, of in sorted(self.digests.items()) if of]
        told |= {"messages": self.messages} if self.messages else {}
        if self.carried:
            told["carried"] = {topic: sorted(names) for topic, names in sorted(self.carried.items())}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StreamCursor:
        told = json.loads(text or "{}")
        listed = told.get("partitions", [])
        is_older = "digests" not in told  # then 0 stands for none, too
        gaps: dict[Partition, list[Range]] = {}
        for topic, number, first, end in told.get("gaps", []):
            gaps.setdefault((topic, number), []).append((first, end))
        return cls(
            {(t, n): offset for t, n, offset, *_ in listed if offset is not None and not (is_older and offset == 0)},
            {(topic, number): ts for topic, number, _, ts, *_ in listed if ts},
            {topic: frozenset(map(tuple, names)) for topic, names in told.get("carried", {}).items()},
            {(topic, number): ts for topic, number, _, *_, ts in listed if ts},
            {(topic, number): offset for topic, number, offset in told.get("begins", [])},
            {(topic, number): offset for topic, number, offset in told.get("read", [])},
            {partition: tuple(found) for partition, found in gaps.items()},
            {(topic, number): dict(map(tuple, of)) for topic, number, of in told.get("digests", [])},
            told.get("messages", 0),
        )


@dataclass(frozen=True, slots=True)
class PendingMessages:
    """What a look found; as `storage_run.Pending`. `fresh` are tables that nobody asked for when earlier runs read."""

    run_id: str
    high: int
    record: WatermarkRecord | None
    cursor: StreamCursor
    look: StreamLook
    statements: tuple[DdlEvent, ...]
    history: History
    intervals: dict[str, Interval]
    names: dict[Told, Name | None]
    follows: Callable[[str, str], bool]
    log: DdlLog | None = None
    faults: CaptureHolds = field(default_factory=CaptureHolds)
    fresh: frozenset[str] = frozenset()
    places: Places = field(default_factory=Places)

    @property
    def has_unread(self) -> bool:
        """Whether there are messages that no run has read."""
        read = self.cursor.in_part
        return self.look.has_older or any(end > read.get(p, (0, 0))[1] for p, end in self.look.ends.items())

    @property
    def checkpoint(self) -> int:
        """How far the source is, as its watermarks tell; 0 where they do not."""
        return self.high

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing."""
        known = self.record.tso if self.record else 0
        new = any(end > self.cursor.offsets.get(partition, 0) for partition, end in self.look.ends.items())
        if self.log is not None and (self.statements or self._waits_unrecorded()):
            return False
        if not self.faults.are_told(self.record):
            return False
        if any(is_passed(interval) and self._is_unrecorded(interval) for interval in self.intervals.values()):
            return False
        return self.high <= known and not (new and self.record is None) and not self.look.new_messages

    def _is_unrecorded(self, interval: Interval) -> bool:
        return self.record is None or interval.lineage.id not in {table.lineage for table in self.record.tables}

    def _waits_unrecorded(self) -> bool:
        tables = self.record.tables if self.record else ()
        recorded = {fold_name(t.schema, t.table) for t in tables if t.state == str(TableState.WAITING)}
        return not {fold_name(*name) for name in self.waiting} <= recorded

    @property
    def waiting(self) -> list[Name]:
        """The tables that are asked for and have rows above what `log` tells."""
        spelt = self.look.avro.names if self.look.avro else {}
        told = {fold_name(*name): self.names.get(told) or name for told, name in spelt.items()}
        names = (told.get(name, written) for name, written in self.look.waiting.items())
        return [name for name in names if self.follows(*name)]
