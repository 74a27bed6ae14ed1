"""CSV files of the storage sink, a whole block of records at a time, as columns of text.

Enters a file, leave its row changes in batches of bounded size and in file order, exactly as the reference
(`protocols.csv`) tells them. A file that holds anything the reference would report as broken, or that this form
cannot read exactly, raises BulkUnsupported; a file without its end raises NotYetError. What was yielded before the
raise must then be dropped.

How it is exact: Arrow's CSV reader accepts more than the format allows, so each block is first matched as a whole
against the format's grammar (RE2: one pass, no backtracking), and only then cut into columns. Without a quote
character the escapes are first swapped for bytes that the block does not hold, and splitting is then plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.csv import COMMIT_TS_PATTERN, CsvOptions, header_bytes, leading_fields
from ticdc_assets.protocols.limits import BATCH_BYTES, CSV_HEADER_BYTES_MAX, RECORD_BYTES_MAX
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows
from ticdc_assets.protocols.text_columns import joined_bytes

_NEWLINES: Final = (b"\r\n", b"\n")
_SPARE_BYTES: Final = tuple(bytes([code]) for code in range(1, 32) if code not in b"\t\n\r")
_OPS: Final = pa.array(["I", "U", "D"])


def read_file(
    path: str, options: CsvOptions, columns: tuple[str, ...], where: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of a file; `columns` are the table's stored columns in order."""
    with Path(path).open("rb") as stream:
        yield from read_stream(stream, options, columns, where, batch_bytes)


def read_stream(
    stream: BinaryIO,
    options: CsvOptions,
    columns: tuple[str, ...],
    where: str,
    batch_bytes: int = BATCH_BYTES,
    name: tuple[str, str] | None = None,
) -> Iterator[RawRows]:
    """The row changes of an opened file, which is read once from its start to its end.

    With the `name` (schema and table) that the file is of, records of another table and halves of an update without
    the other half are left to the reference, which can say where they are.
    """
    _check_options(options, where)
    line, held, source = 0, None, None
    for block in _blocks(stream, options, where, batch_bytes):
        try:
            fields = _fields(block, options, len(columns), where)
            source = _one_source(fields, source, where)
            _check_name(source, name, where)
            records = _records(fields, options, len(columns), line, where)
        except pa.ArrowInvalid:  # its text would quote the row
            raise _unsupported(where, "records of unequal length, or text that is not UTF-8") from None
        line += len(records)
        if options.output_old_value:
            records, held = _hold_last_half(records, held)
            _check_halves(records, name, where)
        if len(records):
            yield _rows(records, options, columns)
    if held is not None:
        _check_halves(held, name, where)
        yield _rows(held, options, columns)


def _check_options(options: CsvOptions, where: str) -> None:
    if len(options.quote.encode()) > 1 or options.terminator.encode() not in _NEWLINES:
        raise _unsupported(where, "a quote or terminator that only the reference knows")


def _blocks(stream: BinaryIO, options: CsvOptions, where: str, batch_bytes: int) -> Iterator[bytes]:
    """The file in blocks that end where a record ends, without its header."""
    quote = options.quote.encode()
    more = stream.read(max(batch_bytes, CSV_HEADER_BYTES_MAX))
    header_end = more.find(b"\n", 0, CSV_HEADER_BYTES_MAX) + 1
    if header_bytes(more[: header_end or CSV_HEADER_BYTES_MAX]) > 0:
        if not header_end:
            raise _not_yet(where)
        more = more[header_end:] or stream.read(batch_bytes)
    begun: list[bytes] = []
    is_quoted = False
    while more:
        end = _last_record_end(more, quote, is_quoted)
        # At the end of a record nothing is quoted.
        is_quoted = _is_odd(more, quote, end, len(more)) != (is_quoted and not end)
        if end:
            block = more if end == len(more) else more[:end]
            yield b"".join([*begun, block]) if begun else block
            begun = []
        if end < len(more):
            begun.append(more[end:])
        if sum(map(len, begun)) > RECORD_BYTES_MAX:
            raise _unsupported(where, "a record without an end")
        more = stream.read(batch_bytes)
    rest = b"".join(begun)
    if rest and (is_quoted or not rest.endswith(b"\n")):
        raise _not_yet(where)
    if rest:
        yield rest


def _is_odd(data: bytes, quote: bytes, begin: int, end: int) -> bool:
    return bool(quote) and data.count(quote, begin, end) % 2 == 1


def _last_record_end(data: bytes, quote: bytes, is_quoted: bool) -> int:
    """Where the last record in the data ends, 0 where none does; `is_quoted` where they begin inside a quoted field."""
    end = data.rfind(b"\n") + 1
    is_quoted = is_quoted != _is_odd(data, quote, 0, end)
    while is_quoted and end:
        before = data.rfind(b"\n", 0, end - 1) + 1
        is_quoted = is_quoted != _is_odd(data, quote, before, end)
        end = before
    return end


