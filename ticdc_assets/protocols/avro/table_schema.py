"""Validates and compiles writer schemas of the Avro protocol, and converts them to a TableSchema.

TiCDC registers one record for a table's row and one for its key, with the MySQL types in `connect.parameters`. They do
not have all of the table's schema. The missing parts are replaced as follows:
- Names are sanitised: each character outside [A-Za-z0-9_] became `_`, a leading digit got one in front. The names here
  are those; the namespace is `<changefeed namespace>.<database>`.
- TINYINT, SMALLINT and MEDIUMINT look like INT (unsigned: MEDIUMINT UNSIGNED), all texts like LONGTEXT, all binaries
  like LONGBLOB: they take the widest type with the same values in the lake.
- DECIMAL as text has no precision: it takes DECIMAL(65,30), whose values stay text.
- DATETIME, TIMESTAMP and TIME take 6 fraction digits, the most there are.
- Other indexes and partitioning are unknown. Virtual columns are missing, as in the rows.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.formats.avro.reader import Reader, reader_of, schema_of
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema

OP: Final = "_tidb_op"
COMMIT_TS: Final = "_tidb_commit_ts"
COMMIT_MS: Final = "_tidb_commit_physical_time"
CHECKSUM: Final = "_tidb_row_level_checksum"
CORRUPTED: Final = "_tidb_corrupted"
CHECKSUM_VERSION: Final = "_tidb_checksum_version"
BEFORE: Final = "_ticdc_before"

_EXTENSION: Final = {OP: "string", COMMIT_TS: "long", COMMIT_MS: "long"}
_INTEGRITY: Final = {CHECKSUM: "string", CORRUPTED: "boolean", CHECKSUM_VERSION: "int"}
_PARAMETERS: Final = "connect.parameters"
_ADVICE: Final = "Check that the subject was registered by TiCDC with protocol=avro."
_SHOWN_CHARS_MAX: Final = 40
_WRITERS_MAX: Final = 256

_KINDS: Final = {
    "INT": Kind.INT,
    "INT UNSIGNED": Kind.INT,
    "BIGINT": Kind.BIGINT,
    "BIGINT UNSIGNED": Kind.BIGINT,
    "FLOAT": Kind.FLOAT,
    "DOUBLE": Kind.DOUBLE,
    "BIT": Kind.BIT,
    "DECIMAL": Kind.DECIMAL,
    "TEXT": Kind.LONGTEXT,
    "BLOB": Kind.LONGBLOB,
    "ENUM": Kind.ENUM,
    "SET": Kind.SET,
    "JSON": Kind.JSON,
    "DATE": Kind.DATE,
    "DATETIME": Kind.DATETIME,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIME": Kind.TIME,
    "YEAR": Kind.YEAR,
    "TiDBVECTORFloat32": Kind.VECTOR,
}
_TIMES: Final = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_UNKNOWN_DECIMAL: Final = MySqlType(Kind.DECIMAL, 65, 30)
_NOT_ESCAPED_COMMA: Final = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True)
class Writer:
    """A valid schema: its reader, its table name, and which of its fields are columns."""

    reader: Reader
    schema: str
    table: str
    columns: tuple[str, ...]
    extension: frozenset[str]
    fields: tuple[dict[str, Any], ...]

    @property
    def hides_deletes(self) -> bool:
        """Whether a DELETE looks like an UPDATE: old values are sent, but no operation."""
        return BEFORE in self.extension and OP not in self.extension


@lru_cache(maxsize=_WRITERS_MAX)
def writer(text: str, where: str = "schema registry") -> Writer:
    """The writer of a registered schema. Raises DecodeError if the schema is not valid."""
    schema = schema_of(text, where)
    reader = reader_of(schema, where)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DecodeError(where, "an Avro schema of type record", "another type", _ADVICE)
    namespace, _, name = _full_name(schema).rpartition(".")
    fields: list[dict[str, Any]] = schema["fields"]
    extension = frozenset(f["name"] for f in fields if _is_extension(f))
    columns = tuple(f["name"] for f in fields if f["name"] not in extension)
    return Writer(reader, namespace.rpartition(".")[2], name, columns, extension, tuple(fields))


def _full_name(schema: dict[str, Any]) -> str:
    name: str = schema["name"]
    namespace = schema.get("namespace")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_extension(field: dict[str, Any]) -> bool:
    # A column of the same name has a type object with connect.parameters.
    name, type_ = field["name"], field["type"]
    if name == BEFORE:
        return _branch(type_).get("type") == "record"
    return (_EXTENSION.get(name) or _INTEGRITY.get(name)) == (type_ if isinstance(type_, str) else "")


def table_schema(
    value_schema: str, key_schema: str | None, where: str = "schema registry", names: tuple[str, str] | None = None
) -> TableSchema:
    """The table that a value schema and a key schema describe; `names` are its true names, if known.

    Without a key schema the table has no key. Raises SchemaError if a field is not a column that TiCDC writes.
    """
    row = writer(value_schema, where)
    columns = tuple(_column(f, where) for f in row.fields if f["name"] not in row.extension)
    indexes: tuple[Index, ...] = ()
    if key_schema is not None:
        key = writer(key_schema, where).columns
        if not set(key) <= set(row.columns):
            raise SchemaError(where, "a key made of the row's columns", "other fields", _ADVICE)
        indexes = (Index("PRIMARY", key, unique=True, primary=True),)
    schema, table = names or (row.schema, row.table)
    return TableSchema(schema, table, columns, indexes)


def _column(field: dict[str, Any], where: str) -> Column:
    nullable, type_ = _nullable(field["type"])
    if not isinstance(type_, dict) or not isinstance(type_.get(_PARAMETERS), dict):
        raise SchemaError(where, "columns with connect.parameters", "a field without", _ADVICE)
    mysql_type = _mysql_type(type_, where)
    return Column(field["name"], mysql_type, nullable, _default(field.get("default"), mysql_type, where))


def _nullable(type_: Any) -> tuple[bool, Any]:
    # The branch of the default comes first, so null may be first or last.
    if not isinstance(type_, list):
        return False, type_
    rest = [branch for branch in type_ if branch != "null"]
    return len(rest) < len(type_), rest[0] if len(rest) == 1 else None


def _branch(type_: Any) -> dict[str, Any]:
    found = _nullable(type_)[1]
    return found if isinstance(found, dict) else {}


def _mysql_type(type_: dict[str, Any], where: str) -> MySqlType:
    parameters: dict[str, Any] = type_[_PARAMETERS]
    written = parameters.get("tidb_type")
    kind = _KINDS.get(written) if isinstance(written, str) else None
    if kind is None or not isinstance(written, str):
        raise SchemaError(where, "a tidb_type that TiCDC writes", _shown(written), _ADVICE)
    if kind is Kind.DECIMAL:
        return _decimal(type_)
    if kind is Kind.BIT:
        return MySqlType(kind, _length(parameters, where))
    if kind in (Kind.ENUM, Kind.SET):
        return MySqlType(kind, elements=_labels(parameters))
    if kind in _TIMES:
        return MySqlType(kind, 6)
    unsigned = written.endswith(" UNSIGNED")
    if unsigned and type_.get("type") == "int":
        return MySqlType(Kind.MEDIUMINT, unsigned=True)
    return MySqlType(kind, unsigned=unsigned)


def _shown(written: Any) -> str:
    return repr(written[:_SHOWN_CHARS_MAX]) if isinstance(written, str) else "no text"


def _decimal(type_: dict[str, Any]) -> MySqlType:
    if type_.get("type") != "bytes" or type_.get("logicalType") != "decimal":
        return _UNKNOWN_DECIMAL
    return MySqlType(Kind.DECIMAL, type_["precision"], type_.get("scale", 0))


def _length(parameters: dict[str, Any], where: str) -> int:
    length = parameters.get("length")
    if not isinstance(length, str) or not length.isascii() or not length.isdigit() or not 1 <= int(length) <= 64:
        raise SchemaError(where, "a BIT with a length from 1 to 64", _shown(length), _ADVICE)
    return int(length)


def _labels(parameters: dict[str, Any]) -> tuple[str, ...] | None:
    allowed = parameters.get("allowed")
    if not isinstance(allowed, str):
        return None
    return tuple(label.replace("\\,", ",") for label in _NOT_ESCAPED_COMMA.split(allowed))


def _default(default: Any, type_: MySqlType, where: str) -> Default | None:
    if default is None:
        return None
    if type_.kind in (Kind.BIT, Kind.LONGBLOB):
        raw = _base64(default, where)
        return Default(raw if type_.kind is Kind.LONGBLOB else str(int.from_bytes(raw, "big")))
    if isinstance(default, str):
        is_time = type_.kind in (Kind.DATETIME, Kind.TIMESTAMP)
        is_now = is_time and default.upper().startswith("CURRENT_TIMESTAMP")
        return Default(expression=default) if is_now else Default(default)
    if isinstance(default, bool) or not isinstance(default, int | float):
        raise SchemaError(where, "a default as a number or a text", type(default).__name__, _ADVICE)
    if type_.kind is Kind.BIGINT and type_.unsigned and isinstance(default, int) and default < 0:
        default += 1 << 64
    return Default(str(default))


def _base64(default: Any, where: str) -> bytes:
    # Avro itself would have a byte per character here; TiCDC's JSON library writes base64.
    try:
        return b64decode(default, validate=True)
    except (TypeError, ValueError):
        raise SchemaError(where, "a bytes default in base64", "another", _ADVICE) from None
