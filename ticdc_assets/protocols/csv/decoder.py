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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete
from ticdc_assets.protocols.csv.options import CsvOptions, MalformedError, without_backslashes
from ticdc_assets.protocols.csv.records import BARE, CutError, after_broken, fields_at, header_bytes
from ticdc_assets.protocols.events import Op, RowEvent

COMMIT_TS_MAX: Final = (1 << 63) - 1
COMMIT_TS_PATTERN: Final = "[0-9]{1,19}"

_OPS: Final = frozenset({"I", "U", "D"})
_DIGITS: Final = re.compile(COMMIT_TS_PATTERN.encode())
_ADVICE: Final = (
    "Compare the csv options and column-selectors of the changefeed with those configured here; the record is kept as "
    "it is."
)


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
            raw, end = fields_at(data, at, options)
        except CutError:
            yield Incomplete(line)
            return
        except MalformedError as fault:
            end = after_broken(data, at, options)
            yield BadRecord(line, data[at:end], _error(f"{where}, record {line}", *fault.args))
        else:
            yield _understood(data[at:end], raw, options, fields, line, where)
        at, line = end, line + 1


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


def _understood(
    whole: bytes, raw: list[tuple[bytes, bool]], options: CsvOptions, fields: int, line: int, where: str
) -> CsvRecord | BadRecord:
    try:
        return _meaning(raw, options, fields, line)
    except MalformedError as fault:
        return BadRecord(line, whole, _error(f"{where}, record {line}", *fault.args))


def _meaning(raw: list[tuple[bytes, bool]], options: CsvOptions, fields: int, line: int) -> CsvRecord:
    leading = leading_fields(len(raw), options, fields)
    if leading is None:
        expected = options.leading_fields(options.output_handle_key) + fields
        raise MalformedError(f"{expected} fields, of which {fields} are columns", f"{len(raw)} fields")
    head = [_text(field, options) for field in raw[: options.leading_fields(False)]]
    op, table, schema = head[:3]
    if op not in _OPS or not table or not schema:
        raise MalformedError("an operation I, U or D, a table and a schema", "fields without one of them")
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
        raise MalformedError("a commit-ts", "something else; is include-commit-ts set as in the changefeed?")
    return int(digits)


def _is_update(word: str | None) -> bool:
    if word not in ("true", "false"):
        raise MalformedError("is-update true or false", "something else; is output-old-value set as in the changefeed?")
    return word == "true"


def _value(field: tuple[bytes, bool], options: CsvOptions) -> str | None:
    """The text of a column's field. With a quote character, TiCDC quotes all texts. So a bare text shows that `quote`
    or `null` differs from that of the changefeed."""
    content, quoted = field
    if options.quote and not quoted and content != options.null.encode() and not BARE.match(content):
        raise MalformedError("a quoted text, a number or NULL", "a bare text")
    return _text(field, options)


def _text(field: tuple[bytes, bool], options: CsvOptions) -> str | None:
    content, quoted = field
    if not quoted and content == options.null.encode():
        return None
    try:
        return _unescaped(content, quoted, options).decode()
    except UnicodeDecodeError as error:
        raise MalformedError("UTF-8", "other bytes") from error


def _unescaped(content: bytes, quoted: bool, options: CsvOptions) -> bytes:
    if quoted:
        quote = options.quote.encode()
        return content.replace(quote * 2, quote)
    return content if options.quote else without_backslashes(content, options.delimiter)


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
