"""Reads single values of Avro from bytes, each from an index on. An IndexError means that the bytes end early."""

from __future__ import annotations

import struct
from typing import Final

DECIMAL_BYTES_MAX: Final = 64
"""65 digits need 28 bytes; turning bytes to digits takes quadratic time, so many more are refused."""


class MalformedError(ValueError):
    """Raised while a schema or a value is read; `formats.avro.reader` makes a DecodeError with the position of it."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    raw = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise MalformedError("an integer of at most 10 bytes", "a longer one")
    if raw >> 64:
        raise MalformedError("an integer of at most 64 bits", "a longer one")
    return (raw >> 1) ^ -(raw & 1), at


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """A long of at most 32 bits."""
    value, at = read_long(data, at)
    if not -(1 << 31) <= value < 1 << 31:
        raise MalformedError("an int of at most 32 bits", "a longer one")
    return value, at


def read_null(_data: bytes, at: int) -> tuple[None, int]:
    """None, which takes no bytes."""
    return None, at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise MalformedError("a boolean of 0 or 1", "another byte")
    return byte == 1, at + 1


def read_float(data: bytes, at: int) -> tuple[float, int]:
    """Four bytes."""
    return _unpack(_FLOAT, data, at)


def read_double(data: bytes, at: int) -> tuple[float, int]:
    """Eight bytes."""
    return _unpack(_DOUBLE, data, at)


_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def _unpack(form: struct.Struct, data: bytes, at: int) -> tuple[float, int]:
    end = at + form.size
    if end > len(data):
        raise IndexError
    value: float = form.unpack_from(data, at)[0]
    return value, end


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The length as a long, and that many bytes."""
    length, at = read_long(data, at)
    if length < 0:
        raise MalformedError("a length of zero or more", "a negative one")
    end = at + length
    if end > len(data):
        raise IndexError
    return data[at:end], end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Bytes in UTF-8. A UnicodeDecodeError where they are not."""
    raw, at = read_bytes(data, at)
    return raw.decode(), at


def read_block(data: bytes, at: int, item_bytes_min: int) -> tuple[int, int]:
    """The number of items in the next block of an array or a map, 0 after the last."""
    count, at = read_long(data, at)
    if count < 0:
        count = -count
        size, at = read_long(data, at)
        if not 0 <= size <= len(data) - at:
            raise MalformedError("a block that ends inside the value", "another size")
    if count * item_bytes_min > len(data) - at:
        raise IndexError
    return count, at


def decimal_text(unscaled: int, scale: int) -> str:
    """An unscaled number with `scale` digits after the point, as text."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[: len(digits) - scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