def _fields(block: bytes, options: CsvOptions, columns: int, where: str) -> list[pa.Array]:
    """The fields of a block's records by position, as text; what may be the handle key as bytes."""
    if options.quote:
        fields = _quoted_fields(block, options, options.leading_fields(True) + columns, where)
    else:
        fields = _bare_fields(block, options, where)
    handle_key = options.leading_fields(False) if options.output_handle_key else -1
    return [field if position == handle_key else field.cast(pa.string()) for position, field in enumerate(fields)]


def _quoted_fields(block: bytes, options: CsvOptions, width_max: int, where: str) -> list[pa.Array]:
    delimiter = options.delimiter.encode()
    spare = b""
    if len(delimiter) > 1:
        spare = _spare_byte(block, where)
        block = block.replace(delimiter, spare)
    grammar = _quoted_grammar(spare or delimiter, options.quote.encode())
    whole = pa.Array.from_buffers(
        pa.large_binary(), 1, [None, pa.array([0, len(block)]).buffers()[1], pa.py_buffer(block)]
    )
    if not pc.match_substring_regex(whole, grammar)[0].as_py():
        raise _unsupported(where, "a block outside the format's grammar")
    table = _arrow_read(block, (spare or delimiter).decode(), options, width_max)
    fields = [_whole(column) for column in table.columns]
    return _restored(fields, [(spare, delimiter)]) if spare else fields


def _whole(column: pa.ChunkedArray) -> pa.Array:
    # To combine one chunk with nothing copies it.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@lru_cache(maxsize=64)
def _quoted_grammar(delimiter: bytes, quote: bytes) -> str:
    d, q = (re.escape(byte.decode("latin-1")) for byte in (delimiter, quote))
    field = rf"(?:{q}(?:[^{q}]|{q}{q})*{q}|[^{q}{d}\r\n]*)"
    return rf"\A(?:{field}(?:{d}{field})*\r?\n)*\z"


