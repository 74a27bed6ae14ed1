"""Reads the Avro encoding of the Simple protocol into the same message object as its JSON encoding.

There is no schema registry and no header: TiCDC publishes one schema, and a message is the branch `Message` of its
union. Values differ from JSON: integers are numbers, binary columns are bytes, TIMESTAMP is {location, value} and
BIGINT UNSIGNED is {value}. `simple.decoder.value` reads both forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.avro.reader import Reader, read_whole, reader_of

SCHEMA_FILE: Final = "simple-message.avsc.json"
_PAYLOADS: Final = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap", "DDL": "DDL", "DML": "DML"}
_ADVICE: Final = "Check that the topic is written with encoding-format=avro and without compression, or configure both."


@dataclass(frozen=True, slots=True)
class _Format:
    reader: Reader
    head: bytes
    payload_fields: dict[str, frozenset[str]]


def looks_like(body: bytes) -> bool:
    """Whether the first bytes are those of an Avro message; no JSON message begins with them."""
    return body.startswith(_format().head)


def message(body: bytes, where: str) -> dict[str, Any]:
    """The message as an object with the fields of its JSON form. Raises DecodeError."""
    form = _format()
    if not body.startswith(form.head):
        raise DecodeError(where, "a Simple message in Avro", "another first byte", _ADVICE)
    outer = read_whole(form.reader, body, where)
    payload: dict[str, Any] = outer["payload"]
    if payload.keys() != form.payload_fields[outer["type"]]:
        raise DecodeError(where, "a payload of the type that the message names", "another", _ADVICE)
    return {"type": outer["type"], **payload}


@cache
def _format() -> _Format:
    schemas = _schemas()
    by_name = {schema["name"]: schema for schema in schemas}
    # The zigzag of a branch below 64 is one byte.
    head = bytes([2 * [schema["name"] for schema in schemas].index("Message")])
    fields = {kind: frozenset(f["name"] for f in by_name[name]["fields"]) for kind, name in _PAYLOADS.items()}
    return _Format(reader_of(schemas, SCHEMA_FILE), head, fields)


def _schemas() -> list[dict[str, Any]]:
    schemas: list[dict[str, Any]] = orjson.loads(files(__package__).joinpath(SCHEMA_FILE).read_bytes())
    for schema in schemas:
        for field in schema["fields"]:
            if (schema["name"], field["name"]) == ("ColumnSchema", "default"):
                # TiCDC puts the raw bits of a BIT default here, which need not be UTF-8; on the wire both are the same.
                field["type"] = ["null", "bytes"]
    return schemas
