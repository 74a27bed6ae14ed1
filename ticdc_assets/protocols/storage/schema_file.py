"""Parses schema files of TiCDC's storage sink: `meta/schema_<version>_<checksum>.json`, formerly
`<version>/schema.json`.

A schema file does not have unique keys, the order of the primary key, which columns are virtual, and, from older
clusters, the labels of ENUM and SET. Hidden columns of expression indexes are left out. Precision and scale get MySQL's
meaning, which depends on the type. An incomplete file is a NotYetError, an invalid one a SchemaError. A mismatch of the
checksum in the file name is only marked, since other versions of TiCDC compute it over other fields.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets.errors import NotYetError, SchemaError
from ticdc_assets.schema.ddl.mysql_types import has_possible_size
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema, is_hidden

SCHEMA_PATH: Final = re.compile(r"(?:^|/)meta/schema_([1-9][0-9]{0,19})_([0-9]{10})\.json\Z")
OLD_SCHEMA_PATH: Final = re.compile(r"\A(.+)/([1-9][0-9]{0,19})/schema\.json\Z")
DROP_TABLE: Final = 4
_OF_VIEWS: Final = ("21", "24")  # CREATE VIEW and DROP VIEW
_TSO_END: Final = 1 << 63

_INTEGERS: Final = {Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT}
_SIZED: Final = {Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY, Kind.BIT} | _INTEGERS
_FRACTIONAL: Final = {Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME}
_FLOATS: Final = {Kind.FLOAT, Kind.DOUBLE}
_BINARIES: Final = {Kind.BINARY, Kind.VARBINARY, Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB}
_ALIASES: Final = {"VAR_STRING": Kind.VARCHAR, "INTEGER": Kind.INT, "NUMERIC": Kind.DECIMAL}
_NOW: Final = re.compile(
    r"(?i)(?:current_timestamp|now|localtimestamp|localtime|current_date|curdate)(?:\([0-9]?\))?\Z"
)
_GO_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_GO_SPECIAL: Final = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029]')
_NESTING_MAX: Final = 16
_FULL_TEXT_REST: Final = 6  # after the error position, a truncated literal or escape has fewer characters than this


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """The content of one schema file.

    `table` is "" for statements on a database. `query` is "" if the file is not the result of a statement. `type` is
    TiDB's action number. `columns` is empty if the file has none, or is of a view. `key` has the primary key in table
    order.
    """

    schema: str
    table: str
    version: int
    query: str
    type: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    checksum_ok: bool
    where: str

    @property
    def drops_table(self) -> bool:
        """Whether the statement drops the table; the file still lists its columns."""
        return self.type == DROP_TABLE

    @property
    def is_of_view(self) -> bool:
        """Whether the statement makes or drops a view, which has no rows."""
        return bool(self.table) and not self.columns

    def table_schema(self) -> TableSchema | None:
        """The table's schema after the statement; None for a statement on a database or a view."""
        if not self.columns:
            return None
        primary = Index("PRIMARY", self.key, unique=True, primary=True)
        return TableSchema(self.schema, self.table, self.columns, (primary,) if self.key else ())

    def to_ddl_event(self) -> DdlEvent:
        """The statement; with an empty query, the schema at the file's version."""
        return DdlEvent(
            commit_ts=self.version,
            schema=self.schema,
            table=self.table,
            query=self.query,
            after=self.table_schema(),
            hints=DdlHints(version=self.version),
            where=self.where,
        )


def parse_schema_file(data: bytes, path: str) -> SchemaFile:
    """The content of the file at `path`, relative to the bucket's root.

    Raises:
        NotYetError: the file is not written completely yet.
        SchemaError: the file is invalid or its version is not that of the path.
    """
    document = _document(data, path)
    schema, table = _names(document, path)
    columns = _column_objects(document, path)
    total = document.get("TableColumnsTotal", len(columns or ()))
    if _integer(total, path, "TableColumnsTotal") != len(columns or ()):
        raise _broken(path, f"{total} columns, as in TableColumnsTotal", f"{len(columns or ())} in TableColumns")
    of_view = _is_of_view(document, columns or [])
    visible = [c for c in columns or () if not of_view and not is_hidden(str(c.get("ColumnName")))]
    parsed = tuple(_column(column, path) for column in visible)
    return SchemaFile(
        schema=schema,
        table=table,
        version=_version(document, path),
        query=_text(document.get("Query") or "", path, "Query"),
        type=_integer(document.get("Type", 0), path, "Type"),
        columns=parsed,
        key=tuple(c.name for c, raw in zip(parsed, visible, strict=True) if _flag(raw.get("ColumnIsPk"))),
        checksum_ok=_checksum_ok(document, columns, path),
        where=path,
    )


