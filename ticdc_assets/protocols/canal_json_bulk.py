"""Canal-JSON files of the storage sink, a whole block of lines at a time, as columns of text.

Enters a file, leave its row changes in batches of bounded size and in file order, exactly as the reference
(`protocols.canal_json`) tells them. A file that holds anything else than TiCDC's own form of row changes of the one
table, with no columns but those given, raises BulkUnsupported; a file without its end raises NotYetError. What was
yielded before the raise must then be dropped.

How it is exact: DuckDB parses JSON but lets numbers pass as text, unknown members vanish and trailing commas stand.
So each line is first matched as a whole against the form that TiCDC writes (RE2: one pass, no backtracking), with as
many members in a row as the block's first row has; DuckDB then refuses a row that lacks one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.canal_json import INT64_MAX
from ticdc_assets.protocols.canal_json_cut import without_types
from ticdc_assets.protocols.canal_json_form import extension_form, row_form
from ticdc_assets.protocols.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows

_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_VALUE: Final = rf"(?:{_TEXT}|null)"
_EXTENSION: Final = b',"_tidb":{"commitTs":'
_VIEW: Final = "ticdc_canal_json_lines"
_MEMBERS_MAX: Final = 300
"""Above it RE2 counts ten times slower; such wide rows are read as maps."""


def read_file(
    path: str,
    columns: tuple[str, ...],
    where: str,
    schema: str,
    table: str,
    batch_bytes: int = BATCH_BYTES,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[RawRows]:
    """The row changes of a file of `schema`.`table`; `columns` are the table's stored columns.

    To open a DuckDB connection costs as much as to read a few thousand rows: give one where there are many files.
    """
    with Path(path).open("rb") as stream:
        yield from read_stream(stream, columns, where, schema, table, batch_bytes, connection)


def read_stream(
    stream: BufferedIOBase,
    columns: tuple[str, ...],
    where: str,
    schema: str,
    table: str,
    batch_bytes: int = BATCH_BYTES,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[RawRows]:
    """The row changes of an opened file, which is read once from its start to its end."""
    if connection is None:
        with duckdb.connect(config={"threads": 1}) as own:
            yield from read_stream(stream, columns, where, schema, table, batch_bytes, own)
        return
    reader = _Reader(connection, columns, where, (schema, table))
    line = 0
    for block in _blocks(stream, where, batch_bytes):
        rows = reader.rows(_lines(block), line)
        yield rows
        line += len(rows)


def _blocks(stream: BufferedIOBase, where: str, batch_bytes: int) -> Iterator[memoryview]:
    """Whole lines, in one buffer: a block is there until the next is asked for."""
    # A fresh buffer for every block would cost more in pages that the system clears than in the reading.
    buffer, held = bytearray(batch_bytes), 0
    while more := stream.readinto(memoryview(buffer)[held:]):
        end = buffer.rfind(b"\n", held, held + more) + 1
        if end:
            yield memoryview(buffer)[:end]
        held += more - end
        rest = buffer[end : end + held]
        if held > RECORD_BYTES_MAX:
            raise _unsupported(where, "a line without an end")
        if 2 * held > len(buffer):
            buffer = bytearray(2 * len(buffer))
        buffer[:held] = rest
    if held:
        raise NotYetError(where, "a file that ends with a whole line", "the start of one", "Wait for the writer.")


def _lines(block: memoryview) -> pa.Array:
    """The lines of a block with their line ends, without a copy."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)])


@dataclass(frozen=True, slots=True)
class _Form:
    """How rows are parsed: with the members that the first row has, or as maps where each row may have others."""

    new_is_regular: bool
    old_is_regular: bool


_FORMS: Final = (_Form(True, True), _Form(True, False), _Form(False, False))
"""What is tried in turn: TiCDC's default, only changed columns in `old`, rows of several shapes."""


