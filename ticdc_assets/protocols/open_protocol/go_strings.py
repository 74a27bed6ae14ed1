"""Decodes Go string literals: the text that `strconv.Quote` writes between its quotes.

The Open Protocol carries BINARY and VARBINARY in this form.
"""

from __future__ import annotations

import re
from typing import Final

from ticdc_assets.errors import DecodeError

_SIMPLE: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b'"': b'"',
    b"'": b"'",
}
_ESCAPE: Final = re.compile(
    rb"\\(?:([abfnrtv\\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|)"
)


def unquote(text: str, where: str) -> bytes:
    """The bytes of a Go literal; characters outside escapes become their UTF-8 bytes."""
    try:
        raw = text.encode()
        return _ESCAPE.sub(_escape, raw) if b"\\" in raw else raw
    except ValueError as error:
        raise DecodeError(
            where,
            "the body of a Go string literal",
            "an escape or a character that Go does not write",
            "The column's schema and the row disagree about binary: check the schema, or quarantine the message.",
        ) from error


def _escape(found: re.Match[bytes]) -> bytes:
    simple, byte, short, long, octal = found.groups()
    if simple:
        return _SIMPLE[simple]
    if byte:
        return bytes.fromhex(byte.decode())
    if octal:
        return bytes((int(octal, 8),))
    if not (point := short or long):
        raise ValueError("unknown escape")
    return chr(int(point, 16)).encode()
