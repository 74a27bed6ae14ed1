"""MySQL and TiDB column types as text and as `MySqlType`.

In: type text in any spelling that TiDB accepts (`INTEGER`, `NVARCHAR(5)`, `BOOL`, `CHAR(5) CHARACTER SET BINARY`, ...).
Out: one `MySqlType` for each meaning. Text of a type that is not known is refused, never approximated.
`parse_type(type_text(t)) == t` for every type that `parse_type` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.schema.arrow_types import BIT_WIDTH_MAX, DECIMAL_DIGITS_DEFAULT, INTEGER_BITS
from ticdc_assets.schema.ddl.defaults import hex_value
from ticdc_assets.schema.ddl.token_cursor import TokenCursor, cursor_over
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import Default, Kind, MySqlType

_ALIASES: Final[dict[str, Kind]] = {
    **{kind.value: kind for kind in Kind},
    "INTEGER": Kind.INT,
    "INT1": Kind.TINYINT,
    "INT2": Kind.SMALLINT,
    "INT3": Kind.MEDIUMINT,
    "INT4": Kind.INT,
    "INT8": Kind.BIGINT,
    "MIDDLEINT": Kind.MEDIUMINT,
    "DEC": Kind.DECIMAL,
    "NUMERIC": Kind.DECIMAL,
    "FIXED": Kind.DECIMAL,
    "FLOAT4": Kind.FLOAT,
    "FLOAT8": Kind.DOUBLE,
    "REAL": Kind.DOUBLE,
    "CHARACTER": Kind.CHAR,
    "NCHAR": Kind.CHAR,
    "VARCHARACTER": Kind.VARCHAR,
    "NVARCHAR": Kind.VARCHAR,
    "LONG": Kind.MEDIUMTEXT,
    # Types of MySQL that TiDB does not have; their values are the text that is sent.
    "GEOMETRY": Kind.LONGTEXT,
    "POINT": Kind.LONGTEXT,
    "LINESTRING": Kind.LONGTEXT,
    "POLYGON": Kind.LONGTEXT,
    "MULTIPOINT": Kind.LONGTEXT,
    "MULTILINESTRING": Kind.LONGTEXT,
    "MULTIPOLYGON": Kind.LONGTEXT,
    "GEOMETRYCOLLECTION": Kind.LONGTEXT,
    "GEOMCOLLECTION": Kind.LONGTEXT,
}
_BINARY_FORM: Final = {
    Kind.CHAR: Kind.BINARY,
    Kind.VARCHAR: Kind.VARBINARY,
    Kind.TINYTEXT: Kind.TINYBLOB,
    Kind.TEXT: Kind.BLOB,
    Kind.MEDIUMTEXT: Kind.MEDIUMBLOB,
    Kind.LONGTEXT: Kind.LONGBLOB,
}
_FRACTIONS: Final = frozenset({Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE})
_NUMERIC: Final = _FRACTIONS | frozenset(INTEGER_BITS) | {Kind.BIT, Kind.YEAR}
_WITHOUT_LENGTH: Final = frozenset({Kind.DATE, Kind.JSON})
_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET})
_SIZED: Final = {
    Kind.TEXT: (Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT),
    Kind.BLOB: (Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB),
}
_SIZE_LIMITS: Final = (0xFF, 0xFFFF, 0xFF_FFFF)
BYTES_PER_CHARACTER: Final = {"latin1": 1, "ascii": 1, "binary": 1, "gbk": 2, "ucs2": 2, "utf8": 3, "utf8mb3": 3}
_FLOAT_DIGITS_MAX: Final = 24


def parse_type(text: str) -> MySqlType:
    """The type of this text. Raises SchemaError if it is no type, or more than a type."""
    cursor = cursor_over(text)
    found = read_type(cursor)
    cursor.finish("the end of the type")
    return sized_text(found.type, found.type.charset)


def binary_form(of: MySqlType) -> MySqlType:
    """The binary type that a character type becomes in the character set `binary`; other types are unchanged."""
    kind = _BINARY_FORM.get(of.kind)
    return of if kind is None else replace(of, kind=kind, charset=None)


def bare(of: MySqlType) -> MySqlType:
    """The type without the display width of integers and YEAR, which changes no value."""
    shown_only = of.kind in INTEGER_BITS or of.kind is Kind.YEAR
    return replace(of, length=None) if shown_only else of


def same_kind(one: MySqlType, other: MySqlType) -> bool:
    """Whether both are of one kind, whatever their lengths. All sizes of TEXT are one kind and all of BLOB: which one
    TEXT(n) becomes is decided by a character set that perhaps only the table's database names."""
    return (_family(one.kind), one.unsigned) == (_family(other.kind), other.unsigned)