def checksums(schema: str, table: str, columns: list[dict[str, Any]] | None) -> Iterator[int]:
    """The checksums that different versions of TiCDC compute for a table definition, the most likely first.

    The checksum is the CRC-32 of Go's indented JSON, with columns sorted by name and `Version` zero. Three details
    differ between writers and do not show in the file: no columns are `[]` or `null`; Go has two spellings of backspace
    and form feed; a replacement character may come from the source or from bytes that are not UTF-8.
    """
    ordered = sorted(columns or (), key=lambda column: _utf8(str(column.get("ColumnName"))))
    names = {"Table": table, "Schema": schema, "Version": 0}
    spellings: list[list[dict[str, Any]] | None] = [ordered] if ordered else [[], None]
    for written in spellings:
        text = _go_indented(names | {"TableColumns": written, "TableColumnsTotal": len(ordered)}, "")
        yield from (zlib.crc32(_utf8(form)) for form in _go_spellings(text))


def _go_spellings(text: str) -> list[str]:
    texts = [text]
    if "\\u0008" in text or "\\u000c" in text:
        texts.append(text.replace("\\u0008", "\\b").replace("\\u000c", "\\f"))
    if "\ufffd" in text:
        texts += [form.replace("\ufffd", "\\ufffd") for form in texts]
    return texts


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _document(data: bytes, path: str) -> dict[str, Any]:
    text = ""
    try:
        text = data.decode().rstrip()
        document = json.loads(text, parse_float=_Number)
    except UnicodeDecodeError as error:
        raise (_half_written(path) if error.end >= len(data) else _broken(path, "UTF-8", "other bytes")) from None
    except json.JSONDecodeError as error:
        raise (_half_written(path) if _is_cut(error, text) else _broken(path, "JSON", error.msg)) from None
    except (RecursionError, ValueError):
        raise _broken(path, "JSON of a schema", "JSON nested too deep or a number too long") from None
    if not isinstance(document, dict):
        raise _broken(path, "a JSON object", type(document).__name__)
    if _is_deep(document):
        raise _broken(path, "JSON of a schema", "JSON nested too deep")
    return document


def _is_deep(document: Any) -> bool:
    """Whether values are nested deeper than in any schema, so that recursive functions must not read them."""
    level = [document]
    for _ in range(_NESTING_MAX):
        held = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in held for value in values]
    return bool(level)


class _Number(str):
    """A number with its original spelling, which the checksum needs."""

    __slots__ = ()


def _is_cut(error: json.JSONDecodeError, text: str) -> bool:
    if error.msg.startswith("Unterminated string"):
        return True
    return not error.msg.startswith("Extra data") and len(text) - error.pos <= _FULL_TEXT_REST


def _names(document: Mapping[str, Any], path: str) -> tuple[str, str]:
    schema = _text(document.get("Schema"), path, "Schema")
    table = _text(document.get("Table"), path, "Table")
    old = OLD_SCHEMA_PATH.match(path)
    if old and old[1] == f"{table}/{schema}" != f"{schema}/{table}":
        return table, schema  # the oldest clusters wrote the two names in reverse
    return schema, table


def _version(document: Mapping[str, Any], path: str) -> int:
    version = _integer(document.get("TableVersion"), path, "TableVersion")
    named = SCHEMA_PATH.search(path)
    old = OLD_SCHEMA_PATH.match(path)
    promised = int(named[1]) if named else int(old[2]) if old else version
    if version != promised:
        raise _broken(path, f"TableVersion {promised}, as in the path", str(version))
    if not 0 < version < _TSO_END:
        raise _broken(path, "a TSO in TableVersion", "another number")
    return version


def _checksum_ok(document: Mapping[str, Any], columns: list[dict[str, Any]] | None, path: str) -> bool:
    named = SCHEMA_PATH.search(path)
    if not named:
        return True
    return int(named[2]) in checksums(document["Schema"], document["Table"], columns)


def _column_objects(document: Mapping[str, Any], path: str) -> list[dict[str, Any]] | None:
    columns = document.get("TableColumns")
    if columns is not None and not (isinstance(columns, list) and all(isinstance(c, dict) for c in columns)):
        raise _broken(path, "a list of objects in TableColumns", type(columns).__name__)
    return columns


def _is_of_view(document: Mapping[str, Any], columns: list[dict[str, Any]]) -> bool:
    """Whether the file is of a view, whose columns have no types."""
    types = {str(column.get("ColumnType")).upper() for column in columns}
    return str(document.get("Type")) in _OF_VIEWS or types == {"UNSPECIFIED"}


