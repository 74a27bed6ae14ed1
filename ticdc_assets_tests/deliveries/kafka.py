"""A model of TiCDC that sends a database's log to Kafka, and of the capture that is taken there.

What it may do is what TiCDC may: send tables on their own between the statements on them, split transactions over
messages, keep partitions at different watermarks, stop anywhere and send everything above a checkpoint again with
watermarks that go back, move a table to another node that sends it again from its own checkpoint, lose messages that
had not arrived when it stopped, and write single messages twice.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

from ticdc_assets_tests.deliveries.database import Database, RowChange, Shape, Statement
from ticdc_assets_tests.deliveries.sending import Queues
from ticdc_assets_tests.deliveries.wires import Message, Wire

TOPIC = "feed"


@dataclass
class Sent:
    """A message in a partition; `watermark` where it is one."""

    message: Message
    watermark: int | None = None


@dataclass
class TiCdc:
    """TiCDC as it is now: what of each table it has sent, and what lies in Kafka."""

    database: Database
    wire: Wire
    partitions: int
    by_key: bool
    since: int
    kafka: list[list[Sent]] = field(default_factory=list)
    late_bootstraps: bool = False
    _queues: Queues = field(init=False)
    _watermarks: dict[int, int] = field(default_factory=dict)
    _bootstrapped: set[tuple[str, str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kafka = [[] for _ in range(self.partitions)]
        self._queues = Queues(self.database, self.since)
        for partition in range(self.partitions):
            self._watermark(partition, self.since)

    # -- what it can do next ------------------------------------------------------------------------------------------

    def send(self, choice: int, size: int) -> None:
        """Do one of the things that TiCDC could do now."""
        pending = self._queues.pending()
        resolved = self._queues.resolved(pending)
        behind = [p for p in range(self.partitions) if self._watermarks.get(p, 0) < resolved]
        options = [("table", source_table) for source_table in self._queues.options(pending)]
        options += [("watermark", partition) for partition in behind]
        if not options:
            return
        kind, what = options[choice % len(options)]
        if kind == "watermark":
            self._watermark(what, max(resolved - (size % 3) * 10, self._watermarks.get(what, 0)))
        elif isinstance(statement := pending[what][0], Statement):
            self._statement(statement)
        else:
            self._rows(self._queues.rows(what, pending[what], size % 4 + 1))

    def send_all(self) -> None:
        """Everything that has happened, and its watermark on every partition."""
        while self._queues.pending() or any(ts < self.database.now for ts in self._watermarks.values()):
            self.send(0, 3)
        self.tell_bootstraps()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _rows(self, taken: list[RowChange]) -> None:
        if not self.late_bootstraps:
            for change in taken:
                self._bootstrap(change.shape)
        by_partition: dict[int, list[RowChange]] = {}
        for change in taken:
            by_partition.setdefault(self._partition(change), []).append(change)
        for partition, changes in by_partition.items():
            self.kafka[partition] += [Sent(message) for message in self.wire.rows(changes)]

    def _partition(self, change: RowChange) -> int:
        key = change.row[change.shape.key] if self.by_key and change.shape.key else ""
        return zlib.crc32(f"{change.shape.schema}{change.shape.name}{key}".encode()) % self.partitions

    def _statement(self, statement: Statement) -> None:
        self._queues.statement(statement)
        if statement.after is not None:
            self._bootstrapped.add(_version(statement.after))
        self._to(self.partitions if self.wire.statements_to_all else 1, self.wire.statement(statement))

    def _bootstrap(self, shape: Shape) -> None:
        message = self.wire.bootstrap(shape)
        if message is not None and _version(shape) not in self._bootstrapped:
            self._bootstrapped.add(_version(shape))
            self._to(self.partitions, message)

    def tell_bootstraps(self, up_to: int = 1 << 62) -> None:
        """Send bootstraps of all tables so far, for rows that came before their schema."""
        for event in self.database.log:
            if isinstance(event, RowChange) and self._queues.checkpoint < event.commit_ts <= up_to:
                self._bootstrap(event.shape)

    def _to(self, count: int, message: Message) -> None:
        for partition in range(count):
            self.kafka[partition].append(Sent(message))

    def _watermark(self, partition: int, ts: int) -> None:
        self.kafka[partition].append(Sent(self.wire.watermark(ts), ts))
        self._watermarks[partition] = ts

    # -- mishaps ------------------------------------------------------------------------------------------------------

    def restart(self, back: int, lost: int, captured: list[int], tells_checkpoint: bool) -> None:
        """Stop, lose up to `lost` messages that were not captured, and continue `back` watermarks before the last."""
        for sent, seen in zip(self.kafka, captured, strict=True):
            if lost:
                del sent[max(seen, len(sent) - lost, 1) :]
        known = [[sent.watermark for sent in log if sent.watermark is not None] for log in self.kafka]
        acknowledged = min(max(found) for found in known)
        earlier = self._checkpoints(acknowledged)
        checkpoint = earlier[max(0, len(earlier) - 1 - back)]
        self.tell_bootstraps(checkpoint)  # up to there everything was written
        self._queues.restart(checkpoint)
        self._bootstrapped.clear()
        self._watermarks = dict.fromkeys(range(self.partitions), checkpoint)
        if tells_checkpoint:
            for partition in range(self.partitions):
                self._watermark(partition, checkpoint)

    def _checkpoints(self, acknowledged: int) -> list[int]:
        watermarks = {sent.watermark for log in self.kafka for sent in log if sent.watermark is not None}
        return sorted(ts for ts in watermarks if self.since <= ts <= acknowledged)

    @property
    def can_go_back(self) -> bool:
        """Whether every partition has a watermark above the first one."""
        return all(max(sent.watermark or 0 for sent in log) > self.since for log in self.kafka)

    def move_table(self, choice: int) -> None:
        """Another node takes a table over and sends it again from where all watermarks are, without one going back."""
        self._queues.move_table(choice, max(sent.watermark or 0 for log in self.kafka for sent in log))

    def stutter(self, partition: int, count: int) -> None:
        """The last messages of a partition are written twice."""
        log = self.kafka[partition % self.partitions]
        log += log[-count:]


def _version(shape: Shape) -> tuple[str, str, int]:
    return (shape.schema, shape.name, shape.version)


@dataclass
class Capture:
    """The file that messages of Kafka are written to: partitions in any order, each from its beginning."""

    path: Path
    ticdc: TiCdc
    taken: list[int] = field(default_factory=list)
    _lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.taken = [0] * self.ticdc.partitions
        self.path.write_bytes(b"")
        for partition in range(self.ticdc.partitions):
            self.take(partition, 1)

    def take(self, partition: int, count: int) -> None:
        partition %= self.ticdc.partitions
        begin = self.taken[partition]
        sent = self.ticdc.kafka[partition][begin : begin + count]
        self._write([_line(partition, begin + n, s.message) for n, s in enumerate(sent)])
        self.taken[partition] += len(sent)

    def take_all(self) -> None:
        for partition in range(self.ticdc.partitions):
            self.take(partition, len(self.ticdc.kafka[partition]))

    def again(self, count: int) -> None:
        """The last messages are captured twice, under the same offsets."""
        self._write(self._lines[-count:])

    def _write(self, lines: list[bytes]) -> None:
        self._lines += lines
        with self.path.open("ab") as file:
            file.write(b"".join(lines))

    @property
    def watermark(self) -> int:
        """The watermark of the captured messages."""
        captured = [log[:taken] for log, taken in zip(self.ticdc.kafka, self.taken, strict=True)]
        return min(max((s.watermark or 0 for s in log), default=0) for log in captured)


def _line(partition: int, offset: int, message: Message) -> bytes:
    key, value = (None if part is None else b64encode(part).decode() for part in message)
    line = {"topic": TOPIC, "partition": partition, "offset": offset, "key": key, "value": value, "ts_ms": 0}
    return json.dumps(line).encode() + b"\n"
