"""The reference decoder of CSV files of the storage sink.

It reads the records of a file in order and joins a DELETE and an INSERT that TiCDC marked as halves of one update. A
broken record is reported with its bytes, and reading continues after it; an incomplete file is reported as such.

A record is `op, table, schema, [commit-ts], [is-update], [handle key], columns...`. With a quote character, strings
are quoted, quotes in them doubled, and line ends in them stand raw; a bare field is a number, or NULL where it equals
the null text.
Without one, backslash escapes CR, LF, itself and the delimiter, so that a raw line end ends the record. A delimiter
such as `||`, whose beginning is also its end, may then stand at several places of a record: `a|||b` is `a|`, `b` and
`a`, `|b`. Such a record is broken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.values.text import NUMBER, TextForms

HEADER_START: Final = b"ticdc-meta$operation"
"""The beginning of a header line. No record begins so, since its first field is I, U or D."""

COMMIT_TS_MAX: Final = (1 << 63) - 1
COMMIT_TS_PATTERN: Final = "[0-9]{1,19}"

_OPS: Final = frozenset({"I", "U", "D"})
_DIGITS: Final = re.compile(COMMIT_TS_PATTERN.encode())
_RECORD_START: Final = re.compile(rb'\n(?="[IUD]")')
_NEWLINES: Final = (b"\r\n", b"\n")
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_BARE: Final = re.compile(rb"-?[0-9]|(?:true|false)\Z")
"""The beginning of what has no quotes although there is a quote: numbers, and whether a record is half of an update."""
_ADVICE: Final = (
    "Compare the csv options and column-selectors of the changefeed with those configured here; the record is kept as "
    "it is."
)
_NULL_ADVICE: Final = (
    "Files of such a changefeed do not show which values are NULL: give the changefeed another `null`, such as \\N, "
    "and read the new files in a changefeed of another name, with another `target`."
)
_SHARED_ADVICE: Final = (
    "Compare the row with the source: `ticdc-assets replay` takes the record with each character of the delimiter in "
    "its values after a backslash. A quote, or a delimiter of one character, in the changefeed avoids such records."
)
_TERMINATOR_ADVICE: Final = (
    "Files of such a changefeed do not show where a record ends: give the changefeed a quote or another terminator, "
    "and read the new files in a changefeed of another name, with another `target`."
)


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
        if not self.quote and _ESCAPE.sub(b"", self.null.encode()).endswith(b"\\"):
            return False
        marks = ("\r", "\n", self.delimiter, self.terminator, *self.quote)
        return not any(mark in self.null for mark in marks)

    @property
    def null_may_be_text(self) -> bool:
        """Whether a text can stand in the file as NULL does: without a quote, if the text of NULL needs no escape."""
        if self.quote:
            return False
        try:
            _without_backslashes(self.null.encode(), self.delimiter)
        except _MalformedError:
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


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One record as written; `line` is its ordinal among the file's records, `fields` its columns, None for NULL."""

    line: int
    op: str
    table: str
    schema: str
    commit_ts: int | None
    is_update: bool
    fields: tuple[str | None, ...]


def read(data: bytes, options: CsvOptions, fields: int, where: str) -> Iterator[CsvRecord | BadRecord | Incomplete]:
    """The records of a whole file; `fields` is the number of the table's stored columns."""
    at, line = header_bytes(data), 0
    if at and not data[:at].endswith(b"\n"):
        yield Incomplete(line)
        return
    while at < len(data):
        try:
            raw, end = _record(data, at, options)
        except _CutError:
            yield Incomplete(line)
            return
        except _MalformedError as fault:
            end = _after_broken(data, at, options)
            yield BadRecord(line, data[at:end], _error(f"{where}, record {line}", *fault.args))
        else:
            yield _understood(data[at:end], raw, options, fields, line, where)
        at, line = end, line + 1


def first_fields(data: bytes, options: CsvOptions) -> list[tuple[bytes, bool]] | None:
    """The raw fields of the first record, each with whether it is quoted; None if there is no whole record."""
    try:
        return _record(data, header_bytes(data), options)[0]
    except (_CutError, _MalformedError):
        return None


def bare_texts(data: bytes, options: CsvOptions) -> set[bytes]:
    """The contents of bare fields that are no numbers, in the records before the first that is cut or broken: where
    there is a quote, TiCDC writes only NULL so."""
    found: set[bytes] = set()
    at = header_bytes(data)
    while options.quote and at < len(data):
        try:
            fields, at = _record(data, at, options)
        except (_CutError, _MalformedError):
            break
        found |= {content for content, quoted in fields if not quoted and not _BARE.match(content)}
    return found


