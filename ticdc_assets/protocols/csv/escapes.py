"""Escapes of a changefeed without a quote character: a backslash before CR, LF, itself and the delimiter."""

from __future__ import annotations

import re
from typing import Final

ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
"""A backslash and the character that it escapes."""


class MalformedError(Exception):
    """Raised where a record breaks the format; the arguments are what was expected and found, and advice of its own."""


def without_backslashes(content: bytes, delimiter: str) -> bytes:
    """The bytes that a field without quotes means. Raises MalformedError for a backslash before another character."""
    parts = content.split(b"\\\\")
    return b"\\".join(_without_escapes(part, delimiter) for part in parts)


def _without_escapes(part: bytes, delimiter: str) -> bytes:
    part = part.replace(b"\\r", b"\r").replace(b"\\n", b"\n")
    for character in delimiter:
        part = part.replace(b"\\" + character.encode(), character.encode())
    for byte in delimiter.encode():  # TiCDC escapes the bytes of a delimiter and writes each as a character
        part = part.replace(b"\\" + chr(byte).encode(), bytes([byte]))
    if b"\\" in part:
        raise MalformedError("a backslash before CR, LF, a backslash or the delimiter", "another one")
    return part
