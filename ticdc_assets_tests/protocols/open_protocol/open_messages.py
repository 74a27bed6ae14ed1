"""Open Protocol messages made by tests, and their events."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa

from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol.decoder import decode, value
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.protocols.formats.written import framed

PLAIN = DecoderOptions()
TS = 459802238374641668
U64 = (1 << 64) - 1


def column(wire: Any, code: int = 3, flags: int = 64, handle: bool = False) -> dict[str, Any]:
    return {"t": code, **({"h": True} if handle else {}), "f": flags, "v": wire}


ID = column(1, flags=11, handle=True)
HEAD = {"ts": TS, "scm": "shop", "tbl": "t", "t": 1}


def packed(body: Any, compression: Compression = Compression.NONE) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return raw if compression is Compression.NONE else pa.Codec(compression.value).compress(raw, asbytes=True)


def message(*pairs: tuple[Any, Any], compression: Compression = Compression.NONE) -> tuple[bytes, bytes]:
    """A message of (head, body) pairs; a body None is empty, as of a resolved event."""
    key = struct.pack(">q", 1) + framed(*(packed(head) for head, _ in pairs))
    return key, framed(*(b"" if body is None else packed(body, compression) for _, body in pairs))


def decoded(*pairs: tuple[Any, Any], options: DecoderOptions = PLAIN) -> list[Any]:
    return list(decode(*message(*pairs, compression=options.compression), "t[0]@1", options))


def of(kind: str, wire: Any, zone: str = "UTC", **more: Any) -> Any:
    return value(Column("c", MySqlType(Kind(kind), **more)), wire, zone)