def _family(kind: Kind) -> Kind:
    return next((sized for sized, sizes in _SIZED.items() if kind in sizes), kind)


def has_possible_size(of: MySqlType) -> bool:
    """Whether a column can have that length and scale; they bound the memory that values and defaults take."""
    length, scale = of.length or 0, of.scale or 0
    if of.kind is Kind.DECIMAL:
        return 0 <= scale <= min(of.length or DECIMAL_DIGITS_DEFAULT, _SCALE_MAX) and 0 <= length <= _DIGITS_MAX
    return 0 <= length <= _LENGTHS_MAX.get(of.kind, _LENGTH_MAX) and 0 <= scale <= _SCALE_MAX


_DIGITS_MAX: Final = 65
_SCALE_MAX: Final = 30
_LENGTH_MAX: Final = 0xFFFF_FFFF
_LENGTHS_MAX: Final = {
    **dict.fromkeys((Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY), 0xFFFF),
    **dict.fromkeys((Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME), 6),
    Kind.BIT: BIT_WIDTH_MAX,
}


@dataclass(frozen=True, slots=True)
class WrittenType:
    """A type as a column definition has it, with its collation and the attributes that SERIAL stands for."""

    type: MySqlType
    collation: str | None = None
    serial: bool = False


def read_type(cursor: TokenCursor) -> WrittenType:
    """Read a type and its attributes (UNSIGNED, CHARACTER SET, COLLATE, ...) at the cursor."""
    if cursor.accept("SERIAL"):
        return WrittenType(MySqlType(Kind.BIGINT, unsigned=True), serial=True)
    of = _read_kind(cursor)
    written = _read_attributes(cursor, _read_size(cursor, of))
    if not has_possible_size(written.type):
        raise cursor.fault(f"a size that {of.kind} can have")
    return written


def _read_kind(cursor: TokenCursor) -> MySqlType:
    if cursor.accept_any("BOOL", "BOOLEAN"):
        return MySqlType(Kind.TINYINT, length=1)
    cursor.accept("NATIONAL")
    kind = _ALIASES.get(cursor.peek().word)
    if kind is None:
        raise cursor.fault("a column type")
    return MySqlType(_longer_spelling(cursor, cursor.take().word, kind))


def _longer_spelling(cursor: TokenCursor, word: str, kind: Kind) -> Kind:
    if word == "LONG":
        if cursor.accept("VARBINARY"):
            return Kind.MEDIUMBLOB
        cursor.accept_any("VARCHAR", "VARCHARACTER") or cursor.accept_any("CHAR", "CHARACTER")
        cursor.accept("VARYING")
        return kind
    if kind is Kind.CHAR and cursor.accept_any("VARYING", "VARCHAR", "VARCHARACTER"):
        return Kind.VARCHAR
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    return kind


def _read_size(cursor: TokenCursor, of: MySqlType) -> MySqlType:
    if of.kind in _LABELLED and cursor.at_symbol("("):
        return replace(of, elements=cursor.in_parentheses(lambda: _read_label(cursor)))
    if of.kind is Kind.VECTOR and cursor.accept_symbol("<"):
        cursor.expect("FLOAT")
        cursor.expect_symbol(">")
    if of.kind in _WITHOUT_LENGTH | _LABELLED or not cursor.at_symbol("("):
        return of
    numbers = cursor.in_parentheses(cursor.integer)
    if len(numbers) > (2 if of.kind in _FRACTIONS else 1):
        raise cursor.fault(f"the size of a {of.kind}")
    return replace(of, length=numbers[0], scale=numbers[1] if len(numbers) > 1 else None)


def _read_label(cursor: TokenCursor) -> str:
    cursor.skip_introducers()
    token = cursor.peek()
    if token.kind is TokenKind.HEX:
        return hex_value(cursor.take().text).decode("utf-8", "replace")
    # MySQL strips trailing spaces of labels when the table is made.
    return cursor.string().rstrip(" ")


def _read_attributes(cursor: TokenCursor, of: MySqlType) -> WrittenType:
    written = WrittenType(of)
    while (reader := _attribute_reader(cursor, of.kind)) is not None:
        written = reader(cursor, written)
    return replace(written, type=_of_attributes(written))


