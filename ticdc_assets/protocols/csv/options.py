"""The options of CSV files, refused where files that are written so cannot be read exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.values.text import NUMBER, TextForms

_NEWLINES: Final = (b"\r\n", b"\n")
_NULL_ADVICE: Final = (
    "Files of such a changefeed do not show which values are NULL: give the changefeed another `null`, such as \\N, "
    "and read the new files in a changefeed of another name, with another `target`."
)
_TERMINATOR_ADVICE: Final = (
    "Files of such a changefeed do not show where a record ends: give the changefeed a quote or another terminator, "
    "and read the new files in a changefeed of another name, with another `target`."
)
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


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The changefeed's CSV options under TiCDC's own names and defaults."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    binary_encoding_method: Literal["base64", "hex"] = "base64"
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False
    terminator: str = "\r\n"

    def __post_init__(self) -> None:
        _require(1 <= len(self.delimiter) <= 3, "delimiter", "one to three characters", self.delimiter)
        reserved = {"\r", "\n", "\\", '"', self.quote}
        _require(not set(self.delimiter) & reserved, "delimiter", "no quote, \\ or line end", self.delimiter)
        _require(len(self.quote) <= 1, "quote", "one character or none", self.quote)
        _require(bool(self.terminator), "terminator", "at least one character", self.terminator)
        ends_records = bool(self.quote) or not {"\r", "\n"}.isdisjoint(self.terminator)
        expected = "a line end in it where there is no quote"
        _require(ends_records, "terminator", expected, self.terminator, _TERMINATOR_ADVICE)
        ends_header = not self.output_field_header or self.terminator.endswith("\n")
        _require(ends_header, "terminator", "a final line end after a header", self.terminator, _TERMINATOR_ADVICE)
        _require(self._null_is_a_field(), "null", "no quote, delimiter or line end in it", self.null, _NULL_ADVICE)
        _require(NUMBER.fullmatch(self.null) is None, "null", "a text that is no number", self.null, _NULL_ADVICE)
        method = self.binary_encoding_method
        _require(method in ("base64", "hex"), "binary-encoding-method", "base64 or hex", method)

    def _null_is_a_field(self) -> bool:
        """Whether the text of NULL reads as one bare field."""
        if not self.quote and ESCAPE.sub(b"", self.null.encode()).endswith(b"\\"):
            return False
        marks = ("\r", "\n", self.delimiter, self.terminator, *self.quote)
        return not any(mark in self.null for mark in marks)

    @property
    def null_may_be_text(self) -> bool:
        """Whether a text can be written in the same way as NULL: it can without a quote, if the text of NULL needs no
        escape."""
        if self.quote:
            return False
        try:
            without_backslashes(self.null.encode(), self.delimiter)
        except MalformedError:
            return False
        return True

    @property
    def shared_delimiters(self) -> tuple[bytes, ...]:
        """The bytes of two delimiters that overlap, where no quote shows which of them stands between two fields."""
        written = self.delimiter.encode()
        shifts = [n for n in range(1, len(written)) if written.endswith(written[:-n])] if not self.quote else []
        return tuple(written[:n] + written for n in shifts)

    def leading_fields(self, with_handle_key: bool) -> int:
        """The number of fields before the table's columns."""
        return 3 + self.include_commit_ts + self.output_old_value + with_handle_key

    def line_ends(self) -> tuple[bytes, ...]:
        """The terminators of a record: with CRLF or LF, both are accepted; any other terminator only itself."""
        written = self.terminator.encode()
        return _NEWLINES if written in _NEWLINES else (written,)

    def forms(self, zone: str) -> TextForms:
        """The form of values in these files; TIMESTAMPs are in `zone`."""
        of_null = self.null if self.null_may_be_text else None
        return TextForms(binary=self.binary_encoding_method, enum="label", zone=zone, null=of_null)


def _require(
    holds: bool, option: str, expected: str, found: str, advice: str = "Copy the option from the changefeed."
) -> None:
    if not holds:
        raise ConfigError(f"csv {option}", expected, repr(found), advice)
