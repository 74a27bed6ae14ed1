"""A strict reader of Avro's binary encoding: compiles a writer schema to a function from bytes to a value.

Other readers accept a union index of -1 and integers of too many bits, ignore trailing bytes, round decimals, and let a
small malicious schema exhaust the stack or the memory: fastavro ends the process. This reader validates a schema when
it compiles it: no recursion, bounded depth and width, no array items of zero bytes. The cost of reading is then bounded
by the number of bytes, and any bytes that are not exactly one value of the schema are a DecodeError.

Values: record and map -> dict, array -> list, enum -> str, bytes and fixed -> bytes, bytes with logical type decimal
-> its text with the scale kept, all other types as in Python. Defaults and aliases play no part: bytes are read with
the schema they were written with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.avro.values import (
    DECIMAL_BYTES_MAX,
    MalformedError,
    decimal_text,
    read_block,
    read_boolean,
    read_bytes,
    read_double,
    read_float,
    read_int,
    read_long,
    read_null,
    read_string,
)

SCHEMA_BYTES_MAX: Final = 4 << 20
"""A table of 4096 columns, TiDB's limit, takes about 600 kB, and the labels of its ENUMs come on top."""
SCHEMA_DEPTH_MAX: Final = 32
SCHEMA_FIELDS_MAX: Final = 10_000
"""Twice TiDB's 4096 columns, for old and new values, plus the extension fields; each use of a type counts."""
FIXED_BYTES_MAX: Final = 1 << 20
DECIMAL_DIGITS_MAX: Final = 65

ReadValue = Callable[[bytes, int], tuple[Any, int]]

_ADVICE_BYTES: Final = "Check that the message was written by TiCDC with this schema; it stays quarantined."
_ADVICE_SCHEMA: Final = "Check what registered this schema; TiCDC writes no such one."


@dataclass(frozen=True, slots=True)
class Reader:
    """A compiled schema. `bytes_min` is the fewest bytes a value takes, `fields` and `depth` what its reading costs."""

    read: ReadValue
    bytes_min: int
    fields: int = 1
    depth: int = 1


@dataclass(slots=True)
class _Names:
    known: dict[str, Reader] = field(default_factory=dict)

    def find(self, name: str, namespace: str) -> Reader:
        found = self.known.get(_full_name(name, namespace)) or self.known.get(name)
        if found is None:
            raise MalformedError("a primitive type or a type defined before its use", "another name, or recursion")
        return found

    def add(self, name: str, reader: Reader) -> Reader:
        if name in self.known:
            raise MalformedError("every type defined once", "a type defined twice")
        self.known[name] = reader
        return reader


def schema_of(text: str | bytes, where: str) -> Any:
    """The JSON of a schema, bounded in size and depth."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise DecodeError(where, f"an Avro schema of at most {SCHEMA_BYTES_MAX} bytes", f"{len(text)}", _ADVICE_SCHEMA)
    try:
        return orjson.loads(text)
    except ValueError:
        raise DecodeError(where, "an Avro schema in JSON", "a text that is not JSON", _ADVICE_SCHEMA) from None


def reader_of(schema: Any, where: str) -> Reader:
    """The reader of an admitted schema; DecodeError when it is not admitted."""
    try:
        return _compile(schema, "", _Names(), SCHEMA_DEPTH_MAX)
    except MalformedError as exc:
        raise DecodeError(where, exc.expected, exc.found, _ADVICE_SCHEMA) from None


def read_whole(reader: Reader, data: bytes, where: str, start: int = 0) -> Any:
    """The one value that `data` holds from the byte `start` to its end.

    Raises:
        DecodeError: the bytes are not exactly one value of the schema.
    """
    try:
        value, end = reader.read(data, start)
    except IndexError:
        raise DecodeError(where, "a whole Avro value", "bytes that end early", _ADVICE_BYTES) from None
    except UnicodeDecodeError:
        raise DecodeError(where, "text in UTF-8", "other bytes", _ADVICE_BYTES) from None
    except MalformedError as exc:
        raise DecodeError(where, exc.expected, exc.found, _ADVICE_BYTES) from None
    if end != len(data):
        raise DecodeError(where, "one Avro value", f"{len(data) - end} bytes after it", _ADVICE_BYTES)
    return value


_PRIMITIVES: Final[dict[str, Reader]] = {
    "null": Reader(read_null, 0),
    "boolean": Reader(read_boolean, 1),
    "int": Reader(read_int, 1),
    "long": Reader(read_long, 1),
    "float": Reader(read_float, 4),
    "double": Reader(read_double, 8),
    "bytes": Reader(read_bytes, 1),
    "string": Reader(read_string, 1),
}


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _compile(schema: Any, namespace: str, names: _Names, room: int) -> Reader:
    if room <= 0:
        raise MalformedError(f"a schema of at most {SCHEMA_DEPTH_MAX} levels", "a deeper one")
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or names.find(schema, namespace)
    if isinstance(schema, list):
        return _checked(_union(schema, namespace, names, room - 1))
    if isinstance(schema, dict):
        return _checked(_complex(schema, namespace, names, room))
    raise MalformedError("a type as a name, a list or an object", type(schema).__name__)


def _checked(reader: Reader) -> Reader:
    # Named types may be used again and again, so the cost of reading is not the size of the text.
    if reader.depth > SCHEMA_DEPTH_MAX or reader.fields > SCHEMA_FIELDS_MAX:
        raise MalformedError(f"at most {SCHEMA_DEPTH_MAX} levels and {SCHEMA_FIELDS_MAX} fields", "more")
    return reader


def _complex(schema: dict[str, Any], namespace: str, names: _Names, room: int) -> Reader:
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _COMPLEX:
        return _COMPLEX[kind](schema, namespace, names, room - 1)
    if kind == "bytes" and schema.get("logicalType") == "decimal":
        return Reader(_decimal(schema), 1)
    return _compile(kind, namespace, names, room - 1)


def _union(branches: list[Any], namespace: str, names: _Names, room: int) -> Reader:
    if not branches or any(isinstance(branch, list) for branch in branches):
        raise MalformedError("a union of one or more types that are no unions", "another list")
    readers = [_compile(branch, namespace, names, room) for branch in branches]
    reads = tuple(reader.read for reader in readers)
    count = len(reads)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at)
        if not 0 <= index < count:
            raise MalformedError(f"a union branch below {count}", "another")
        return reads[index](data, at)

    return _over(read, readers, 1 + min(r.bytes_min for r in readers), max(r.fields for r in readers))


def _over(read: ReadValue, parts: list[Reader], bytes_min: int, fields: int) -> Reader:
    return Reader(read, bytes_min, fields, 1 + max((part.depth for part in parts), default=0))


def _named(schema: dict[str, Any], namespace: str) -> str:
    name = schema.get("name")
    own = schema.get("namespace", namespace)
    if not isinstance(name, str) or not name or not isinstance(own, str):
        raise MalformedError("a named type with a name", "none")
    return _full_name(name, own)


def _record(schema: dict[str, Any], namespace: str, names: _Names, room: int) -> Reader:
    name = _named(schema, namespace)
    inner = name.rpartition(".")[0]
    fields = record_fields(schema)
    readers = [_compile(one.get("type"), inner, names, room) for one in fields]
    if any(reader.bytes_min == 0 for reader in readers):
        # Fields that take no bytes would cost time that the bytes do not pay for.
        raise MalformedError("fields that take bytes", "a field that takes none")
    steps = tuple((one["name"], reader.read) for one, reader in zip(fields, readers, strict=True))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        out = {}
        for key, step in steps:
            out[key], at = step(data, at)
        return out, at

    bytes_min = sum(r.bytes_min for r in readers)
    return names.add(name, _over(read, readers, bytes_min, 1 + sum(r.fields for r in readers)))


def record_fields(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a record's schema, each an object with a name of its own; MalformedError when they are not."""
    fields = record.get("fields")
    if not isinstance(fields, list) or not all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in fields):
        raise MalformedError("a record with a list of named fields", "none")
    if len({f["name"] for f in fields}) != len(fields):
        raise MalformedError("fields with different names", "two of one name")
    return fields


