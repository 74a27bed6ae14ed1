"""Any name as an identifier, one to one unless it is too long; names of columns in the lake, of Dagster's assets and
ops, and in Avro."""

from __future__ import annotations

import hashlib
import re
import string
import sys
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
OWN_PREFIX: Final = "_ticdc_"
"""Names of this project begin with it; those of the source never do in the lake."""
_OWN_SUFFIX: Final = re.compile(r"(?<=_)_v[0-9]{15,}\Z")
_ICEBERG_COLUMNS: Final = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    }
)
_COLUMN_ESCAPE_START: Final = re.compile(r"_x[0-9a-f]{1,6}", re.IGNORECASE)
_COLUMN_ESCAPE: Final = re.compile(r"_x[0-9a-f]{1,6}_", re.IGNORECASE)
_AVRO_ESCAPE: Final = re.compile(r"_x([0-9A-F]{2,6})")


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


# -- columns -----------------------------------------------------------------------------------------------------------


def column_name(name: str) -> str:
    """The column's name in the lake: unchanged, except for characters that a table cannot have.

    Spaces, quotes, slashes and Unicode are kept. Encoded as `_x<hex>_` are dots (which would read as the path of a
    nested field), control characters, the underscore of names that Iceberg or this project reserves, and that of names
    which Iceberg's rewriting for Parquet (`a b` to `a_x20b`, `1a` to `_1a`) could make equal to another column's name.
    """
    if name in {"", EMPTY}:
        return EMPTY if name == "" else "_x5f_x_"
    return "".join(encoded_chars(name, _column_char_stays))


def source_column_name(column: str) -> str:
    """The source's name of a lake column; the reverse of `column_name`."""
    if column == EMPTY:
        return ""
    return unescaped(column)


def _column_char_stays(name: str, at: int) -> bool:
    char = name[at]
    if char == "_":
        return not (_starts_reserved(name, at) or _reads_as_column_escape(name, at) or _OWN_SUFFIX.match(name, at))
    return _is_column_char(char)


def _is_column_char(char: str) -> bool:
    return char >= " " and char not in ".\x7f" and not "\ud800" <= char <= "\udfff"


def _starts_reserved(name: str, at: int) -> bool:
    lowered = name.lower()
    own = lowered.startswith(OWN_PREFIX) or lowered in _ICEBERG_COLUMNS
    return at == 0 and (own or name[1:2].isdigit())


def _reads_as_column_escape(name: str, at: int) -> bool:
    if _COLUMN_ESCAPE.match(name, at):
        return True
    ends = _COLUMN_ESCAPE_START.match(name, at)
    if ends is not None and ends.end() < len(name) and not _is_column_char(name[ends.end()]):
        return True
    return any(_is_rewritten(int(found, 16)) for found in _hex_prefixes(name, at))


def _hex_prefixes(name: str, at: int) -> list[str]:
    found = _AVRO_ESCAPE.match(name, at)
    return [found[1][:length] for length in range(2, len(found[1]) + 1)] if found else []


def _is_rewritten(code: int) -> bool:
    """Whether Iceberg rewrites that character for Parquet, while `column_name` keeps it."""
    if 0xD800 <= code <= 0xDFFF:
        return True  # Java rewrites the surrogates of a character above U+FFFF one by one
    if code > sys.maxunicode or not _is_column_char(chr(code)):
        return False
    return not (chr(code).isalpha() or chr(code).isdecimal() or chr(code) == "_")
