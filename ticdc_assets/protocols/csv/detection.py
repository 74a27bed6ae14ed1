"""Detects the CSV options of a storage sink from its files.

The first record of a file shows most options, since its second and third fields are the names in the schema file. One
file can be ambiguous (a first column that looks like a commit-ts, virtual columns that rows do not have), so an option
is accepted if it is consistent with all files.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.csv import records
from ticdc_assets.protocols.csv.options import CsvOptions

_OPS: Final = (b"I", b"U", b"D")
_QUOTES: Final = (b'"', b"'", b"`")
_COMMIT_TS: Final = re.compile(rb"[0-9]{18,19}")
_TIDB_BEGAN_MS: Final = 1_420_070_400_000  # 2015; a smaller number is no commit-ts
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")


@dataclass(slots=True)
class CsvVotes:
    """Combines what the first records of several files show."""

    _marks: Counter[tuple[str, str]] = field(default_factory=Counter)
    _commit_ts: bool = True
    _is_update: bool = True
    _headers: bool = False
    _line_ends: Counter[str] = field(default_factory=Counter)
    _surplus: list[int] = field(default_factory=list)
    _not_hex: bool = False
    _not_base64: bool = False
    _bytes_seen: bool = False
    _bare_texts: set[bytes] = field(default_factory=set)

    def add(self, data: bytes, schema: str, table: str, columns: int) -> None:
        """Adds the beginning of a file; `columns` is the number of the table's columns, including virtual ones."""
        marks = _delimiter_and_quote(data[records.header_bytes(data) :], schema, table)
        if marks is None:
            return
        plain = CsvOptions(delimiter=marks[0], quote=marks[1])
        fields = records.first_fields(data, plain)
        if fields is None or len(fields) < 4:
            return
        self._marks[marks] += 1
        self._headers |= records.header_bytes(data) > 0
        self._line_ends["\r\n" if b"\r\n" in data else "\n"] += 1
        is_ts = _is_commit_ts(fields[3])
        self._commit_ts &= is_ts
        place = 4 if is_ts else 3
        self._is_update &= len(fields) > place and fields[place] in ((b"true", False), (b"false", False))
        self._surplus.append(len(fields) - columns)
        self._bare_texts |= records.bare_texts(data, plain)

    def binary(self, texts: Iterable[str | None]) -> None:
        """Adds values of binary columns, which show whether bytes are base64 or hex."""
        for text in texts:
            if text:
                self._bytes_seen = True
                self._not_hex |= _HEX.fullmatch(text) is None
                self._not_base64 |= not _is_base64(text)

    @property
    def knows_binary_encoding(self) -> bool:
        """Whether the values show how bytes are written, or there are no values."""
        return not self._bytes_seen or self._not_hex != self._not_base64

    @property
    def knows_null(self) -> bool:
        """Whether the files show the text of NULL."""
        return len(self._bare_texts) == 1

    def options(self) -> CsvOptions | None:
        """The options that are consistent with all files; None if no file could be read."""
        if not self._marks:
            return None
        (delimiter, quote), _ = self._marks.most_common(1)[0]
        known = CsvOptions(
            delimiter=delimiter,
            quote=quote,
            include_commit_ts=self._commit_ts,
            output_old_value=self._is_update,
            output_field_header=self._headers,
            terminator=self._line_ends.most_common(1)[0][0],
            binary_encoding_method=self._binary(),
        )
        known = self._with_null(known)
        handle_key = max(self._surplus) > known.leading_fields(with_handle_key=False)
        return replace(known, output_handle_key=handle_key)

    def _with_null(self, known: CsvOptions) -> CsvOptions:
        try:
            return replace(known, null=next(iter(self._bare_texts)).decode()) if self.knows_null else known
        except (UnicodeDecodeError, ConfigError):
            return known

    def _binary(self) -> Literal["base64", "hex"]:
        return "hex" if self._not_base64 and not self._not_hex else "base64"


def _delimiter_and_quote(data: bytes, schema: str, table: str) -> tuple[str, str] | None:
    quote = next((q for q in _QUOTES if data[:1] == q and data[2:3] == q), b"")
    width = len(quote)
    if data[width : width + 1] not in _OPS:
        return None
    rest = data[2 * width + 1 :]
    for length in (1, 2, 3):
        delimiter = rest[:length]
        names = (quote + name.encode().replace(quote, quote * 2) + quote if quote else name.encode()
                 for name in (table, schema))  # fmt: skip
        if rest.startswith(delimiter + delimiter.join(names) + delimiter):
            return _checked(delimiter, quote)
    return None


def _checked(delimiter: bytes, quote: bytes) -> tuple[str, str] | None:
    try:
        found = CsvOptions(delimiter=delimiter.decode(), quote=quote.decode())
    except (UnicodeDecodeError, ConfigError):
        return None
    return found.delimiter, found.quote


def _is_commit_ts(field_: tuple[bytes, bool]) -> bool:
    content, quoted = field_
    return not quoted and _COMMIT_TS.fullmatch(content) is not None and int(content) >> 18 > _TIDB_BEGAN_MS


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True