def record_bytes(data: bytes, options: CsvOptions, lines: Collection[int]) -> dict[int, bytes]:
    """The bytes of the records with these ordinals, as `read` counts them."""
    found: dict[int, bytes] = {}
    at, line = header_bytes(data), 0
    while at < len(data) and len(found) < len(lines):
        try:
            _, end = _record(data, at, options)
        except _CutError:
            break
        except _MalformedError:
            end = _after_broken(data, at, options)
        if line in lines:
            found[line] = data[at:end]
        at, line = end, line + 1
    return found


def changes(
    records: Iterable[CsvRecord | BadRecord | Incomplete], columns: tuple[str, ...]
) -> Iterator[tuple[int, RowEvent] | BadRecord | Incomplete]:
    """The row changes of a file's records, each with its line; update halves that are not adjacent are not joined."""
    old: CsvRecord | None = None
    for record in records:
        if isinstance(record, CsvRecord) and old is not None and are_halves(old, record):
            yield record.line, _row(record, columns, old)
            old = None
            continue
        if old is not None:
            yield old.line, _row(old, columns)
            old = None
        if isinstance(record, CsvRecord) and record.op == "D" and record.is_update:
            old = record
        else:
            yield (record.line, _row(record, columns)) if isinstance(record, CsvRecord) else record
    if old is not None:
        yield old.line, _row(old, columns)


def are_halves(old: CsvRecord, new: CsvRecord) -> bool:
    """Whether two adjacent records are the two halves of one update."""
    marked = old.is_update and new.is_update and (old.op, new.op) == ("D", "I")
    return marked and (old.schema, old.table, old.commit_ts) == (new.schema, new.table, new.commit_ts)


def is_complete(tail: bytes, options: CsvOptions) -> bool:
    """Whether a file that ends with `tail` may be complete; a line end inside quotes looks like that of a record."""
    return not tail or tail.endswith(options.line_ends())


def header_bytes(data: bytes) -> int:
    """The length in bytes of the header line at the start of the data; 0 if there is none."""
    return data.find(b"\n") + 1 or len(data) if data.startswith(HEADER_START) else 0


class _CutError(Exception):
    """Raised where the data end inside a record."""


class _MalformedError(Exception):
    """Raised where a record breaks the format; the arguments are what was expected and found, and advice of its own."""


def _record(data: bytes, at: int, options: CsvOptions) -> tuple[list[tuple[bytes, bool]], int]:
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
            raise _MalformedError("fields that only one reading gives", found, _SHARED_ADVICE)
        return fields, _record_end(data, end, options)


def has_other_fields(record: bytes, delimiter: bytes) -> bool:
    """Whether as many fields can be read if delimiters are searched from the end: if not, there is one reading only."""
    bare = _ESCAPE.sub(b"\n\n", record)
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
    raise _CutError


def _bare_end(data: bytes, at: int, options: CsvOptions) -> int:
    """Where a field without quotes ends: at what stops it, or at a backslash that has nothing to escape."""
    ends = _ends_of_bare(options)
    while (found := ends.search(data, at)) is not None:
        if found.lastgroup != "escaped":
            return found.start()
        at = found.end()
    return len(data)


@lru_cache(maxsize=64)
def _ends_of_bare(options: CsvOptions) -> re.Pattern[bytes]:
    """What ends such a field. A search and no repeat: Python before 3.11.5 matches possessive ones wrongly that begin
    with a lookahead, and others take memory for each character."""
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
        raise _CutError
    raise _MalformedError("a delimiter or a line end after a field", "another character")


def _after_broken(data: bytes, at: int, options: CsvOptions) -> int:
    """The position from which reading can continue after a broken record: at the next line that begins as records
    do."""
    if options.quote != '"':
        newline = data.find(b"\n", at)
        return newline + 1 if newline >= 0 else len(data)
    found = _RECORD_START.search(data, at)
    return found.end() if found else len(data)


def _understood(
    whole: bytes, raw: list[tuple[bytes, bool]], options: CsvOptions, fields: int, line: int, where: str
) -> CsvRecord | BadRecord:
    try:
        return _meaning(raw, options, fields, line)
    except _MalformedError as fault:
        return BadRecord(line, whole, _error(f"{where}, record {line}", *fault.args))


