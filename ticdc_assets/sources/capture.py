"""Captured Kafka messages in files: the source with which every protocol runs without a broker.

There are two formats. `*.jsonl`: one `{topic, partition, offset, key, value, ts_ms}` per line, with key and value in
base64 or null. `<topic>-<partition>.bin`: big-endian records `[int64 ts_ms][int32 key length or -1][key][int32 value
length or -1][value]`, whose offset is their ordinal. Both are read as streams and in order. Nothing is skipped: bytes
that are no message raise a `SourceError` with the file and the line or record.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from ticdc_assets.errors import SourceError

MAX_LINE_BYTES: Final = 512 << 20
"""The base64 of the largest body that decoders accept (256 MiB), with its key and a margin."""
MAX_FIELD_BYTES: Final = 256 << 20
"""The largest body that decoders accept."""
_DIGEST_BYTES: Final = 6
_LENGTH: Final = struct.Struct(">i")
_RECORD_HEAD: Final = struct.Struct(">qi")
_READ_BYTES: Final = 4 << 20
_ADVICE: Final = "Capture the messages again; a file that is still being written must be complete before it is read."


class Message(NamedTuple):
    """One Kafka message: raw bytes and their position."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    ts_ms: int

    @property
    def where(self) -> str:
        """The position, for error messages."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


def digest_of(message: Message) -> str:
    """A digest of a message's key and value, in hexadecimal digits."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in (message.key, message.value):
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.hexdigest()


class MessagePosition(NamedTuple):
    """The start of a message: index of the file in the capture, byte in the file, ordinal of the record in the file."""

    file: int = 0
    byte: int = 0
    record: int = 0


START: Final = MessagePosition()

BinaryRecord = tuple[int, int, int, bytes | None, bytes | None]
"""A record of a binary file: its first byte in the file, its offset, its time in milliseconds, its key and its
value."""


def messages(path: Path, start: MessagePosition = START) -> Iterator[Message]:
    """The messages of a file, or of a folder's `messages.jsonl` and `*.bin` files by name, from `start` on."""
    for _, message in placed_messages(path, start):
        yield message


def placed_messages(path: Path, start: MessagePosition = START) -> Iterator[tuple[MessagePosition, Message]]:
    """The messages with their positions, from which reading can start again."""
    for file, begin in files_from(path, start):
        yield from _binary(file, begin) if is_binary(file) else lines(file, begin)


def files_from(path: Path, start: MessagePosition) -> Iterator[tuple[Path, MessagePosition]]:
    """The files of a capture from the one of `start` on, each with the position to read it from."""
    for number, file in enumerate(_files(path)[start.file :], start=start.file):
        yield file, start if number == start.file else MessagePosition(number)


def is_binary(file: Path) -> bool:
    """Whether a file of a capture has binary records; else it has lines."""
    return file.suffix == ".bin"


def is_appended_to(path: Path) -> bool:
    """Whether new messages always follow the existing ones; False if each partition has its own file."""
    return not path.is_dir() or not any(map(is_binary, _files(path)))


def peek(path: Path) -> str:
    """A digest that changes when messages are added. A hint for sensors: it opens no file."""
    try:
        sizes = [f"{file.name}\t{file.stat().st_size}" for file in _files(path)]
    except OSError as error:
        raise SourceError(str(path), "a capture", error.strerror or "none", "Check the path.") from error
    return blake2b("\n".join(sizes).encode(), digest_size=16).hexdigest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if is_binary(file) or file.name == "messages.jsonl")
    if not files:
        raise SourceError(str(path), "messages.jsonl or <topic>-<partition>.bin", "neither", "Check the path.")
    return files


def lines(path: Path, start: MessagePosition) -> Iterator[tuple[MessagePosition, Message]]:
    """The messages of a file of lines, with their positions. Raises SourceError at a line that is no message."""
    with open_capture(path) as file:
        file.seek(start.byte)
        number, byte = start.record, start.byte
        while line := file.readline(MAX_LINE_BYTES + 1):
            where = f"{path}:{number + 1}"
            if len(line) > MAX_LINE_BYTES:
                raise SourceError(where, f"a line of at most {MAX_LINE_BYTES} bytes", "a longer one", _ADVICE)
            if not line.isspace():
                yield MessagePosition(start.file, byte, number), _message(line, where)
            number, byte = number + 1, byte + len(line)


def _message(line: bytes, where: str) -> Message:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SourceError(where, "a JSON object", f"bytes that are not JSON, from byte {error.pos}", _ADVICE) from None
    if not isinstance(fields, dict):
        raise SourceError(where, "a JSON object", f"a JSON {type(fields).__name__}", _ADVICE)
    return Message(
        topic=_text(fields, "topic", where),
        partition=_number(fields, "partition", where),
        offset=_number(fields, "offset", where),
        key=_bytes(fields, "key", where),
        value=_bytes(fields, "value", where),
        ts_ms=_number(fields, "ts_ms", where),
    )


