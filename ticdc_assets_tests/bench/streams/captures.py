"""Captured messages made from the recorded ones: more events in the same partitions, each partition in its order.

Statements and schemas come once, with the first copy; rows and watermarks of later copies are moved. A message's
bytes are otherwise those that TiCDC's encoder wrote, lengths and Avro's variable-length numbers included.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.bench.streams.templates import Mark, Place, Shift, Template, marked, unzigzag, zigzag

_VARINT: Final = rb"[\x80-\xff]*[\x00-\x7f]"
_FRAME_BYTES: Final = 8
_CONFLUENT_HEAD_BYTES: Final = 5

CANAL_JSON: Final = re.compile(
    rb'"es":(?P<ms>\d+)|"(?:old|data)":\[\{"id":"(?P<key>\d+)"|"commitTs":(?P<tso>\d+)|"watermarkTs":(?P<tso2>\d+)'
)
SIMPLE_JSON: Final = re.compile(rb'"id":"(?P<key>\d+)"|"commitTs":(?P<tso>\d+)')
OPEN_KEY: Final = re.compile(rb'"ts":(?P<tso>\d+)|"rid":(?P<key>\d+)')
OPEN_VALUE: Final = re.compile(rb'"id":\{"t":8,"h":true,"f":11,"v":(?P<key>\d+)')
SIMPLE_AVRO_ROW: Final = re.compile(
    rb"(?s)\A\x16\x06\x06\x02\x0abench\x0abench(?:" + _VARINT + rb")[\x00-\x08](?P<tso>" + _VARINT + rb")"
    rb"|\x04id\x02(?P<key>" + _VARINT + rb")"
)
SIMPLE_AVRO_WATERMARK: Final = re.compile(rb"(?s)\A\x16\x00\x00\x02(?P<tso>" + _VARINT + rb")")


@dataclass(frozen=True)
class Body:
    """A message that can be shifted: rows, which have `keys`, or a watermark, without them. `tsos` are those in it."""

    ts_ms: int
    key: Callable[[Shift], bytes | None]
    value: Callable[[Shift], bytes | None]
    keys: tuple[int, ...]
    tsos: tuple[int, ...]


def multiply(form: str, capture: Path, folder: Path, shifts: Sequence[Shift]) -> None:
    """A capture with one copy of the recorded messages at each distance, in that order."""
    folder.mkdir(parents=True)
    for path in sorted(capture.iterdir()):
        if path.suffix == ".bin":
            with (folder / path.name).open("wb") as out:
                _multiply(form, path, out, shifts)
        elif path.name == "registry.json":
            shutil.copyfile(path, folder / path.name)


def _multiply(form: str, path: Path, out: BinaryIO, shifts: Sequence[Shift]) -> None:
    bodies: list[Body] = []
    for message in messages(path):
        body = _FORMS[form](message)
        if body is None:
            out.write(record(message.ts_ms, message.key, message.value))
        else:
            bodies.append(body)
    for shift in shifts:
        out.write(b"".join(record(b.ts_ms + shift.ms, b.key(shift), b.value(shift)) for b in bodies))


def record(ts_ms: int, *fields: bytes | None) -> bytes:
    """A message as a capture's `.bin` file holds it."""
    sized = (((-1 if f is None else len(f)).to_bytes(4, "big", signed=True), f or b"") for f in fields)
    return ts_ms.to_bytes(8, "big") + b"".join(part for pair in sized for part in pair)


# -- what can be shifted, by form; None for statements and schemas -----------------------------------------------------


def _by_value(message: Message, template: Template) -> Body:
    return Body(message.ts_ms, lambda _: message.key, template.shifted, tuple(template.keys), tuple(template.tsos))


def _canal_json(message: Message) -> Body | None:
    value = message.value or b""
    if b'"isDdl":true' in value:
        return None
    return _by_value(message, Template(value, marked(value, CANAL_JSON)))


def _simple_json(message: Message) -> Body | None:
    value = message.value or b""
    if not re.search(rb'"type":"(?:INSERT|UPDATE|DELETE|WATERMARK)"', value[:160]):
        return None
    return _by_value(message, Template(value, marked(value, SIMPLE_JSON)))