def _column(raw: Mapping[str, Any], path: str) -> Column:
    name = _text(raw.get("ColumnName"), path, "ColumnName")
    where = f"{path}, column {name!r}"
    type_ = _type(raw, where)
    column_id = raw.get("ColumnId")
    return Column(
        name=name,
        type=type_,
        nullable=str(raw.get("ColumnNullable", "true")).lower() != "false",
        default=_default(raw.get("ColumnDefault"), type_.kind),
        column_id=None if column_id is None else _integer(column_id, where, "ColumnId"),
    )


def _type(raw: Mapping[str, Any], where: str) -> MySqlType:
    text = _text(raw.get("ColumnType"), where, "ColumnType").upper()
    bare = text.removesuffix(" ZEROFILL").removesuffix(" UNSIGNED")
    if bare not in Kind.__members__ and bare not in _ALIASES:
        advice = "This version cannot read such a column: leave the table out of the changefeed's tables, or upgrade."
        raise SchemaError(where, "a MySQL column type", repr(text), advice)
    kind = _ALIASES.get(bare) or Kind[bare]
    precision = _optional_integer(raw, "ColumnPrecision", where)
    if precision is None:
        precision = _optional_integer(raw, "ColumnLength", where)
    length, scale = _size(kind, precision, _optional_integer(raw, "ColumnScale", where))
    elements = raw.get("ColumnElems")
    type_ = MySqlType(
        kind=kind,
        length=length,
        scale=scale,
        # TiDB marks all BIT and YEAR columns as unsigned, so this is not part of the type
        unsigned=bare != text and " UNSIGNED" in text and kind not in (Kind.BIT, Kind.YEAR),
        elements=tuple(_text(e, where, "ColumnElems") for e in elements) if isinstance(elements, list) else None,
        charset="binary" if kind in _BINARIES else None,
    )
    if not has_possible_size(type_):
        raise _broken(where, f"a size that {kind} can have", "another")
    return type_


def _size(kind: Kind, precision: int | None, scale: int | None) -> tuple[int | None, int | None]:
    """Length and scale in MySQL's sense; the file's precision of TEXT, BLOB, YEAR and plain FLOAT is meaningless."""
    if kind is Kind.DECIMAL:
        return (10 if precision is None else precision), (scale or 0)
    if kind in _FRACTIONAL:
        return scale or None, None
    if kind in _FLOATS:
        return (precision, scale) if scale else (None, None)
    return (precision if kind in _SIZED else None), None


def _default(raw: Any, kind: Kind) -> Default | None:
    """The default of a column; None also if TiCDC wrote bytes that JSON cannot represent."""
    if raw is None:
        return None
    text = str(int(raw)) if isinstance(raw, bool) else _utf8(str(raw)).decode(errors="replace")
    if kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.DATE) and _NOW.match(text):
        return Default(expression=text)
    if kind not in _BINARIES and kind is not Kind.BIT:
        return Default(value=text)
    if "\ufffd" in text:
        return None
    if kind is Kind.BIT and isinstance(raw, str):
        return Default(value=str(int.from_bytes(text.encode(), "big")))
    return Default(value=text if kind is Kind.BIT else text.encode())


def _flag(raw: Any) -> bool:
    return str(raw).lower() == "true"


def _text(value: Any, where: str, field: str) -> str:
    if not isinstance(value, str):
        raise _broken(where, f"text in {field}", type(value).__name__)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _broken(where, f"Unicode in {field}", "half of a surrogate pair")
    return value


def _optional_integer(raw: Mapping[str, Any], field: str, where: str) -> int | None:
    value = raw.get(field)
    return None if value in (None, "", "-1") else _integer(value, where, field)


def _integer(value: Any, where: str, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        return int(value)
    raise _broken(where, f"a whole number in {field}", type(value).__name__)


def _half_written(path: str) -> NotYetError:
    return NotYetError(path, "a whole schema file", "the beginning of one", "The next run reads it again.")


def _broken(where: str, expected: str, found: str) -> SchemaError:
    advice = (
        "Restore the file from the bucket's history, or name it in skip_files if the rows of its version may be lost."
    )
    return SchemaError(where, expected, found, advice)


def _go_indented(value: Any, indent: str) -> str:
    """JSON as Go's MarshalIndent writes it with four spaces and HTML escaping."""
    inner = indent + "    "
    if isinstance(value, dict) and value:
        items = [f"{inner}{_go_text(key)}: {_go_indented(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + _go_indented(item, inner) for item in value) + f"\n{indent}]"
    if isinstance(value, _Number):
        return str(value)
    return _go_text(value) if isinstance(value, str) else json.dumps(value)


def _go_text(text: str) -> str:
    return '"' + _GO_SPECIAL.sub(lambda found: _go_escape(found[0]), text) + '"'


def _go_escape(character: str) -> str:
    return _GO_ESCAPES.get(character) or f"\\u{ord(character):04x}"