class _Reader:
    """Reads blocks of one file; a form that failed once is not tried again."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, columns: tuple[str, ...], where: str, source: tuple[str, str]
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._where = where
        self._source = source
        self._forms = list(_FORMS)

    def rows(self, lines: pa.Array, line: int) -> RawRows:
        """The row changes of a block of lines, the first being the file's line `line`."""
        first = lines[0].as_py()
        members, extended = self._members_of(first), _EXTENSION in first
        while self._forms:
            shape = _Shape(self._forms[0], members, extended)
            if _matches(lines, shape):
                try:
                    return self._assembled(self._parsed(lines, shape), line, shape)
                except (duckdb.Error, UnicodeDecodeError):  # the text would quote the row, and may cut it anywhere
                    pass
            del self._forms[0]
        raise _unsupported(self._where, "lines of another form")

    def _members_of(self, line: bytes) -> tuple[str, ...]:
        """The columns of the first row, in its order."""
        try:
            members = tuple(orjson.loads(line)["data"][0])
        except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
            raise _unsupported(self._where, "a line of another form") from None
        if not members or not set(members) <= set(self._columns):
            raise _unsupported(self._where, "columns that the schema does not have")
        return members

    def _parsed(self, lines: pa.Array, shape: _Shape) -> dict[str, pa.Array]:
        self._connection.register(_VIEW, pa.table({"line": without_types(lines)}))
        try:
            structure = _structure(shape).replace("'", "''")
            query = f"SELECT from_json_strict(line, '{structure}') AS message FROM {_VIEW}"
            parsed = self._connection.sql(query).to_arrow_table()["message"].combine_chunks()
        finally:
            self._connection.unregister(_VIEW)
        return dict(zip([field.name for field in parsed.type], parsed.flatten(), strict=True))

    def _assembled(self, parsed: dict[str, pa.Array], line: int, shape: _Shape) -> RawRows:
        self._check(parsed)
        count = len(parsed["type"])
        op = pc.utf8_slice_codeunits(parsed["type"], 0, 1)
        has_before = pc.and_(parsed["old"].is_valid(), pc.equal(op, "U"))
        new = self._image(parsed["data"].flatten(), shape)
        old = self._image(parsed["old"].filter(has_before).flatten(), shape)
        return RawRows(
            op=op,
            commit_ts=parsed["_tidb"].flatten()[0] if shape.extended else pa.nulls(count, pa.int64()),
            commit_ms=parsed["es"],
            line=pa.array(range(line, line + count), pa.int64()),
            columns=self._columns,
            wire=tuple(values for values, _ in new),
            before=_overlaid(new, old, has_before),
            has_before=has_before,
        )

    def _check(self, parsed: dict[str, pa.Array]) -> None:
        found = [parsed[name].unique().to_pylist() for name in ("database", "table")]
        if found != [[name] for name in self._source]:
            raise _unsupported(self._where, "rows of another table")
        if pc.max(parsed["es"]).as_py() > INT64_MAX >> 18:
            raise _unsupported(self._where, "a time that no TSO has")

    def _image(self, rows: pa.Array, shape: _Shape) -> list[_Sent]:
        """Each column's values, and which rows had it, None where all or none did."""
        if pa.types.is_struct(rows.type):
            values = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
            if set(values) != set(shape.members):  # DuckDB ends a name at a NUL
                raise _unsupported(self._where, "column names that MySQL does not allow")
            nothing = pa.nulls(len(rows), pa.string())
            return [(values.get(name, nothing), None) for name in self._columns]
        found = _in_maps(rows, self._columns)
        if found is None:
            raise _unsupported(self._where, "columns that the schema does not have")
        return found


_Sent = tuple[pa.Array, pa.Array | None]


def _in_maps(rows: pa.Array, columns: tuple[str, ...]) -> list[_Sent] | None:
    """The same of rows as maps, None where one has another column."""
    offsets = rows.offsets.to_numpy()
    keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (rows.keys, rows.items))
    row_of_entry = np.repeat(np.arange(len(rows)), np.diff(offsets))
    known, found = 0, []
    for name in columns:
        entries = np.flatnonzero(pc.equal(keys, name).to_numpy(zero_copy_only=False))
        place = np.full(len(rows), -1)
        place[row_of_entry[entries]] = entries
        found.append((items.take(pa.array(place, mask=place < 0)), pa.array(place >= 0)))
        known += len(entries)
    return found if known == len(keys) else None


def _overlaid(new: list[_Sent], old: list[_Sent], has_before: pa.Array) -> tuple[pa.Array, ...]:
    """The whole old rows: where a column was not sent in `old`, it is as in the new row."""
    ordinal = pc.subtract(pc.cumulative_sum(has_before.cast(pa.int64())), 1)
    place = pc.if_else(has_before, ordinal, pa.scalar(None, pa.int64()))
    before = []
    for (now, _), (values, sent) in zip(new, old, strict=True):
        then = values.take(place)
        if sent is not None:
            then = pc.if_else(pc.fill_null(sent.take(place), True), then, now)
        before.append(then)
    return tuple(before)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the lines of a block look like."""

    form: _Form
    members: tuple[str, ...]
    extended: bool


def _matches(lines: pa.Array, shape: _Shape) -> bool:
    members = len(shape.members)
    if shape.form.new_is_regular and members > _MEMBERS_MAX:
        return False
    matches = pc.match_substring_regex(lines, _grammar(shape.form, members, shape.extended))
    return bool(pc.all(matches).as_py()) and _is_utf8(lines)


def _is_utf8(lines: pa.Array) -> bool:
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


@lru_cache(maxsize=64)
def _grammar(form: _Form, members: int, extended: bool) -> str:
    whole = row_form(_TEXT, _row(form.old_is_regular, members), _row(form.new_is_regular, members))
    return rf"\A{whole}{extension_form(_TEXT) if extended else ''}\}}\r?\n\z"


def _row(regular: bool, members: int) -> str:
    return _object(_VALUE, f"{{{members - 1}}}") if regular else rf"(?:{_object(_VALUE, '*')}|\{{\}})"


def _object(value: str, repeats: str) -> str:
    member = f"{_TEXT}:{value}"
    return rf"\{{{member}(?:,{member}){repeats}\}}"


def _structure(shape: _Shape) -> str:
    regular = [dict.fromkeys(shape.members, "VARCHAR")]
    maps = ["MAP(VARCHAR,VARCHAR)"]
    structure: dict[str, object] = {
        "database": "VARCHAR",
        "table": "VARCHAR",
        "type": "VARCHAR",
        "es": "BIGINT",
        "old": regular if shape.form.old_is_regular else maps,
        "data": regular if shape.form.new_is_regular else maps,
    }
    if shape.extended:
        structure["_tidb"] = {"commitTs": "BIGINT"}
    return orjson.dumps(structure).decode()


def _unsupported(where: str, found: str) -> BulkUnsupported:
    return BulkUnsupported(where, "a file that the bulk form reads exactly", found, "Read it with the reference form.")
