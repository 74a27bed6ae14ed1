"""Writes what `formats.frames` and the Open Protocol read: frames, the size of Snappy bodies, quoted Go strings."""

from __future__ import annotations

import struct


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">q", len(body)) + body for body in bodies)


def snappy_size(size: int) -> bytes:
    out = bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*out, size))


def go_quote(raw: bytes) -> str:
    """strconv.Quote without its quotes, for bytes and printable text."""
    names = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    out = []
    for char in raw.decode("utf-8", "surrogateescape"):
        point = ord(char)
        if point in names:
            out.append("\\" + names[point])
        elif 0xDC80 <= point <= 0xDCFF:
            out.append(f"\\x{point - 0xDC00:02x}")
        elif point < 0x20 or point == 0x7F:
            out.append(f"\\x{point:02x}")
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}")
    return "".join(out)