def _text(fields: dict[str, Any], name: str, where: str) -> str:
    if isinstance(value := fields.get(name), str) and value:
        return value
    raise SourceError(where, f"`{name}` as text", _kind(fields, name), _ADVICE)


def _number(fields: dict[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    raise SourceError(where, f"`{name}` as a whole number that is not negative", _kind(fields, name), _ADVICE)


def _bytes(fields: dict[str, Any], name: str, where: str) -> bytes | None:
    value = fields.get(name)
    try:
        if name in fields and (value is None or isinstance(value, str)):
            return None if value is None else b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SourceError(where, f"`{name}` as base64 or null", "text that is not base64", _ADVICE) from None
    raise SourceError(where, f"`{name}` as base64 or null", _kind(fields, name), _ADVICE)


def _kind(fields: dict[str, Any], name: str) -> str:
    return f"a {type(fields[name]).__name__} out of range or of another type" if name in fields else "none"


def _binary(path: Path, start: MessagePosition) -> Iterator[tuple[MessagePosition, Message]]:
    topic, partition = topic_and_partition(path)
    for byte, offset, ts_ms, key, value in records(path, start):
        yield MessagePosition(start.file, byte, offset), Message(topic, partition, offset, key, value, ts_ms)


def records(path: Path, start: MessagePosition) -> Iterator[BinaryRecord]:
    """The records of a binary file. Raises SourceError at one that is cut or has an invalid length."""
    with open_capture(path) as file:
        file.seek(start.byte)
        data, at, base, offset = b"", 0, start.byte, start.record
        while True:
            record = _record(data, at)
            if record is not None:
                end, ts_ms, key, value = record
                yield base + at, offset, ts_ms, key, value
                at, offset = end, offset + 1
                continue
            end = record_end(data, at, f"{path}: record {offset}")
            more = file.read(max(_READ_BYTES, end - len(data)))
            if not more:
                break
            base, data, at = base + at, data[at:] + more, 0
        if at < len(data):
            raise record_is_cut(path, offset, end - at, len(data) - at)


def _record(data: bytes, at: int) -> tuple[int, int, bytes | None, bytes | None] | None:
    """The end, time, key and value of the record at `at`; None if `data` does not hold all of it or it is invalid."""
    key_at = at + _RECORD_HEAD.size
    if key_at > len(data):
        return None
    ts_ms, key_length = _RECORD_HEAD.unpack_from(data, at)
    key_end = key_at + key_length if key_length > 0 else key_at
    value_at = key_end + _LENGTH.size
    if value_at > len(data):
        return None
    (value_length,) = _LENGTH.unpack_from(data, key_end)
    end = value_at + value_length if value_length > 0 else value_at
    if end > len(data) or not -1 <= key_length <= MAX_FIELD_BYTES or not -1 <= value_length <= MAX_FIELD_BYTES:
        return None
    return (
        end,
        ts_ms,
        None if key_length < 0 else data[key_at:key_end],
        None if value_length < 0 else data[value_at:end],
    )


def record_end(data: bytes | memoryview, at: int, where: str) -> int:
    """The end of the record at `at`, or the length of `data` needed to find it. SourceError if it is invalid."""
    head_end = at + _RECORD_HEAD.size
    if head_end > len(data):
        return head_end
    key_end = head_end + _length(_RECORD_HEAD.unpack_from(data, at)[1], where)
    if key_end + _LENGTH.size > len(data):
        return key_end + _LENGTH.size
    return key_end + _LENGTH.size + _length(_LENGTH.unpack_from(data, key_end)[0], where)


def record_is_cut(path: Path, record: int, expected_bytes: int, found_bytes: int) -> SourceError:
    """The error of a file that ends within a record."""
    found = f"{found_bytes} before the end of the file"
    return SourceError(f"{path}: record {record}", f"at least {expected_bytes} bytes", found, _ADVICE)


def _length(length: int, where: str) -> int:
    if not -1 <= length <= MAX_FIELD_BYTES:
        raise SourceError(where, f"a length from -1 to {MAX_FIELD_BYTES}", str(length), _ADVICE)
    return max(0, length)


def topic_and_partition(path: Path) -> tuple[str, int]:
    """The topic and partition in the name of a binary file. Raises SourceError if the name has none."""
    topic, dash, partition = path.stem.rpartition("-")
    if topic and dash and partition.isascii() and partition.isdigit():
        return topic, int(partition)
    raise SourceError(str(path), "a file named <topic>-<partition>.bin", "another name", "Rename the file.")


def open_capture(path: Path) -> BinaryIO:
    """A file of a capture, open for reading. Raises SourceError if it cannot be read."""
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(str(path), "a file that can be read", error.strerror or "none", "Check the path.") from error
