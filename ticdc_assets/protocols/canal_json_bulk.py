"""Canal-JSON files of the storage sink, a whole block of lines at a time, as columns of text.

Enters a file, leave its row changes in batches of bounded size and in file order, exactly as the reference
(`protocols.canal_json`) tells them. A file that holds anything else than TiCDC's own form of row changes of the one
table with the columns given raises BulkUnsupported; a file without its end raises NotYetError. What was yielded
before the raise must then be dropped.

How it is exact: DuckDB parses JSON but lets numbers pass as text, unknown members vanish and trailing commas stand.
So each line is first matched as a whole against the form that TiCDC writes (RE2: one pass, no backtracking), with as
many members in a row as the table has columns; DuckDB then refuses a row that lacks one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.canal_json import INT64_MAX, OPS
from ticdc_assets.protocols.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows

_COUNT: Final = r"(?:0|[1-9][0-9]{0,17})"
_TSO: Final = r"(?:0|[1-9][0-9]{0,18})"
_CODE: Final = r"(?:0|-?[1-9][0-9]{0,8})"
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_TEXTS: Final = rf"(?:null|\[(?:{_TEXT}(?:,{_TEXT})*)?\])"
_VALUE: Final = rf"(?:{_TEXT}|null)"
_TYPE: Final = f"(?:{'|'.join(OPS)})"
_EXTENSION: Final = b',"_tidb":{"commitTs":'
_REPEATS_MAX: Final = 1000
"""RE2's own bound on counted repetition."""


