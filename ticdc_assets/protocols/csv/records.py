"""Where records and their fields begin and end in the bytes of a file, and where reading goes on after a broken one."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from ticdc_assets.protocols.csv.options import ESCAPE, CsvOptions, MalformedError

HEADER_START: Final = b"ticdc-meta$operation"
"""The beginning of a header line. No record begins so, since its first field is I, U or D."""
_RECORD_START: Final = re.compile(rb'\n(?="[IUD]")')
BARE: Final = re.compile(rb"-?[0-9]|(?:true|false)\Z")
"""The beginning of what has no quotes although there is a quote: numbers, and whether a record is half of an update."""
_SHARED_ADVICE: Final = (
    "Compare the row with the source: `ticdc-assets replay` takes the record with each character of the delimiter in "
    "its values after a backslash. A quote, or a delimiter of one character, in the changefeed avoids such records."
)


def first_fields(data: bytes, options: CsvOptions) -> list[tuple[bytes, bool]] | None:
    """The raw fields of the first record, each with whether it is quoted; None if there is no whole record."""
    try:
        return fields_at(data, header_bytes(data), options)[0]
    except (CutError, MalformedError):
        return None


def bare_texts(data: bytes, options: CsvOptions) -> set[bytes]:
    """The contents of bare fields that are no numbers, in the records before the first that is cut or broken: where
    there is a quote, TiCDC writes only NULL so."""
    found: set[bytes] = set()
    at = header_bytes(data)
    while options.quote and at < len(data):
        try:
            fields, at = fields_at(data, at, options)
        except (CutError, MalformedError):
            break
        found |= {content for content, quoted in fields if not quoted and not BARE.match(content)}
    return found


def record_bytes(data: bytes, options: CsvOptions, lines: Collection[int]) -> dict[int, bytes]:
    """The bytes of the records with these ordinals, as `read` counts them."""
    found: dict[int, bytes] = {}
    at, line = header_bytes(data), 0
    while at < len(data) and len(found) < len(lines):
        try:
            _, end = fields_at(data, at, options)
        except CutError:
            break
        except MalformedError:
            end = after_broken(data, at, options)
        if line in lines:
            found[line] = data[at:end]
        at, line = end, line + 1
    return found


def header_bytes(data: bytes) -> int:
    """The length in bytes of the header line at the start of the data; 0 if there is none."""
    return data.find(b"\n") + 1 or len(data) if data.startswith(HEADER_START) else 0


class CutError(Exception):
    """Raised where the data end inside a record."""


def fields_at(data: bytes, at: int, options: CsvOptions) -> tuple[list[tuple[bytes, bool]], int]:
    """The fields of the record at `at`, each as raw content and whether it was quoted, and where the record ends."""
    fields = []
    begin, delimiter = at, options.delimiter.encode()
    while True:
        quoted = bool(options.quote) and data.startswith(options.quote.encode(), at)
        end = _quoted_end(data, at, options.quote.encode()) if quoted else _bare_end(data, at, options)
        content = data[at + 1 : end - 1] if quoted else data[at:end]
        fields.append((content, quoted))
        if data.startswith(delimiter, end):
            at = end + len(delimiter)
            continue
        if options.shared_delimiters and has_other_fields(data[begin:end], delimiter):
            found = "a part of the delimiter beside a delimiter"
            raise MalformedError("fields that only one reading gives", found, _SHARED_ADVICE)
        return fields, _record_end(data, end, options)


def has_other_fields(record: bytes, delimiter: bytes) -> bool:
    """Whether as many fields can be read if delimiters are searched from the end: if not, there is one reading only."""
    bare = ESCAPE.sub(b"\n\n", record)
    forward, at = [], bare.find(delimiter)
    while at >= 0:
        forward.append(at)
        at = bare.find(delimiter, at + len(delimiter))
    backward, at = [], bare.rfind(delimiter)
    while at >= 0:
        backward.append(at)
        at = bare.rfind(delimiter, 0, at)
    return forward != backward[::-1]


def _quoted_end(data: bytes, at: int, quote: bytes) -> int:
    end = at + 1
    while (end := data.find(quote, end)) >= 0:
        if not data.startswith(quote, end + 1):
            return end + 1
        end += 2
    raise CutError


def _bare_end(data: bytes, at: int, options: CsvOptions) -> int:
    """The end of a field without quotes: the delimiter or line end after it, or a backslash that escapes nothing."""
    ends = _ends_of_bare(options)
    while (found := ends.search(data, at)) is not None:
        if found.lastgroup != "escaped":
            return found.start()
        at = found.end()
    return len(data)


@lru_cache(maxsize=64)
def _ends_of_bare(options: CsvOptions) -> re.Pattern[bytes]:
    """The pattern of what ends a field without quotes. It is searched, not repeated up to there: Python before 3.11.5
    has a fault in possessive repeats that begin with a lookahead, and other repeats take memory for each character."""
    stops = [options.delimiter.encode(), *options.line_ends(), b"\r", b"\n"]
    if options.quote:
        stops.append(options.quote.encode())
    escapes = b"" if options.quote else rb"|\\(?P<escaped>[^\r\n])?"
    return re.compile(b"|".join(re.escape(stop) for stop in stops) + escapes)


def _record_end(data: bytes, at: int, options: CsvOptions) -> int:
    for line_end in options.line_ends():
        if data.startswith(line_end, at):
            return at + len(line_end)
    separators = (*options.line_ends(), options.delimiter.encode())
    rest = data[at : at + max(len(separator) for separator in separators)]
    if rest == b"\\" or any(separator.startswith(rest) for separator in separators):
        raise CutError
    raise MalformedError("a delimiter or a line end after a field", "another character")


def after_broken(data: bytes, at: int, options: CsvOptions) -> int:
    """The position from which reading can continue after a broken record: at the next line that begins as records
    do."""
    if options.quote != '"':
        newline = data.find(b"\n", at)
        return newline + 1 if newline >= 0 else len(data)
    found = _RECORD_START.search(data, at)
    return found.end() if found else len(data)
