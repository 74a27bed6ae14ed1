"""The bodies of messages: length-prefixed frames, compressed bodies, JSON objects.

The input is untrusted. Every length is compared with the number of bytes present before memory is allocated for it. Any
malformed input is a DecodeError, never another exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.schema.model import Kind, MySqlType

LENGTH_BYTES: Final = 8
MAX_FRAMES: Final = 1 << 16
"""TiCDC's max-batch-size is 16 by default; a message with more frames than this is damaged."""
MAX_BODY_BYTES: Final = 256 << 20
"""A TiDB transaction entry is at most 120 MiB, 6 MiB by default: a row with its old image fits."""
MAX_RATIO: Final = 256
"""An lz4 block grows at most 255-fold, a snappy block 22-fold; a higher ratio is a decompression bomb."""
_CHUNK_BYTES: Final = 1 << 20
_VARINT_BYTES: Final = 5
REALS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TOKEN: Final = re.compile(rb"-0[^0-9.eE]")
"""A text value may match it too. Such a message is parsed twice, with the same result."""
_INT64_MIN, _UINT64_MAX = -(1 << 63), (1 << 64) - 1


def frames(data: bytes, where: str) -> Iterator[bytes]:
    """The bodies of `(8-byte big-endian length + body)*`, which must fill `data` to its last byte."""
    at = 0
    count = 0
    while at < len(data):
        if (count := count + 1) > MAX_FRAMES:
            raise _bad(where, f"at most {MAX_FRAMES} events in a message", "more")
        start = at + LENGTH_BYTES
        at = start + _length(data, at, where)
        yield data[start:at]


def _length(data: bytes, at: int, where: str) -> int:
    left = len(data) - at - LENGTH_BYTES
    if left < 0:
        raise _bad(where, "an 8-byte length", f"{len(data) - at} bytes at byte {at}")
    length = int.from_bytes(data[at : at + LENGTH_BYTES], "big", signed=True)
    if not 0 <= length <= left:
        raise _bad(where, f"a length from 0 to the {left} bytes that are left", f"{length} at byte {at}")
    return length


def decompress(body: bytes, compression: Compression, where: str, limit: int = MAX_BODY_BYTES) -> bytes:
    """The decompressed bytes of a body.

    Args:
        where: the position of the message, for errors.
        limit: the largest allowed size in bytes.

    Raises:
        DecodeError: the body is malformed, or its content exceeds `limit` bytes or MAX_RATIO bytes for each byte of the
            body.
    """
    limit = min(limit, MAX_BODY_BYTES)
    if compression is Compression.NONE:
        if len(body) > limit:
            raise _too_large(where, limit)
        return body
    limit = min(limit, len(body) * MAX_RATIO)
    return (_lz4 if compression is Compression.LZ4 else _snappy)(body, where, limit)


def _lz4(body: bytes, where: str, limit: int) -> bytes:
    if not body:
        raise _bad(where, "an lz4 frame", "nothing")
    out: list[bytes] = []
    total = 0
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(body), "lz4")
        while piece := stream.read(_CHUNK_BYTES):
            if (total := total + len(piece)) > limit:
                raise _too_large(where, limit)
            out.append(piece)
    except (OSError, pa.ArrowException) as error:
        raise _bad(where, "an lz4 frame", "bytes that do not decompress") from error
    return b"".join(out)


def _snappy(body: bytes, where: str, limit: int) -> bytes:
    size = _snappy_size(body, where)
    if size > limit:
        raise _too_large(where, limit)
    try:
        out: bytes = pa.Codec("snappy").decompress(body, decompressed_size=size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise _bad(where, "a snappy block", "bytes that do not decompress") from error
    return out


def _snappy_size(body: bytes, where: str) -> int:
    size = 0
    for i, byte in enumerate(body[:_VARINT_BYTES]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    raise _bad(where, "a snappy block with its size in front", "no such size")


def json_object(body: bytes, where: str) -> dict[str, Any]:
    """A JSON object with exact integers up to 64 bits; nesting deeper than 1024 is refused by the parser."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _bad(where, "a JSON object", f"bytes that are not JSON, from byte {error.pos}") from None
    if not isinstance(found, dict):
        raise _bad(where, "a JSON object", f"a JSON {type(found).__name__}")
    return found


def _too_large(where: str, limit: int) -> DecodeError:
    return DecodeError(
        where,
        f"at most {limit} bytes once decompressed",
        "more",
        "If the message is sound, raise the limit; else it is damaged and stays in quarantine.",
    )


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(
        where, expected, found, "Compare the changefeed's protocol and compression with the configured ones."
    )


class NegativeZero(int):
    """A number that is written `-0`, as Go writes a negative zero of a FLOAT or DOUBLE.

    For the JSON parser it is the integer 0. The sign is kept until the type of the column is known.
    """

    def in_column(self, of: MySqlType) -> int | float:
        """The number in a column of this type."""
        return -0.0 if of.kind in REALS else 0


def json_row(body: bytes, where: str, images: tuple[str, ...]) -> dict[str, Any]:
    """Parse a JSON object like `json_object`, but each `-0` inside the members `images` is a NegativeZero."""
    found = json_object(body, where)
    if _TOKEN.search(body) is None:
        return found
    try:
        signed = json.loads(body, parse_int=_whole)
    except RecursionError:
        advice = "Compare the message with those of TiCDC; it stays in quarantine."
        raise DecodeError(where, "a JSON object", "one of too many levels", advice) from None
    return {name: signed[name] if name in images else value for name, value in found.items()}


def _whole(text: str) -> int | float:
    """A whole number as `json_object` reads it: a float beyond 64 bits."""
    if text == "-0":
        return NegativeZero()
    number = int(text)
    return number if _INT64_MIN <= number <= _UINT64_MAX else float(text)
