"""Any name as an identifier, one to one unless it is too long; names of Dagster's assets and ops; names in Avro."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

ENCODED_BYTES_MAX: Final = 100
_LONG_DIGEST_CHARS: Final = 20
PLAIN: Final = frozenset(string.ascii_letters + string.digits + "_-")
_PLAIN_PORTABLE: Final = frozenset(string.ascii_lowercase + string.digits + "_")
_ESCAPE: Final = re.compile(r"_x(10[0-9a-f]{4}|[0-9a-f]{1,5})_")
"""The escape of a character; Unicode ends at U+10FFFF."""
_ESCAPE_START: Final = re.compile(r"_x[0-9a-f]{1,6}")
EMPTY: Final = "_x_"
"""The identifier of the empty name."""
_LONG: Final = re.compile(rf"_xx[0-9a-f]{{{_LONG_DIGEST_CHARS}}}\Z")
_NOT_AVRO: Final = re.compile(r"[^A-Za-z0-9_]")


def encode(name: str, *, portable: bool = False) -> str:
    """The identifier of a name: ASCII letters, digits, `_` and `-` only, at most 100 bytes, never empty.

    The identifier of a longer name is its beginning, `_xx` and a digest.
    """
    plain = _PLAIN_PORTABLE if portable else PLAIN
    if name in {"", EMPTY}:
        return EMPTY if name == "" else "_x5f_x_"
    pieces = list(encoded_chars(name, lambda text, at: text[at] in plain and not _reads_as_escape(text, at, plain)))
    encoded = "".join(pieces)
    if len(encoded) <= ENCODED_BYTES_MAX:
        return encoded
    return _shortened(pieces, name)


def decode(identifier: str) -> str | None:
    """The name that was given to `encode`; None for a shortened name (the control table `tables` has it)."""
    if identifier == EMPTY:
        return ""
    without_escapes = _ESCAPE.sub("\0", identifier)
    if _LONG.search(without_escapes):
        return None
    return unescaped(identifier)


def unescaped(text: str) -> str:
    """The text with the characters that its escapes mean."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def encoded_chars(name: str, stays: Callable[[str, int], bool]) -> Iterator[str]:
    """Each character of a name, or its escape. `stays` returns whether the character at an index is kept."""
    for at, char in enumerate(name):
        yield char if stays(name, at) else f"_x{ord(char):x}_"


def _reads_as_escape(name: str, at: int, plain: frozenset[str]) -> bool:
    """Whether the underscore at this position must be encoded, as `decode` would read an escape or a digest there."""
    if name[at] != "_":
        return False
    found = _ESCAPE_START.match(name, at)
    if found is not None and found.end() < len(name):
        following = name[found.end()]
        return following == "_" or following not in plain
    return _LONG.match(name, at) is not None


def _shortened(pieces: list[str], name: str) -> str:
    ending = f"_xx{digest_of(name, _LONG_DIGEST_CHARS)}"
    lengths = accumulate(len(piece) for piece in pieces)
    kept = sum(1 for length in lengths if length + len(ending) <= ENCODED_BYTES_MAX)
    # The kept part and the underscore after it may together read as an escape.
    while decode("".join(pieces[:kept]) + ending) is not None:
        kept -= 1
    return "".join(pieces[:kept]) + ending


def digest_of(text: str, chars: int) -> str:
    """The first hexadecimal digits of a digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


OP_NAME_CHARS_MAX: Final = 80
_KEY_DIGEST_CHARS: Final = 10
_OP_DIGEST_CHARS: Final = 8
_KEY_PART: Final = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_DIGESTED_KEY_PART: Final = re.compile(rf"(.*_)?h[0-9a-f]{{{_KEY_DIGEST_CHARS}}}")


def asset_key_part(name: str) -> str:
    """A part of a Dagster asset key. A name that Dagster accepts is kept; any other gets a digest.

    Dagster joins the parts with `__` into the name of an op or output. No part contains `__` or starts or ends with
    `_`, so different keys give different names there.
    """
    if _KEY_PART.fullmatch(name) and not _DIGESTED_KEY_PART.fullmatch(name) and len(name) <= ENCODED_BYTES_MAX:
        return name
    slug = _slug(name)[: ENCODED_BYTES_MAX - _KEY_DIGEST_CHARS - 2].strip("_")
    digest = digest_of(name, _KEY_DIGEST_CHARS)
    return f"{slug}_h{digest}" if slug else f"h{digest}"


def op_name(*parts: str) -> str:
    """The name of a Dagster op, output or check: a readable slug and a digest of eight digits, so that it is unique."""
    ending = f"_{digest_of(chr(0).join(part.replace(chr(0), chr(0) * 2 + '.') for part in parts), _OP_DIGEST_CHARS)}"
    slug = _slug("_".join(parts))[: OP_NAME_CHARS_MAX - len(ending)].strip("_")
    return f"{slug or 'op'}{ending}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def sanitised(name: str) -> str:
    """A database, table or column in Avro schemas: TiCDC writes `_` for every character that Avro does not allow."""
    found = _NOT_AVRO.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found