_Reader = Callable[[TokenCursor, WrittenType], WrittenType]


def _attribute_reader(cursor: TokenCursor, kind: Kind) -> _Reader | None:
    word = cursor.peek().word
    if kind in _NUMERIC:
        return _NUMERIC_ATTRIBUTES.get(word)
    if word in ("CHAR", "CHARACTER") and cursor.peek(1).word != "SET":
        return None
    return _TEXT_ATTRIBUTES.get(word)


def _unsigned(cursor: TokenCursor, written: WrittenType) -> WrittenType:
    cursor.take()
    return replace(written, type=replace(written.type, unsigned=True))


def _ignored(cursor: TokenCursor, written: WrittenType) -> WrittenType:
    cursor.take()
    return written


def _named_charset(name: str) -> _Reader:
    def read(cursor: TokenCursor, written: WrittenType) -> WrittenType:
        cursor.take()
        return replace(written, type=replace(written.type, charset=name))

    return read


def _charset(cursor: TokenCursor, written: WrittenType) -> WrittenType:
    return replace(written, type=replace(written.type, charset=read_charset(cursor)))


def read_charset(cursor: TokenCursor) -> str:
    """Read `CHARACTER SET [=] x`, `CHAR SET x` or `CHARSET x`: its name in lower case."""
    if cursor.take().word != "CHARSET":
        cursor.expect("SET")
    cursor.accept_symbol("=")
    return read_charset_name(cursor)


def read_charset_name(cursor: TokenCursor) -> str:
    """Read the name of a character set or collation, quoted in any way or not."""
    token = cursor.peek()
    return (cursor.string() if token.kind is TokenKind.STRING else cursor.identifier()).lower()


def _collate(cursor: TokenCursor, written: WrittenType) -> WrittenType:
    cursor.take()
    cursor.accept_symbol("=")
    return replace(written, collation=read_charset_name(cursor))


_NUMERIC_ATTRIBUTES: Final[dict[str, _Reader]] = {"UNSIGNED": _unsigned, "ZEROFILL": _unsigned, "SIGNED": _ignored}
_TEXT_ATTRIBUTES: Final[dict[str, _Reader]] = {
    "CHARACTER": _charset,
    "CHAR": _charset,
    "CHARSET": _charset,
    "COLLATE": _collate,
    "BYTE": _named_charset("binary"),
    "ASCII": _named_charset("latin1"),
    "UNICODE": _named_charset("ucs2"),
    "BINARY": _ignored,
}


def _of_attributes(written: WrittenType) -> MySqlType:
    of = written.type
    if of.charset == "binary" or (written.collation == "binary" and of.charset is None):
        of = binary_form(of)
    if of.kind is Kind.FLOAT and of.length is not None and of.scale is None:
        of = replace(of, kind=Kind.FLOAT if of.length <= _FLOAT_DIGITS_MAX else Kind.DOUBLE, length=None)
    return of


def sized_text(of: MySqlType, charset: str | None) -> MySqlType:
    """TEXT(n) and BLOB(n) as the type they become: the smallest that holds n characters of the character set (None:
    not known)."""
    kinds = _SIZED.get(of.kind)
    if kinds is None or of.length is None:
        return of
    each = 1 if of.kind is Kind.BLOB else BYTES_PER_CHARACTER.get(charset or "", 4)
    size = of.length * each
    place = sum(size > limit for limit in _SIZE_LIMITS)
    return replace(of, kind=kinds[place], length=None)


def type_text(of: MySqlType) -> str:
    """The type, such as DECIMAL(10,2) UNSIGNED or ENUM('a','b'); `parse_type` reads it back to an equal type."""
    if of.elements is not None:
        inside = ",".join(_quoted(label) for label in of.elements)
    else:
        inside = ",".join(str(number) for number in (of.length, of.scale) if number is not None)
    written = f"{of.kind}({inside})" if inside else str(of.kind)
    unsigned = " UNSIGNED" if of.unsigned else ""
    charset = f" CHARACTER SET {of.charset}" if of.charset else ""
    return f"{written}{unsigned}{charset}"


def default_text(default: Default | None) -> str | None:
    """The default as SQL; None without one."""
    if default is None:
        return None
    if default.expression is not None:
        return default.expression
    if default.value is None:
        return "NULL"
    return f"X'{default.value.hex()}'" if isinstance(default.value, bytes) else _quoted(default.value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