def read_file(
    path: str, columns: tuple[str, ...], where: str, schema: str, table: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of a file of `schema`.`table`; `columns` are the table's stored columns."""
    with Path(path).open("rb") as stream:
        yield from read_stream(stream, columns, where, schema, table, batch_bytes)


def read_stream(
    stream: BinaryIO, columns: tuple[str, ...], where: str, schema: str, table: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of an opened file, which is read once from its start to its end."""
    line = 0
    with duckdb.connect(config={"threads": 1}) as connection:
        reader: _Reader | None = None
        for block in _blocks(stream, where, batch_bytes):
            lines = block.split(b"\n")[:-1]
            if reader is None:
                reader = _Reader(connection, columns, where, (schema, table), extended=_EXTENSION in lines[0])
            yield reader.rows(lines, line)
            line += len(lines)


def _blocks(stream: BinaryIO, where: str, batch_bytes: int) -> Iterator[bytes]:
    rest = b""
    while more := stream.read(batch_bytes):
        rest += more
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        if len(rest) > RECORD_BYTES_MAX:
            raise _unsupported(where, "a line without an end")
    if rest:
        raise NotYetError(where, "a file that ends with a whole line", "the start of one", "Wait for the writer.")


@dataclass(frozen=True, slots=True)
class _Form:
    """How rows are parsed: with all columns at fixed places, or as maps where some columns may be missing."""

    new_is_whole: bool
    old_is_whole: bool


_FORMS: Final = (_Form(True, True), _Form(True, False), _Form(False, False))
"""What is tried in turn: TiCDC's default, only changed columns in `old`, only key columns in a deleted row as well."""


class _Reader:
    """Reads blocks of one file; a form that failed once is not tried again."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: tuple[str, ...],
        where: str,
        source: tuple[str, str],
        extended: bool,
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._where = where
        self._source = source
        self._extended = extended
        self._forms = [form for form in _FORMS if len(columns) <= _REPEATS_MAX or not form.new_is_whole]

    def rows(self, lines: list[bytes], line: int) -> RawRows:
        """The row changes of a block of lines, the first being the file's line `line`."""
        array = pa.array(lines, pa.binary())
        while self._forms:
            if self._matches(array, self._forms[0]):
                try:
                    return self._parsed(array, line, self._forms[0])
                except duckdb.Error:
                    pass
            del self._forms[0]
        raise _unsupported(self._where, "lines of another form, or columns that the schema does not have")

    def _matches(self, lines: pa.Array, form: _Form) -> bool:
        try:
            matches = pc.match_substring_regex(lines, _grammar(form, len(self._columns), self._extended))
        except pa.ArrowInvalid:  # more columns than RE2 can count
            return False
        return bool(pc.all(matches).as_py())

    def _parsed(self, lines: pa.Array, line: int, form: _Form) -> RawRows:
        self._connection.register("lines", pa.table({"line": lines.view(pa.string())}))
        structure = _structure(form, self._columns, self._extended).replace("'", "''")
        query = f"SELECT from_json_strict(line, '{structure}') AS message FROM lines"  # noqa: S608
        parsed = self._connection.sql(query).to_arrow_table()["message"].combine_chunks()
        return self._assembled(dict(zip([f.name for f in parsed.type], parsed.flatten(), strict=True)), line, form)

    def _assembled(self, parsed: dict[str, pa.Array], line: int, form: _Form) -> RawRows:
        self._check(parsed)
        count = len(parsed["type"])
        op = pc.utf8_slice_codeunits(parsed["type"], 0, 1)
        new, _ = self._image(parsed["data"].flatten(), form.new_is_whole)
        has_old = pc.and_(parsed["old"].is_valid(), pc.equal(op, "U"))
        old, sent = self._image(parsed["old"].filter(has_old).flatten(), form.old_is_whole)
        place = pc.subtract(pc.cumulative_sum(has_old.cast(pa.int64())), 1)
        place = pc.if_else(has_old, place, pa.scalar(None, pa.int64()))
        before = tuple(array.take(place) for array in old)
        if sent is not None:
            was_sent = [pc.fill_null(mask.take(place), True) for mask in sent]
            before = tuple(pc.if_else(mask, b, n) for mask, b, n in zip(was_sent, before, new, strict=True))
        return RawRows(
            op=op,
            commit_ts=parsed["_tidb"].flatten()[0] if self._extended else pa.nulls(count, pa.int64()),
            commit_ms=parsed["es"],
            line=pa.array(range(line, line + count), pa.int64()),
            columns=self._columns,
            wire=new,
            before=before,
            has_before=has_old,
        )

    def _check(self, parsed: dict[str, pa.Array]) -> None:
        if (parsed["database"].unique().to_pylist(), parsed["table"].unique().to_pylist()) != (
            [self._source[0]],
            [self._source[1]],
        ):
            raise _unsupported(self._where, "rows of another table")
        if pc.max(parsed["es"]).as_py() > INT64_MAX >> 18:
            raise _unsupported(self._where, "a time that no TSO has")

    def _image(self, rows: pa.Array, whole: bool) -> tuple[tuple[pa.Array, ...], tuple[pa.Array, ...] | None]:
        """The columns of rows, and for rows that need not be whole which of them were sent."""
        if whole:
            return tuple(rows.flatten()), None
        keys, values = rows.keys, rows.items
        parents = pc.list_parent_indices(rows)
        numbers = pa.array(range(len(rows)), parents.type)
        columns, sent, known = [], [], 0
        for name in self._columns:
            here = pc.equal(keys, name)
            place = pc.index_in(numbers, parents.filter(here))
            columns.append(values.filter(here).take(place))
            sent.append(place.is_valid())
            known += pc.sum(here).as_py() or 0
        if known != len(keys):
            raise _unsupported(self._where, "columns that the schema does not have")
        return tuple(columns), tuple(sent)


@lru_cache(maxsize=64)
def _grammar(form: _Form, columns: int, extended: bool) -> str:
    old, new = _row(form.old_is_whole, columns), _row(form.new_is_whole, columns)
    members = [
        rf'\A\{{"id":{_COUNT}',
        f'"database":{_TEXT}',
        f'"table":{_TEXT}',
        f'"pkNames":{_TEXTS}',
        '"isDdl":false',
        f'"type":"{_TYPE}"',
        f'"es":{_COUNT}',
        f'"ts":{_COUNT}',
        f'"sql":{_TEXT}',
        f'"sqlType":{_object(_CODE, "*")}',
        f'"mysqlType":{_object(_TEXT, "*")}',
        rf'"old":(?:null|\[{old}\])',
        rf'"data":\[{new}\]',
    ]
    if extended:
        members.append(rf'"_tidb":\{{"commitTs":{_TSO}(?:,"rowkey":{_TEXT})?\}}')
    return ",".join(members) + r"\}\r?\z"


def _row(whole: bool, columns: int) -> str:
    return _object(_VALUE, f"{{{columns - 1}}}" if whole else "*")


def _object(value: str, repeats: str) -> str:
    member = f"{_TEXT}:{value}"
    return rf"\{{{member}(?:,{member}){repeats}\}}"


@lru_cache(maxsize=64)
def _structure(form: _Form, columns: tuple[str, ...], extended: bool) -> str:
    whole = [dict.fromkeys(columns, "VARCHAR")]
    parts = ["MAP(VARCHAR,VARCHAR)"]
    structure: dict[str, object] = {
        "database": "VARCHAR",
        "table": "VARCHAR",
        "type": "VARCHAR",
        "es": "BIGINT",
        "old": whole if form.old_is_whole else parts,
        "data": whole if form.new_is_whole else parts,
    }
    if extended:
        structure["_tidb"] = {"commitTs": "BIGINT"}
    return orjson.dumps(structure).decode()


def _unsupported(where: str, found: str) -> BulkUnsupported:
    return BulkUnsupported(where, "a file that the bulk form reads exactly", found, "Read it with the reference form.")
