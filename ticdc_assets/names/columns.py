"""Names of columns in the lake."""

from __future__ import annotations

import re
import sys
from typing import Final

from ticdc_assets.names.encoding import EMPTY, encoded_chars, unescaped

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