def _enum(schema: dict[str, Any], namespace: str, names: _Names, _room: int) -> Reader:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
        raise MalformedError("an enum with symbols", "none")
    known = tuple(symbols)

    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(known):
            raise MalformedError(f"an enum index below {len(known)}", "another")
        return known[index], at

    return names.add(_named(schema, namespace), Reader(read, 1))


def _fixed(schema: dict[str, Any], namespace: str, names: _Names, _room: int) -> Reader:
    size = schema.get("size")
    if type(size) is not int or not 0 < size <= FIXED_BYTES_MAX:
        raise MalformedError(f"a fixed type of 1 to {FIXED_BYTES_MAX} bytes", "another size")

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if at + size > len(data):
            raise IndexError
        return data[at : at + size], at + size

    return names.add(_named(schema, namespace), Reader(read, size))


def _array(schema: dict[str, Any], namespace: str, names: _Names, room: int) -> Reader:
    item = _compile(schema.get("items"), namespace, names, room)
    if item.bytes_min == 0:
        # Five bytes could otherwise stand for millions of items.
        raise MalformedError("array items that take bytes", "items that take none")

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        out = []
        count, at = read_block(data, at, item.bytes_min)
        while count:
            for _ in range(count):
                value, at = item.read(data, at)
                out.append(value)
            count, at = read_block(data, at, item.bytes_min)
        return out, at

    return _over(read, [item], 1, item.fields)


def _map(schema: dict[str, Any], namespace: str, names: _Names, room: int) -> Reader:
    item = _compile(schema.get("values"), namespace, names, room)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        count, at = read_block(data, at, 1 + item.bytes_min)
        while count:
            for _ in range(count):
                key, at = read_string(data, at)
                if key in out:
                    raise MalformedError("a map with each key once", "a key twice")
                out[key], at = item.read(data, at)
            count, at = read_block(data, at, 1 + item.bytes_min)
        return out, at

    return _over(read, [item], 1, item.fields)


def _decimal(schema: dict[str, Any]) -> ReadValue:
    scale = schema.get("scale", 0)
    precision = schema.get("precision")
    if type(scale) is not int or type(precision) is not int or not 0 <= scale <= precision <= DECIMAL_DIGITS_MAX:
        raise MalformedError("a decimal with precision and scale", "others")

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, at = read_bytes(data, at)
        if not 0 < len(raw) <= DECIMAL_BYTES_MAX:
            raise MalformedError(f"a decimal of 1 to {DECIMAL_BYTES_MAX} bytes", f"{len(raw)}")
        return decimal_text(int.from_bytes(raw, "big", signed=True), scale), at

    return read


_COMPLEX: Final[dict[str, Callable[[dict[str, Any], str, _Names, int], Reader]]] = {
    "record": _record,
    "enum": _enum,
    "fixed": _fixed,
    "array": _array,
    "map": _map,
}
