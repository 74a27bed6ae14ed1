"""What a look at a capture found pending, and the cursor that says where the next look begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ticdc_assets.pipeline.interval import Interval, TableState
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.message_task import Partition, Told
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

    `carried` has the tables that each topic had rows or statements of, where there may be several topics: one whose
    tables are all gone gets no watermarks any more, also when all its messages are consumed.
    """

    offsets: dict[Partition, int] = field(default_factory=dict)
    watermarks: dict[Partition, int] = field(default_factory=dict)
    carried: dict[str, frozenset[SourceName]] = field(default_factory=dict)
    passed: dict[Partition, int] = field(default_factory=dict)
    begins: dict[Partition, int] = field(default_factory=dict)
    read: dict[Partition, int] = field(default_factory=dict)

    def rewound(self) -> StreamCursor:
        """The cursor before the first message, with what is known of the stream."""
        return StreamCursor({}, self.watermarks, self.carried, {}, self.begins, self.read)

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
                [*p, self.offsets.get(p, 0), self.watermarks.get(p, 0), self.passed.get(p, 0)] for p in partitions
            ]
        }
        begins = [[*partition, offset] for partition, offset in sorted(self.begins.items()) if offset]
        told |= {"begins": begins} if begins else {}
        read = [[*partition, offset] for partition, offset in sorted(self.read.items()) if offset]
        told |= {"read": read} if read else {}
        if self.carried:
            told["carried"] = {topic: sorted(names) for topic, names in sorted(self.carried.items())}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StreamCursor:
        told = json.loads(text or "{}")
        listed = told.get("partitions", [])
        return cls(
            {(topic, number): offset for topic, number, offset, *_ in listed},
            {(topic, number): ts for topic, number, _, ts, *_ in listed if ts},
            {topic: frozenset(map(tuple, names)) for topic, names in told.get("carried", {}).items()},
            {(topic, number): ts for topic, number, _, *_, ts in listed if ts},
            {(topic, number): offset for topic, number, offset in told.get("begins", [])},
            {(topic, number): offset for topic, number, offset in told.get("read", [])},
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
    fresh: frozenset[str] = frozenset()
    places: Places = field(default_factory=Places)

    @property
    def has_unread(self) -> bool:
        """Whether there are messages that no run has read."""
        read = self.cursor.in_part
        return any(end > read.get(p, (0, 0))[1] for p, end in self.look.ends.items())

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
