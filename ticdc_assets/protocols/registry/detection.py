"""Detects the protocol of a message from its bytes, without any configuration.

`form_of` returns the `MessageForm` of one message, or None if no protocol of TiCDC writes such a message. A single
message can be misleading: a snappy body has no magic number, and a delete may be only a key. `Votes` therefore returns
the form of the majority of a sample. No function here raises an error on any bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.bodies import decompress, frames, json_object
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import avro_message as simple_avro

BODY_BYTES_MAX: Final = 32 << 20
"""Larger bodies are not decompressed for detection; the smaller messages of the sample suffice."""

_OPEN_VERSION: Final = (1).to_bytes(8, "big")
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_FRAME_BYTES: Final = 5
_SCHEMA_ID_MAX: Final = (1 << 31) - 1
_AVRO_DDL, _AVRO_WATERMARK, _AVRO_DELETE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The protocol and encoding of a message.

    `compression` is None if the message does not show it. `marks` names the options that the message shows.
    """

    protocol: str
    encoding: str = "json"
    compression: Compression | None = None
    marks: frozenset[str] = frozenset()


@dataclass(slots=True)
class Votes:
    """Counts the forms of a sample of messages."""

    messages: int = 0
    _forms: Counter[tuple[str, str]] = field(default_factory=Counter)
    _compressions: Counter[tuple[str, Compression]] = field(default_factory=Counter)
    _marks: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Counts one message."""
        self.messages += 1
        form = form_of(key, value)
        if form is None:
            return
        self._forms[form.protocol, form.encoding] += 1
        if form.compression is not None:
            self._compressions[form.protocol, form.compression] += 1
        self._marks.update((form.protocol, mark) for mark in form.marks)

    def winner(self) -> MessageForm | None:
        """The most frequent form, with the marks of all messages of its protocol; None if no message has a form."""
        if not self._forms:
            return None
        (protocol, encoding), _ = self._forms.most_common(1)[0]
        compressions = [c for (p, c), _ in self._compressions.most_common() if p == protocol]
        marks = frozenset(mark for p, mark in self._marks if p == protocol)
        return MessageForm(protocol, encoding, compressions[0] if compressions else None, marks)

    def others(self) -> dict[str, int]:
        """The number of messages of each protocol other than the winner's."""
        winner = self.winner()
        return {} if winner is None else {p: n for (p, _), n in self._forms.items() if p != winner.protocol}


def form_of(key: bytes | None, value: bytes | None) -> MessageForm | None:
    """The form of one message; None if no protocol of TiCDC writes it."""
    if key is not None and key[:8] == _OPEN_VERSION:
        return _open(key, value or b"")
    if _is_confluent(key, value):
        return MessageForm("avro", "avro")
    if not value:
        return None
    found = next(_bodies(value), None)
    if found is not None:
        return found
    return MessageForm("avro", "avro") if _is_internal_avro(value) else None


# -- detection by protocol ---------------------------------------------------------------------------------------------


def _open(key: bytes, value: bytes) -> MessageForm | None:
    try:
        heads = [json_object(body, "") for body in frames(key[8:], "")]
        bodies = [body for body in frames(value, "") if body]
    except DecodeError:
        return None
    if not heads or any("ts" not in head or "t" not in head for head in heads):
        return None
    return MessageForm("open-protocol", "json", _compression(bodies[0]) if bodies else None)


def _compression(body: bytes) -> Compression | None:
    """The compression of a body that holds a JSON object; None if it does not hold one."""
    return next((c for c, plain in _decompressed(body) if _parsed(plain) is not None), None)


def _is_confluent(key: bytes | None, value: bytes | None) -> bool:
    if key:
        return _is_framed(key) and (not value or _is_framed(value) or value[0] == _AVRO_DELETE)
    return bool(value) and value is not None and _is_framed(value)


def _is_framed(data: bytes) -> bool:
    return len(data) >= _FRAME_BYTES and data[0] == 0 and 0 < int.from_bytes(data[1:5], "big") <= _SCHEMA_ID_MAX


def _is_internal_avro(value: bytes) -> bool:
    """Whether this is a DDL statement or watermark, which TiCDC adds to Avro only in a mode for its own tests."""
    if value[0] == _AVRO_DDL:
        parsed = _parsed(value[1:])
        return parsed is not None and "query" in parsed
    return len(value) == 9 and value[0] == _AVRO_WATERMARK


def _bodies(value: bytes) -> Iterator[MessageForm]:
    """The forms that a value can be read as; uncompressed first, since only lz4 has a magic number."""
    for compression, plain in _decompressed(value):
        if simple_avro.looks_like(plain) and _is_simple_avro(plain):
            yield MessageForm("simple", "avro", compression)
        parsed = _parsed(plain)
        named = _json_form(parsed) if parsed is not None else None
        if named is not None:
            yield MessageForm(named[0], "json", compression, named[1])


def _decompressed(body: bytes) -> Iterator[tuple[Compression, bytes]]:
    yield Compression.NONE, body
    for compression in (Compression.LZ4, Compression.SNAPPY):
        if (compression is Compression.LZ4) != body.startswith(_LZ4_MAGIC):
            continue
        try:
            yield compression, decompress(body, compression, "", BODY_BYTES_MAX)
        except DecodeError:
            continue


def _is_simple_avro(body: bytes) -> bool:
    try:
        simple_avro.message(body, "")
    except DecodeError:
        return False
    return True


def _parsed(body: bytes) -> dict[str, Any] | None:
    if not body.startswith((b"{", b" ", b"\n", b"\t", b"\r")):
        return None
    try:
        return json_object(body, "")
    except DecodeError:
        return None


def _json_form(parsed: Mapping[str, Any]) -> tuple[str, frozenset[str]] | None:
    """The first protocol that recognises the object, and the options that the object shows."""
    for protocol in REGISTRY.values():
        marks = protocol.recognise(parsed) if protocol.recognise is not None else None
        if marks is not None:
            return protocol.name, marks
    return None


# -- the Avro protocol's modes -----------------------------------------------------------------------------------------


def avro_modes(schema: str) -> dict[str, str]:
    """The handling modes for DECIMAL and BIGINT UNSIGNED that a registered value schema shows, by option name.

    A mode is absent if the schema has no such column.
    """
    try:
        record = orjson.loads(schema)
    except orjson.JSONDecodeError:
        return {}
    found: dict[str, str] = {}
    for written, type_ in _avro_types(record):
        if written == "DECIMAL":
            found["avro-decimal-handling-mode"] = "string" if type_ == "string" else "precise"
        if written == "BIGINT UNSIGNED":
            found["avro-bigint-unsigned-handling-mode"] = "string" if type_ == "string" else "long"
    return found


def _avro_types(record: Any) -> Iterator[tuple[Any, Any]]:
    fields = record.get("fields") if isinstance(record, dict) else None
    for each in fields if isinstance(fields, list) else ():
        parsed = each.get("type") if isinstance(each, dict) else None
        for branch in parsed if isinstance(parsed, list) else [parsed]:
            parameters = branch.get("connect.parameters") if isinstance(branch, dict) else None
            if isinstance(branch, dict) and isinstance(parameters, dict):
                yield parameters.get("tidb_type"), branch.get("type")