def _arrow_read(block: bytes, delimiter: str, options: CsvOptions, width_max: int) -> pa.Table:
    names = [f"f{position}" for position in range(width_max)]
    return arrow_csv.read_csv(
        pa.BufferReader(block),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, autogenerate_column_names=True
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=delimiter,
            quote_char=options.quote,
            double_quote=True,
            escape_char=False,
            newlines_in_values=True,
            ignore_empty_lines=False,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[options.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _bare_fields(block: bytes, options: CsvOptions, where: str) -> list[pa.Array]:
    block = block.replace(b"\r\n", b"\n")
    if b"\r" in block:
        raise _unsupported(where, "a line end in the middle of a record")
    null = options.null.encode()
    swapped = []
    for escape, character in _escapes(options.delimiter):
        if escape in block:
            spare = _spare_byte(block + null, where)
            block, null = block.replace(escape, spare), null.replace(escape, spare)
            swapped.append((spare, character))
    fields = _split(block, options.delimiter.encode())
    is_null = [pc.equal(field, pa.scalar(null, pa.binary())) for field in fields]
    nulls = sum(pc.sum(mask).as_py() for mask in is_null)
    if block.count(b"\\") != nulls * null.count(b"\\"):
        raise _unsupported(where, "an unknown escape")
    nothing = pa.scalar(None, pa.binary())
    return [pc.if_else(mask, nothing, f) for mask, f in zip(is_null, _restored(fields, swapped), strict=True)]


def _escapes(delimiter: str) -> list[tuple[bytes, bytes]]:
    letters = [(b"\\r", b"\r"), (b"\\n", b"\n")]
    return [(b"\\\\", b"\\"), *letters, *((b"\\" + c.encode(), c.encode()) for c in delimiter)]


def _split(block: bytes, delimiter: bytes) -> list[pa.Array]:
    lines = pa.array(block.split(b"\n")[:-1], pa.binary())
    parts = pc.split_pattern(lines, delimiter)
    width = len(parts[0])
    if pc.any(pc.not_equal(pc.list_value_length(parts), width)).as_py():
        raise pa.ArrowInvalid
    flat = parts.flatten()
    first = pa.array(range(0, len(flat), width), pa.int64())
    return [flat.take(pc.add(first, position)) for position in range(width)]


def _spare_byte(block: bytes, where: str) -> bytes:
    spare = next((byte for byte in _SPARE_BYTES if byte not in block), None)
    if spare is None:
        raise _unsupported(where, "every control character")
    return spare


def _restored(fields: list[pa.Array], swapped: list[tuple[bytes, bytes]]) -> list[pa.Array]:
    return [_with_characters(field, swapped) for field in fields]


def _with_characters(field: pa.Array, swapped: list[tuple[bytes, bytes]]) -> pa.Array:
    for spare, character in swapped:
        if spare in joined_bytes(field):
            field = pc.replace_substring(field, spare, character)
    return field


def _one_source(fields: list[pa.Array], source: list[str] | None, where: str) -> list[str]:
    """Table and schema of the records, which must be those of the blocks before."""
    names = [field.unique().to_pylist() for field in fields[1:3]]
    found = [only[0] for only in names if len(only) == 1 and only[0]]
    if len(found) != 2 or found != (source or found):
        raise _unsupported(where, "records of more than one table")
    return found


def _check_name(source: list[str], name: tuple[str, str] | None, where: str) -> None:
    if name is not None and [source[1].lower(), source[0].lower()] != [part.lower() for part in name]:
        raise _unsupported(where, "records of another table")


def _check_halves(records: pa.Table, name: tuple[str, str] | None, where: str) -> None:
    if name is None or not len(records):
        return
    op, is_update, commit_ts = (records[field].combine_chunks() for field in ("op", "is_update", "commit_ts"))
    pairs = pc.sum(_pairs(op, is_update, commit_ts)).as_py() or 0
    if (pc.sum(is_update).as_py() or 0) != 2 * pairs:
        raise _unsupported(where, "half of an update")


def _records(fields: list[pa.Array], options: CsvOptions, columns: int, line: int, where: str) -> pa.Table:
    """op, commit_ts, is_update, line, then the columns by position."""
    leading = leading_fields(len(fields), options, columns)
    if leading is None:
        raise _unsupported(where, f"{len(fields)} fields where {columns} are columns")
    op = fields[0]
    if not _all(pc.is_in(op, _OPS)):
        raise _unsupported(where, "an unknown operation")
    records = len(op)
    commit_ts = _commit_ts(fields[3], where) if options.include_commit_ts else pa.nulls(records, pa.int64())
    is_update = pa.nulls(records, pa.bool_())
    if options.output_old_value:
        is_update = _is_update(fields[options.leading_fields(False) - 1], where)
    ordinals = pa.array(range(line, line + records), pa.int64())
    wire = [field.cast(pa.string()) for field in fields[leading:]]
    names = ["op", "commit_ts", "is_update", "line", *(str(position) for position in range(columns))]
    return pa.table([op, commit_ts, is_update, ordinals, *wire], names=names)


def _commit_ts(texts: pa.Array, where: str) -> pa.Array:
    if not _all(pc.match_substring_regex(texts, rf"\A{COMMIT_TS_PATTERN}\z")):
        raise _unsupported(where, "no commit-ts")
    return texts.cast(pa.int64())


def _is_update(texts: pa.Array, where: str) -> pa.Array:
    if not _all(pc.is_in(texts, pa.array(["true", "false"]))):
        raise _unsupported(where, "no is-update")
    return pc.equal(texts, "true")


def _all(mask: pa.Array) -> bool:
    return mask.null_count == 0 and bool(pc.all(mask).as_py())


def _hold_last_half(records: pa.Table, held: pa.Table | None) -> tuple[pa.Table, pa.Table | None]:
    """Keeps a trailing old half back, whose new half may begin the next block."""
    if held is not None:
        records = pa.concat_tables([held, records])
    last = len(records) - 1
    if records["op"][last].as_py() == "D" and records["is_update"][last].as_py():
        return records.slice(0, last), records.slice(last)
    return records, None


def _rows(records: pa.Table, options: CsvOptions, columns: tuple[str, ...]) -> RawRows:
    op, commit_ts, is_update, line, *wire = (_whole(column) for column in records.columns)
    unknown = pa.nulls(len(op), pa.int64())
    rows = RawRows(op, commit_ts, unknown, line, columns, tuple(wire))
    return _paired(rows, is_update) if options.output_old_value else rows


def _paired(rows: RawRows, is_update: pa.Array) -> RawRows:
    """Each old half that adjoins its new half becomes the latter's `before`."""
    pairs = _pairs(rows.op, is_update, rows.commit_ts)
    no = pa.array([False])
    is_new, is_old = pa.concat_arrays([no, pairs]), pa.concat_arrays([pairs, no])
    position = pa.array(range(len(rows)), pa.int64())
    old_position = pc.if_else(is_new, pc.subtract(position, 1), pa.scalar(None, pa.int64()))
    kept = pc.invert(is_old)
    old_position = old_position.filter(kept)
    return RawRows(
        op=pc.if_else(is_new, "U", rows.op).filter(kept),
        commit_ts=rows.commit_ts.filter(kept),
        commit_ms=rows.commit_ms.filter(kept),
        line=rows.line.filter(kept),
        columns=rows.columns,
        wire=tuple(array.filter(kept) for array in rows.wire),
        before=tuple(array.take(old_position) for array in rows.wire),
        has_before=is_new.filter(kept),
    )


def _pairs(op: pa.Array, is_update: pa.Array, commit_ts: pa.Array) -> pa.Array:
    """For every record but the last, whether it and the next are the halves of one update."""
    old = pc.and_(is_update, pc.equal(op, "D"))
    new = pc.and_(is_update, pc.equal(op, "I"))
    pairs = pc.and_(old[:-1], new[1:])
    if commit_ts.null_count == 0:
        pairs = pc.and_(pairs, pc.equal(commit_ts[:-1], commit_ts[1:]))
    return pairs


def _unsupported(where: str, found: str) -> BulkUnsupported:
    return BulkUnsupported(where, "a file that the bulk form reads exactly", found, "Read it with the reference form.")


def _not_yet(where: str) -> NotYetError:
    return NotYetError(where, "a file that ends with a whole record", "the start of one", "Wait for the writer.")
