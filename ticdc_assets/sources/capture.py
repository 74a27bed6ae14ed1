"""Captured Kafka messages in files: the source that makes every protocol run without a broker.

Two forms. `*.jsonl`: one `{topic, partition, offset, key, value, ts_ms}` a line, key and value base64 or null.
`<topic>-<partition>.bin`: records `[int64 ts_ms][int32 key length or -1][key][int32 value length or -1][value]`, big
endian, whose offset is their ordinal. Both are read as streams, in order, and nothing is skipped: what is not a
message is a `SourceError` that names the file and the line or record.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from ticdc_assets.errors import SourceError

MAX_LINE_BYTES: Final = 512 << 20
"""Base64 of the largest body the decoders take (256 MiB) with its key, and room."""
MAX_FIELD_BYTES: Final = 256 << 20
"""The largest body that the decoders take."""
_LENGTH: Final = struct.Struct(">i")
_RECORD_HEAD: Final = struct.Struct(">qi")
_BINARY_OVERHEAD_BYTES: Final = _RECORD_HEAD.size + _LENGTH.size
_TODO: Final = "Capture the messages again; a file that is still being written must be complete before it is read."


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: raw bytes and their position."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    ts_ms: int

    @property
    def where(self) -> str:
        """The position as errors name it."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message begins: in which file of the capture, at which byte, as which of the file's records from 0."""

    file: int = 0
    byte: int = 0
    record: int = 0


def messages(path: Path, start: Place = Place()) -> Iterator[Message]:
    """The messages of a file, or of a folder's `messages.jsonl` and `*.bin` files by name, from `start` on."""
    for _, message in placed_messages(path, start):
        yield message


def placed_messages(path: Path, start: Place = Place()) -> Iterator[tuple[Place, Message]]:
    """The same, each with its place, from which it can be read again without what is before it."""
    for number, file in enumerate(_files(path)[start.file :], start=start.file):
        begin = start if number == start.file else Place(number)
        yield from _binary(file, begin) if file.suffix == ".bin" else _lines(file, begin)


def peek(path: Path) -> str:
    """A digest that changes when messages are added; a hint for a sensor, which opens no file."""
    try:
        sizes = [f"{file.name}\t{file.stat().st_size}" for file in _files(path)]
    except OSError as error:
        raise SourceError(str(path), "a capture", error.strerror or "none", "Check the path.") from error
    return blake2b("\n".join(sizes).encode(), digest_size=16).hexdigest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix == ".bin" or file.name == "messages.jsonl")
    if not files:
        raise SourceError(str(path), "messages.jsonl or <topic>-<partition>.bin", "neither", "Check the path.")
    return files


def _lines(path: Path, start: Place) -> Iterator[tuple[Place, Message]]:
    with _open(path) as file:
        file.seek(start.byte)
        number, byte = start.record, start.byte
        while line := file.readline(MAX_LINE_BYTES + 1):
            where = f"{path}:{number + 1}"
            if len(line) > MAX_LINE_BYTES:
                raise SourceError(where, f"a line of at most {MAX_LINE_BYTES} bytes", "a longer one", _TODO)
            if not line.isspace():
                yield Place(start.file, byte, number), _message(line, where)
            number, byte = number + 1, byte + len(line)


def _message(line: bytes, where: str) -> Message:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SourceError(where, "a JSON object", f"bytes that are not JSON, from byte {error.pos}", _TODO) from None
    if not isinstance(found, dict):
        raise SourceError(where, "a JSON object", f"a JSON {type(found).__name__}", _TODO)
    return Message(
        topic=_text(found, "topic", where),
        partition=_number(found, "partition", where),
        offset=_number(found, "offset", where),
        key=_bytes(found, "key", where),
        value=_bytes(found, "value", where),
        ts_ms=_number(found, "ts_ms", where),
    )


def _text(found: dict[str, Any], name: str, where: str) -> str:
    if isinstance(value := found.get(name), str) and value:
        return value
    raise SourceError(where, f"`{name}` as text", _kind(found, name), _TODO)


def _number(found: dict[str, Any], name: str, where: str) -> int:
    value = found.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    raise SourceError(where, f"`{name}` as a whole number that is not negative", _kind(found, name), _TODO)


def _bytes(found: dict[str, Any], name: str, where: str) -> bytes | None:
    value = found.get(name)
    try:
        if name in found and (value is None or isinstance(value, str)):
            return None if value is None else b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SourceError(where, f"`{name}` as base64 or null", "text that is not base64", _TODO) from None
    raise SourceError(where, f"`{name}` as base64 or null", _kind(found, name), _TODO)


def _kind(found: dict[str, Any], name: str) -> str:
    return f"a {type(found[name]).__name__} out of range or of another type" if name in found else "none"


def _binary(path: Path, start: Place) -> Iterator[tuple[Place, Message]]:
    topic, partition = _topic_and_partition(path)
    with _open(path) as file:
        file.seek(start.byte)
        offset, byte = start.record, start.byte
        while head := file.read(_RECORD_HEAD.size):
            where = f"{path}: record {offset}"
            ts_ms, key_length = _RECORD_HEAD.unpack(_whole(head, _RECORD_HEAD.size, where))
            key = _field(file, key_length, where)
            (value_length,) = _LENGTH.unpack(_whole(file.read(_LENGTH.size), _LENGTH.size, where))
            value = _field(file, value_length, where)
            yield Place(start.file, byte, offset), Message(topic, partition, offset, key, value, ts_ms)
            offset, byte = offset + 1, byte + _BINARY_OVERHEAD_BYTES + max(0, key_length) + max(0, value_length)


def _topic_and_partition(path: Path) -> tuple[str, int]:
    topic, dash, partition = path.stem.rpartition("-")
    if topic and dash and partition.isascii() and partition.isdigit():
        return topic, int(partition)
    raise SourceError(str(path), "a file named <topic>-<partition>.bin", "another name", "Rename the file.")


def _field(file: BinaryIO, length: int, where: str) -> bytes | None:
    if length == -1:
        return None
    if not 0 <= length <= MAX_FIELD_BYTES:
        raise SourceError(where, f"a length from -1 to {MAX_FIELD_BYTES}", str(length), _TODO)
    return _whole(file.read(length), length, where)


def _whole(found: bytes, length: int, where: str) -> bytes:
    if len(found) != length:
        raise SourceError(where, f"{length} bytes", f"{len(found)} before the end of the file", _TODO)
    return found


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(str(path), "a file that can be read", error.strerror or "none", "Check the path.") from error
