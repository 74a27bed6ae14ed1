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

from ticdc_assets_tests.deliveries.database import Database, Happened, RowChange, Shape, Statement
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
    checkpoint: int = 0
    late_bootstraps: bool = False
    _sent: dict[int, int] = field(default_factory=dict)
    _statement_ts: int = 0
    _told: dict[int, int] = field(default_factory=dict)
    _bootstrapped: set[tuple[str, str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kafka = [[] for _ in range(self.partitions)]
        self.checkpoint = self.since
        for partition in range(self.partitions):
            self._watermark(partition, self.since)

    # -- what it can do next ------------------------------------------------------------------------------------------

    def send(self, choice: int, size: int) -> None:
        """Do one of the things that TiCDC could do now."""
        queues = self._queues()
        statement = next(
            (e for e in self._log() if isinstance(e, Statement) and e.commit_ts > self._statement_ts), None
        )
        options: list[tuple[str, int]] = []
        for lineage, queue in queues.items():
            if isinstance(queue[0], RowChange):
                options.append(("rows", lineage))
            elif queue[0] is statement:
                options += [("statement", lineage)] * 2
        resolved = min([queue[0].commit_ts - 1 for queue in queues.values()], default=self.database.now)
        options += [("watermark", p) for p in range(self.partitions) if self._told.get(p, 0) < resolved]
        if not options:
            return
        kind, what = options[choice % len(options)]
        if kind == "rows":
            self._rows(what, queues[what], size)
        elif kind == "statement":
            assert isinstance(queues[what][0], Statement)
            self._statement(queues[what][0])
        else:
            self._watermark(what, max(resolved - (size % 3) * 10, self._told.get(what, 0)))

    def send_all(self) -> None:
        """Everything that has happened, and its watermark on every partition."""
        for _ in range(10_000):
            queues = self._queues()
            if not queues and all(told >= self.database.now for told in self._told.values()):
                break
            self.send(0, 3)
        self.tell_bootstraps()

    def _log(self) -> list[Happened]:
        return [event for event in self.database.log if event.commit_ts > self.checkpoint]

    def _queues(self) -> dict[int, list[Happened]]:
        """What of each table is still to be sent, in order."""
        found: dict[int, list[Happened]] = {}
        for event in self._log():
            lineage = event.lineage if isinstance(event, Statement) else event.shape.lineage
            found.setdefault(lineage, []).append(event)
        return {n: queue[self._sent.get(n, 0) :] for n, queue in found.items() if len(queue) > self._sent.get(n, 0)}

    # -- sending ------------------------------------------------------------------------------------------------------

    def _rows(self, lineage: int, queue: list[Happened], size: int) -> None:
        taken: list[RowChange] = []
        for event in queue[: size % 4 + 1]:
            if isinstance(event, Statement):
                break
            taken.append(event)
        self._sent[lineage] = self._sent.get(lineage, 0) + len(taken)
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
        self._sent[statement.lineage] = self._sent.get(statement.lineage, 0) + 1
        self._statement_ts = statement.commit_ts
        if statement.after is not None:
            self._bootstrapped.add(_version(statement.after))
        self._to(self.partitions if self.wire.statements_to_all else 1, self.wire.statement(statement))

    def _bootstrap(self, shape: Shape) -> None:
        message = self.wire.bootstrap(shape)
        if message is not None and _version(shape) not in self._bootstrapped:
            self._bootstrapped.add(_version(shape))
            self._to(self.partitions, message)

    def tell_bootstraps(self) -> None:
        """Bootstraps of everything sent so far, for those rows whose schema did not come before them."""
        for event in self._log():
            if isinstance(event, RowChange):
                self._bootstrap(event.shape)

    def _to(self, count: int, message: Message) -> None:
        for partition in range(count):
            self.kafka[partition].append(Sent(message))

    def _watermark(self, partition: int, ts: int) -> None:
        self.kafka[partition].append(Sent(self.wire.watermark(ts), ts))
        self._told[partition] = ts

    # -- mishaps ------------------------------------------------------------------------------------------------------

    def restart(self, back: int, lost: int, captured: list[int], tells_checkpoint: bool) -> None:
        """Stop, lose up to `lost` messages that no one has seen yet, and go on `back` watermarks before the last."""
        for sent, seen in zip(self.kafka, captured, strict=True):
            if lost:
                del sent[max(seen, len(sent) - lost, 1) :]
        known = [[sent.watermark for sent in log if sent.watermark is not None] for log in self.kafka]
        acknowledged = min(max(found) for found in known)
        earlier = self._checkpoints(acknowledged)
        self.checkpoint = earlier[max(0, len(earlier) - 1 - back)]
        self._sent.clear()
        self._bootstrapped.clear()
        self._statement_ts = self.checkpoint
        self._told = dict.fromkeys(range(self.partitions), 0 if tells_checkpoint else self.checkpoint)
        if tells_checkpoint:
            for partition in range(self.partitions):
                self._watermark(partition, self.checkpoint)

    def _checkpoints(self, acknowledged: int) -> list[int]:
        told = {sent.watermark for log in self.kafka for sent in log if sent.watermark is not None}
        return sorted(ts for ts in told if self.since <= ts <= acknowledged)

    @property
    def can_go_back(self) -> bool:
        """Whether every partition has a watermark above the first one."""
        return all(max(sent.watermark or 0 for sent in log) > self.since for log in self.kafka)

    def move_table(self, choice: int) -> None:
        """Another node takes a table over and sends it again from where all watermarks are, without one going back."""
        lineages = sorted(self._sent)
        if not lineages:
            return
        lineage = lineages[choice % len(lineages)]
        floor = max(max((s.watermark or 0 for s in log), default=0) for log in self.kafka)
        events = [e for e in self._log() if (e.lineage if isinstance(e, Statement) else e.shape.lineage) == lineage]
        done = sum(event.commit_ts <= max(floor, self._last_statement_ts(events)) for event in events)
        self._sent[lineage] = min(self._sent[lineage], done)

    def _last_statement_ts(self, events: list[Happened]) -> int:
        told = (e.commit_ts for e in events if isinstance(e, Statement) and e.commit_ts <= self._statement_ts)
        return max(told, default=0)

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
    def lines(self) -> int:
        return len(self._lines)

    @property
    def watermark(self) -> int:
        """What the captured messages say is complete."""
        captured = [log[:taken] for log, taken in zip(self.ticdc.kafka, self.taken, strict=True)]
        return min(max((s.watermark or 0 for s in log), default=0) for log in captured)


def _line(partition: int, offset: int, message: Message) -> bytes:
    key, value = (None if part is None else b64encode(part).decode() for part in message)
    told = {"topic": TOPIC, "partition": partition, "offset": offset, "key": key, "value": value, "ts_ms": 0}
    return json.dumps(told).encode() + b"\n"