def _meaning(raw: list[tuple[bytes, bool]], options: CsvOptions, fields: int, line: int) -> CsvRecord:
    leading = leading_fields(len(raw), options, fields)
    if leading is None:
        expected = options.leading_fields(options.output_handle_key) + fields
        raise _MalformedError(f"{expected} fields, of which {fields} are columns", f"{len(raw)} fields")
    head = [_text(field, options) for field in raw[: options.leading_fields(False)]]
    op, table, schema = head[:3]
    if op not in _OPS or not table or not schema:
        raise _MalformedError("an operation I, U or D, a table and a schema", "fields without one of them")
    return CsvRecord(
        line,
        op,
        table,
        schema,
        commit_ts=_commit_ts(raw[3][0]) if options.include_commit_ts else None,
        is_update=_is_update(head[-1]) if options.output_old_value else False,
        fields=tuple(_value(field, options) for field in raw[leading:]),
    )


def leading_fields(found: int, options: CsvOptions, fields: int) -> int | None:
    """How many fields of a record of `found` fields stand before the columns, None where the numbers disagree.

    Newer TiCDC servers accept output-handle-key but write no handle key.
    """
    for with_handle_key in (True, False) if options.output_handle_key else (False,):
        if found == options.leading_fields(with_handle_key) + fields:
            return found - fields
    return None


def _commit_ts(digits: bytes) -> int:
    if _DIGITS.fullmatch(digits) is None or int(digits) > COMMIT_TS_MAX:
        raise _MalformedError("a commit-ts", "something else; is include-commit-ts set as in the changefeed?")
    return int(digits)


def _is_update(word: str | None) -> bool:
    if word not in ("true", "false"):
        raise _MalformedError(
            "is-update true or false", "something else; is output-old-value set as in the changefeed?"
        )
    return word == "true"


def _value(field: tuple[bytes, bool], options: CsvOptions) -> str | None:
    """The text of a column's field. Texts are quoted where there is a quote, so that another bare one tells that
    `quote` or `null` is not that of the changefeed."""
    content, quoted = field
    if options.quote and not quoted and content != options.null.encode() and not _BARE.match(content):
        raise _MalformedError("a quoted text, a number or NULL", "a bare text")
    return _text(field, options)


def _text(field: tuple[bytes, bool], options: CsvOptions) -> str | None:
    content, quoted = field
    if not quoted and content == options.null.encode():
        return None
    try:
        return _unescaped(content, quoted, options).decode()
    except UnicodeDecodeError as error:
        raise _MalformedError("UTF-8", "other bytes") from error


def _unescaped(content: bytes, quoted: bool, options: CsvOptions) -> bytes:
    if quoted:
        quote = options.quote.encode()
        return content.replace(quote * 2, quote)
    return content if options.quote else _without_backslashes(content, options.delimiter)


def _without_backslashes(content: bytes, delimiter: str) -> bytes:
    parts = content.split(b"\\\\")
    return b"\\".join(_without_escapes(part, delimiter) for part in parts)


def _without_escapes(part: bytes, delimiter: str) -> bytes:
    part = part.replace(b"\\r", b"\r").replace(b"\\n", b"\n")
    for character in delimiter:
        part = part.replace(b"\\" + character.encode(), character.encode())
    for byte in delimiter.encode():  # TiCDC escapes the bytes of a delimiter and writes each as a character
        part = part.replace(b"\\" + chr(byte).encode(), bytes([byte]))
    if b"\\" in part:
        raise _MalformedError("a backslash before CR, LF, a backslash or the delimiter", "another one")
    return part


def _row(record: CsvRecord, columns: tuple[str, ...], old: CsvRecord | None = None) -> RowEvent:
    return RowEvent(
        schema=record.schema,
        table=record.table,
        op=Op.UPDATE if old is not None else Op(record.op),
        commit_ts=record.commit_ts,
        wire=dict(zip(columns, record.fields, strict=True)),
        before=None if old is None else dict(zip(columns, old.fields, strict=True)),
    )


def _error(where: str, expected: str, found: str, advice: str = _ADVICE) -> DecodeError:
    return DecodeError(where, expected, found, advice)


def _require(
    holds: bool, option: str, expected: str, found: str, advice: str = "Copy the option from the changefeed."
) -> None:
    if not holds:
        raise ConfigError(f"csv {option}", expected, repr(found), advice)
