"""The bulk decoders of Canal-JSON, for files of the storage sink and for messages on Kafka, and the form of TiCDC's row
changes in both.

`read_stream` yields the row changes of a file in batches of bounded size, in file order, equal to those of the
reference decoder (`canal_json.decoder`). A file with anything but row changes of one table in TiCDC's form and with the
given columns raises BulkUnsupported, an incomplete file NotYetError. The caller then drops the batches yielded before.
Of messages, `BULK` decodes whole rows in TiCDC's form, with one row per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from typing import Any, Final

import numpy as np

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.canal_json.decoder import OPS
from ticdc_assets.protocols.canal_json.messages import column
from ticdc_assets.protocols.columnar.json_messages import RowGrammar
from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.columnar.raw_rows import JoinedRows, RawRows, unsupported
from ticdc_assets.protocols.columnar.scanned_rows import (
    COMMIT_MS,
    COMMIT_TS,
    HAS_OLD,
    NEW,
    OLD,
    OP,
    SCHEMA,
    TABLE,
    raw_rows,
    table_names,
)
from ticdc_assets.protocols.formats.json.template import (
    CODES,
    STRINGS,
    STRINGS_OR_NULLS,
    JsonTemplate,
    Steps,
    constant,
    either,
    image,
    literal,
    maybe,
    members,
    number,
    rest,
    text,
    texts,
)
from ticdc_assets.protocols.formats.json.texts import JsonColumnNames, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.formats.lines_and_frames import line_bounds
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.tso import INT64_MAX

_CELLS_MAX: Final = 1 << 20
"""The maximum number of values per scan, at 16 bytes of offsets each; it bounds the memory for wide tables."""
_MS_MAX: Final = INT64_MAX >> 18
_KINDS: Final = [(f'{kind}"'.encode(), constant(OP, ord(op))) for kind, op in OPS.items()]
_EXTENSION: Final[Steps] = (*number(COMMIT_TS), *maybe(b',"rowkey":', text()), *literal(b"}"))
# Canal writes other ids.
_SOURCE: Final[Steps] = (*literal(b'{"id":0,"database":'), *text(SCHEMA), *literal(b',"table":'), *text(TABLE))


def _row(old: Steps, new: Steps, end: Steps) -> JsonTemplate:
    """A whole row change, followed by `end`.

    The types must be well-formed although they are not kept, since no other code checks them.
    """
    return JsonTemplate(
        (
            *_SOURCE,
            *literal(b',"pkNames":'),
            *either([(b"null", ())], texts()),
            *literal(b',"isDdl":false,"type":"'),
            *either(_KINDS),
            *literal(b',"es":'),
            *number(COMMIT_MS, _MS_MAX),
            *literal(b',"ts":'),
            *number(),
            *literal(b',"sql":'),
            *text(),
            *literal(b',"sqlType":'),
            *members(CODES),
            *literal(b',"mysqlType":'),
            *members(STRINGS),
            *literal(b',"old":'),
            *either(
                [
                    (b"null", constant(HAS_OLD, 0)),
                    (b"[", (*old, *literal(b"]"), *constant(HAS_OLD, 1))),
                ]
            ),
            *literal(b',"data":['),
            *new,
            *literal(b"]"),
            *constant(COMMIT_TS, -1),
            *maybe(b',"_tidb":{"commitTs":', _EXTENSION),
            *literal(b"}"),
            *end,
        )
    )


def _row_form(end: Steps = ()) -> JsonTemplate:
    """A row change with its values."""
    return _row(image(OLD, may_be_empty=True), image(NEW), end)


_LINE: Final = _row_form((*maybe(b"\r", ()), *literal(b"\n")))
"""A row change on a line of a file."""
_HEAD: Final = _row(members(STRINGS_OR_NULLS, may_be_empty=True), members(STRINGS_OR_NULLS), ())
"""A row change without its values."""
_BEGINNING: Final = JsonTemplate((*_SOURCE, *rest()))
"""The beginning of a row change, up to the names of its table."""


def read_stream(
    stream: BufferedIOBase,
    columns: tuple[str, ...],
    where: str,
    name: tuple[str, str],
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[RawRows]:
    """The row changes of an open file of the table `name`, which is read once, in blocks of `batch_bytes` bytes."""
    reader = _Reader(columns, where, name)
    line = 0
    for block in _blocks(stream, where, batch_bytes):
        for rows in reader.rows(np.frombuffer(block, np.uint8), line):
            yield rows
            line += len(rows)


def read_joined(blobs: Sequence[bytes], columns: tuple[str, ...], where: str, name: tuple[str, str]) -> JoinedRows:
    """The row changes of several whole files of the table `name`, read as one. `where` names them in errors."""
    ends = np.cumsum([len(blob) for blob in blobs])
    reader, block = _Reader(columns, where, name), np.frombuffer(b"".join(blobs), np.uint8)
    bounds = reader.bounds(block)
    line_ends = np.searchsorted(bounds, ends)
    if line_ends[-1] >= len(bounds) or (bounds[line_ends] != ends).any():
        raise unsupported(where, "a file that ends inside a line")
    return JoinedRows(tuple(reader.rows_between(block, bounds, 0)), line_ends)


def _blocks(stream: BufferedIOBase, where: str, batch_bytes: int) -> Iterator[memoryview]:
    """Blocks of whole lines in one reused buffer; a block is valid until the next one is requested."""
    # With a new buffer per block, the system would spend more time clearing pages than reading.
    buffer, held = bytearray(batch_bytes), 0
    while more := stream.readinto(memoryview(buffer)[held:]):
        end = buffer.rfind(b"\n", held, held + more) + 1
        if end:
            yield memoryview(buffer)[:end]
        held += more - end
        rest = buffer[end : end + held]
        if held > RECORD_BYTES_MAX:
            raise unsupported(where, "a line without an end")
        if 2 * held > len(buffer):
            buffer = bytearray(2 * len(buffer))
        buffer[:held] = rest
    if held:
        raise NotYetError(where, "a file that ends with a whole line", "the start of one", "Wait for the writer.")


class _Reader:
    """Reads blocks of one file."""

    def __init__(self, columns: tuple[str, ...], where: str, source: tuple[str, str]) -> None:
        self._columns = columns
        self._where = where
        self._source = source
        self._names = JsonColumnNames.of(columns)

    def rows(self, block: Bytes, line: int) -> Iterator[RawRows]:
        """The row changes of a block of lines; `line` is the ordinal of the first one in the file."""
        return self.rows_between(block, self.bounds(block), line)

    def bounds(self, block: Bytes) -> Ints:
        """The offset of each line of a block, and the end of the last."""
        bounds = line_bounds(block)
        if bounds is None:
            raise unsupported(self._where, "bytes that are not UTF-8")
        return bounds

    def rows_between(self, block: Bytes, bounds: Ints, line: int) -> Iterator[RawRows]:
        """The row changes of the lines with these bounds; `line` is the ordinal of the first one."""
        lines_max = max(1, _CELLS_MAX // max(1, len(self._columns)))
        for first in range(0, len(bounds) - 1, lines_max):
            yield self._rows(block, bounds[first : first + lines_max + 1], line + first)

    def _rows(self, block: Bytes, bounds: Ints, line: int) -> RawRows:
        found, self._names = scan_texts(block, bounds[:-1], bounds[1:], _LINE, self._names)
        if len(found) < len(bounds) - 1:
            raise unsupported(self._where, "lines of another form, or columns that the schema does not have")
        if table_names(block, found.strings)[0] != (self._source,):
            raise unsupported(self._where, "rows of another table")
        return raw_rows(block, found, self._columns, np.arange(line, line + len(found)))


# -- messages ---------------------------------------------------------------------------------------------------------


def _columns(message: Any) -> Iterable[str]:
    names: Iterable[str] = message["data"][0].keys()
    return names


def _is_sound(found: ScannedTexts, options: DecoderOptions) -> Mask:
    """The rows with a commit_ts if all rows must have one, else all rows."""
    return np.asarray(found.numbers[:, COMMIT_TS] >= (0 if options.has_commit_ts else -1))


_GRAMMAR: Final = RowGrammar(_row_form(), _HEAD, _BEGINNING, _columns, _is_sound)
BULK: Final = Bulk(_GRAMMAR.heads, _GRAMMAR.rows, column)