def _open(message: Message) -> Body | None:
    keys, values = list(_frames(message.key or b"", _FRAME_BYTES)), list(_frames(message.value or b"", 0))
    if any(b'"t":2}' in key for key in keys):
        return None
    head = (message.key or b"")[:_FRAME_BYTES]
    keys_of_rows = [Template(key, marked(key, OPEN_KEY)) for key in keys]
    rows = [Template(value, marked(value, OPEN_VALUE)) for value in values]
    return Body(
        message.ts_ms,
        lambda shift: head + _framed(keys_of_rows, shift),
        lambda shift: _framed(rows, shift),
        tuple(key for row in rows for key in row.keys),
        tuple(tso for key in keys_of_rows for tso in key.tsos),
    )


def _frames(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        end = at + _FRAME_BYTES + int.from_bytes(data[at : at + _FRAME_BYTES], "big")
        yield data[at + _FRAME_BYTES : end]
        at = end


def _framed(templates: Sequence[Template], shift: Shift) -> bytes:
    shifted = [template.shifted(shift) for template in templates]
    return b"".join(_frame(part) for part in shifted)


def _simple_avro(message: Message) -> Body | None:
    value = message.value or b""
    pattern = SIMPLE_AVRO_WATERMARK if SIMPLE_AVRO_WATERMARK.match(value) else SIMPLE_AVRO_ROW
    marks = marked(value, pattern, unzigzag)
    if not any(mark.place is Place.TSO for mark in marks):
        return None
    return _by_value(message, Template(value, marks, zigzag))


def _avro(message: Message) -> Body:
    """Confluent's framing; keys begin with the one key column, values end with commit_ts and its time in ms."""
    key = _avro_template(message.key or b"", has_times=False)
    if message.value is None:
        return Body(message.ts_ms, key.shifted, lambda _: None, tuple(key.keys), ())
    value = _avro_template(message.value, has_times=True)
    return Body(message.ts_ms, key.shifted, value.shifted, tuple(key.keys), tuple(value.tsos))


def _avro_template(data: bytes, has_times: bool) -> Template:
    first = re.compile(_VARINT).match(data, _CONFLUENT_HEAD_BYTES)
    assert first is not None
    marks = [Mark(first.start(), first.end(), Place.KEY, unzigzag(first[0]))]
    if has_times:
        ms = _varint_before(data, len(data))
        tso = _varint_before(data, ms)
        marks += [Mark(tso, ms, Place.TSO, unzigzag(data[tso:ms])), Mark(ms, len(data), Place.MS, unzigzag(data[ms:]))]
    return Template(data, marks, zigzag)


def _varint_before(data: bytes, end: int) -> int:
    """Where the varint begins that ends at `end`: all its bytes but the last have their high bit set."""
    start = end - 1
    while data[start - 1] & 0x80:
        start -= 1
    return start


_FORMS: Final[dict[str, Callable[[Message], Body | None]]] = {
    "canal-json-tidb": _canal_json,
    "open": _open,
    "simple-json": _simple_json,
    "simple-avro": _simple_avro,
    "avro": _avro,
}


def watermark(form: str, message: Message) -> int | None:
    """The TSO of a watermark message; None for other messages."""
    body = _FORMS[form](message)
    return None if body is None or body.keys or not body.tsos else body.tsos[0]


def narrowed(form: str, message: Message, keys: set[int]) -> Message | None:
    """The message with its rows of these keys alone; None where it has rows and none of them is."""
    body = _FORMS[form](message)
    if body is None or not body.keys:
        return message
    if form == "open":
        return _narrowed_frames(message, keys)
    return message if keys.issuperset(body.keys) else None


def _narrowed_frames(message: Message, keys: set[int]) -> Message | None:
    key_frames, rows = list(_frames(message.key or b"", _FRAME_BYTES)), list(_frames(message.value or b"", 0))
    kept = [n for n, row in enumerate(rows) if keys.issuperset(int(m[1]) for m in OPEN_VALUE.finditer(row))]
    key, value = (b"".join(_frame(frames[n]) for n in kept) for frames in (key_frames, rows))
    return message._replace(key=(message.key or b"")[:_FRAME_BYTES] + key, value=value) if kept else None


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(_FRAME_BYTES, "big") + body
