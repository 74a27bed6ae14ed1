"""Schema files of TiCDC's storage sink: `meta/schema_<version>_<checksum>.json`, once `<version>/schema.json`.

In go a file's bytes and its path below the bucket's root; out comes what it says, and from that a DdlEvent whose
`after` holds the columns as far as the file tells: no labels of ENUM and SET in files of older clusters, no unique
keys, no mark on virtual columns, a primary key in table order. Hidden columns of indexes over expressions, which files
list, are left out. Precision and scale are given MySQL's meaning, which depends on the type. A half-written file is
NotYetError; what can never become readable is SchemaError. The checksum in the file's name is compared, and a mismatch
only marked: writers of other versions compute it over other fields.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets.errors import NotYetError, SchemaError
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema, is_hidden
from ticdc_assets.schema.mysql_types import is_possible

SCHEMA_PATH: Final = re.compile(r"(?:^|/)meta/schema_([1-9][0-9]{0,19})_([0-9]{10})\.json\Z")
OLD_SCHEMA_PATH: Final = re.compile(r"\A(.+)/([1-9][0-9]{0,19})/schema\.json\Z")
DROP_TABLE: Final = 4
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
_FULL_TEXT_REST: Final = 6  # a cut literal or escape leaves fewer characters than this behind the fault


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """What one schema file says. `table` is "" for a database's statements, `query` "" where no statement made it.

    `type` is TiDB's action number; `columns` is empty where the file has none.
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
        """True where the statement ended the table, whose columns the file still lists."""
        return self.type == DROP_TABLE

    def table_schema(self) -> TableSchema | None:
        """The table's shape after the statement; None for a database's statement."""
        if not self.columns:
            return None
        primary = Index("PRIMARY", self.key, unique=True, primary=True)
        return TableSchema(self.schema, self.table, self.columns, (primary,) if self.key else ())

    def to_ddl_event(self) -> DdlEvent:
        """The statement, or with an empty query the schema as it stands at the file's version."""
        return DdlEvent(
            commit_ts=self.version,
            schema=self.schema,
            table=self.table,
            query=self.query,
            after=self.table_schema(),
            version=self.version,
            where=self.where,
        )


def parse_schema_file(data: bytes, path: str) -> SchemaFile:
    """What the file at `path` says; the path gives the version and checksum that it must agree with."""
    document = _document(data, path)
    schema, table = _names(document, path)
    columns = _column_objects(document, path)
    total = document.get("TableColumnsTotal", len(columns or ()))
    if _integer(total, path, "TableColumnsTotal") != len(columns or ()):
        raise _broken(path, f"{total} columns, as TableColumnsTotal says", f"{len(columns or ())} in TableColumns")
    told = [column for column in columns or () if not is_hidden(str(column.get("ColumnName")))]
    parsed = tuple(_column(column, path) for column in told)
    return SchemaFile(
        schema=schema,
        table=table,
        version=_version(document, path),
        query=_text(document.get("Query") or "", path, "Query"),
        type=_integer(document.get("Type", 0), path, "Type"),
        columns=parsed,
        key=tuple(c.name for c, raw in zip(parsed, told, strict=True) if _flag(raw.get("ColumnIsPk"))),
        checksum_ok=_checksum_ok(document, columns, path),
        where=path,
    )


def checksums(schema: str, table: str, columns: list[dict[str, Any]] | None) -> Iterator[int]:
    """The checksums that TiCDC's versions give this definition, the likeliest first.

    It is the CRC-32 of Go's indented JSON with the columns by name and `Version` left at zero. Three things differ
    between writers and cannot be seen in the file: whether no columns are `[]` or `null`, how Go spells backspace and
    form feed, and whether a replacement character stood in the source or came from bytes that were not UTF-8.
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
    """Whether values lie deeper than in any schema, so that functions which call themselves must not go there."""
    level = [document]
    for _ in range(_NESTING_MAX):
        held = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in held for value in values]
    return bool(level)


class _Number(str):
    """A number kept as it was written, so that it can be written again."""

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
        return table, schema  # the first clusters wrote the two names the other way round
    return schema, table


def _version(document: Mapping[str, Any], path: str) -> int:
    version = _integer(document.get("TableVersion"), path, "TableVersion")
    named = SCHEMA_PATH.search(path)
    old = OLD_SCHEMA_PATH.match(path)
    promised = int(named[1]) if named else int(old[2]) if old else version
    if version != promised:
        raise _broken(path, f"TableVersion {promised}, as the path says", str(version))
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
        todo = "This version cannot read such a column: leave the table out of the changefeed's tables, or upgrade."
        raise SchemaError(where, "a MySQL column type", repr(text), todo)
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
        # TiDB keeps BIT and YEAR as unsigned numbers; nobody can write that, so it says nothing about the type
        unsigned=bare != text and " UNSIGNED" in text and kind not in (Kind.BIT, Kind.YEAR),
        elements=tuple(_text(e, where, "ColumnElems") for e in elements) if isinstance(elements, list) else None,
        charset="binary" if kind in _BINARIES else None,
    )
    if not is_possible(type_):
        raise _broken(where, f"a size that {kind} can have", "another")
    return type_


def _size(kind: Kind, precision: int | None, scale: int | None) -> tuple[int | None, int | None]:
    """Length and scale as MySQL means them: the file's precision of TEXT, BLOB, YEAR and plain FLOAT says nothing."""
    if kind is Kind.DECIMAL:
        return (10 if precision is None else precision), (scale or 0)
    if kind in _FRACTIONAL:
        return scale or None, None
    if kind in _FLOATS:
        return (precision, scale) if scale else (None, None)
    return (precision if kind in _SIZED else None), None


def _default(raw: Any, kind: Kind) -> Default | None:
    """A default as the file tells it; None also where TiCDC wrote bytes that JSON cannot carry."""
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
    return NotYetError(path, "a whole schema file", "the beginning of one", "It is read again at the next run.")


def _broken(where: str, expected: str, found: str) -> SchemaError:
    todo = "Restore the file from the bucket's history, or name it in skip_files."
    return SchemaError(where, expected, found, todo)


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
