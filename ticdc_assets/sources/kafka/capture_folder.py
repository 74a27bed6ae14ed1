"""A folder of captured topics: `messages.jsonl`, which is a capture source, and `capture.json`, the capture's state.

The state has the length of the file and the next offset of each partition. It is replaced atomically after the messages
are on disk. A capture that ends before that truncates the file to the recorded length; if it is killed, the next one
does, so that no message is repeated.
"""

from __future__ import annotations

import fcntl
import heapq
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

import orjson

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.sources.kafka.same_topic import mark_of

MESSAGES: Final = "messages.jsonl"
STATE: Final = "capture.json"
_TS_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """The progress of a partition: the next offset, the mark of the last message, empty without one, and the id of the
    topic, None where it is unknown."""

    next_offset: int
    last_mark: str = ""
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state of a folder: the length of its file in bytes, and the progress of each partition."""

    size_bytes: int = 0
    partitions: Mapping[KafkaPartition, CaptureProgress] | None = None

    @property
    def next_offsets(self) -> dict[KafkaPartition, int]:
        return {partition: done.next_offset for partition, done in (self.partitions or {}).items()}


class CaptureFolder:
    """A folder of captured messages. Only one process at a time may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if needed, and lock it. SourceError if another capture holds the lock."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / f".{STATE}.lock").open("w")
        except OSError as error:
            advice = "Name a folder that can be written with --to."
            raise SourceError(str(self.path), "a folder to write to", error.strerror or "none", advice) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                advice = "Wait until the other capture has ended."
                raise SourceError(str(self.path), "no other capture into this folder", "one at work", advice) from None
            yield

    def state(self) -> CaptureState:
        """The state recorded by earlier captures. SourceError if the folder holds a capture of another origin."""
        file = self.path / STATE
        if not file.exists():
            if (self.path / MESSAGES).exists():
                found, advice = f"{MESSAGES} without {STATE}", "Name a new folder with --to."
                raise SourceError(str(self.path), "a folder that `ticdc-assets capture` made", found, advice)
            return CaptureState()
        try:
            stored = orjson.loads(file.read_bytes())
            partitions = {
                KafkaPartition(p["topic"], p["partition"]): CaptureProgress(
                    p["next_offset"], p["last_mark"], p.get("topic_id")
                )
                for p in stored["partitions"]
            }
            return CaptureState(stored["size_bytes"], partitions)
        except (OSError, ValueError, KeyError, TypeError):
            advice = "Capture into a new folder."
            raise SourceError(str(file), "the state of a capture", "another content", advice) from None

    def append(self, state: CaptureState, parts: Mapping[KafkaPartition, tuple[Path, CaptureProgress]]) -> CaptureState:
        """Append the messages of the parts, by timestamp, and record the progress of each partition."""
        with self._whole():
            if not (self.path / STATE).exists():
                self._record(state)  # messages without a state would be those of another origin
            return self._appended(state, parts)

    def _appended(
        self, state: CaptureState, parts: Mapping[KafkaPartition, tuple[Path, CaptureProgress]]
    ) -> CaptureState:
        with (self.path / MESSAGES).open("ab") as file:
            if file.tell() < state.size_bytes:
                advice = "Somebody has shortened it: capture into a new folder."
                raise SourceError(file.name, f"{state.size_bytes} bytes", f"{file.tell()} bytes", advice)
            file.truncate(state.size_bytes)
            file.seek(state.size_bytes)
            file.writelines(line.encode() for line in _merged(path for path, _ in parts.values()))
            file.flush()
            os.fsync(file.fileno())
            size_bytes = file.tell()
        progress = {**(state.partitions or {}), **{partition: done for partition, (_, done) in parts.items()}}
        recorded = CaptureState(size_bytes, progress)
        self._record(recorded)
        return recorded

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Where the body is interrupted or fails, remove the messages that it added and did not record."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # the next capture does it too
                (self.path / f"{STATE}.new").unlink(missing_ok=True)
                file, size_bytes = self.path / MESSAGES, self.state().size_bytes
                if file.stat().st_size > size_bytes:
                    os.truncate(file, size_bytes)
            raise

    def _record(self, state: CaptureState) -> None:
        listed = [
            {"topic": p.topic, "partition": p.number, **asdict(done)}
            for p, done in sorted((state.partitions or {}).items())
        ]
        content = {"size_bytes": state.size_bytes, "partitions": listed}
        replacement = self.path / f"{STATE}.new"
        with replacement.open("wb") as file:
            file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            file.flush()
            os.fsync(file.fileno())
        replacement.replace(self.path / STATE)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder on the same disk for parts; it is removed with its content."""
        with TemporaryDirectory(prefix=".parts-", dir=self.path) as folder:
            yield Path(folder)

    def remove_leftovers(self) -> None:
        """Remove the parts of captures that were killed."""
        for folder in self.path.glob(".parts-*"):
            for file in folder.glob("*"):
                file.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def write_part(path: Path, wanted: OffsetRange, messages: Iterable[Message]) -> tuple[int, str]:
    """Write the messages of a range to a file of its own.

    Each line starts with the largest timestamp so far, so that parts can be merged: the order within a partition is
    kept even if a later message has an earlier timestamp.

    Returns:
        The number of messages, and the mark of the last one.
    """
    count, mark, newest_ms = 0, "", 0
    with path.open("w", encoding="utf-8") as file:
        for message in messages:
            newest_ms = max(newest_ms, message.ts_ms)
            file.write(f"{newest_ms:0{_TS_DIGITS}}{wanted.partition.number:010}{_line(message)}\n")
            count, mark = count + 1, mark_of(message)
    return count, mark


def _line(message: Message) -> str:
    fields: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "key": None if message.key is None else b64encode(message.key).decode(),
        "value": None if message.value is None else b64encode(message.value).decode(),
        "ts_ms": message.ts_ms,
    }
    return orjson.dumps(fields).decode()


def _merged(paths: Iterable[Path]) -> Iterator[str]:
    """The lines of all parts by timestamp, without the timestamp prefix."""
    files: list[TextIO] = []
    try:
        files.extend(path.open(encoding="utf-8") for path in paths)
        prefix = _TS_DIGITS + 10
        for line in heapq.merge(*files, key=lambda line: line[:prefix]):
            yield line[prefix:]
    finally:
        for file in files:
            file.close()
