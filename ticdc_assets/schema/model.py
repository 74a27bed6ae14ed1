"""The columns, indexes and partitioning of a source table at one moment, whatever the protocol.

All values are frozen. A column keeps its `uid` as long as it is the same column of the lake's table:
through renames, moves and type promotions. A type change that Iceberg cannot promote makes a new uid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from ticdc_assets.names.folding import fold

TableName = tuple[str, str]
"""Schema and table."""

_HIDDEN: Final = "_V$_"


class TextOrder(StrEnum):
    """How text compares under a collation that orders by code points."""

    EXACT = "exact"
    PADDED = "padded"
    """Trailing blanks do not count."""


# TiDB's own, which differ from MySQL's.
_DEFAULT_COLLATIONS: Final = {
    "utf8mb4": "utf8mb4_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8_bin",
    "latin1": "latin1_bin",
    "ascii": "ascii_bin",
    "binary": "binary",
    "gbk": "gbk_chinese_ci",
    "gb18030": "gb18030_chinese_ci",
}
# Not gbk_bin and gb18030_bin: these order by the bytes of their own character sets.
_TEXT_ORDERS: Final = {
    **dict.fromkeys(("utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "latin1_bin", "ascii_bin"), TextOrder.PADDED),
    **dict.fromkeys(("utf8mb4_0900_bin", "binary"), TextOrder.EXACT),
}
_C = TypeVar("_C", bound="Collation | None")


@dataclass(frozen=True, slots=True)
class Collation:
    """A character set and a collation as a statement names them; None where it names none."""

    charset: str | None = None
    name: str | None = None

    def within(self, outer: _C) -> Collation | _C:
        """The effective collation of a column in a table, or of a table in a database, whose own is `outer` (None: not
        known). The inner one wins if it names anything, as in TiDB."""
        return self if self.charset or self.name else outer

    @property
    def charset_of_text(self) -> str | None:
        """The character set, also from the prefix of the collation's name; None where neither is named."""
        return self.name.partition("_")[0] if self.name else self.charset

    @property
    def order(self) -> TextOrder | None:
        """How text compares; None where it is not by code points or not known."""
        return _TEXT_ORDERS.get(self.name or _DEFAULT_COLLATIONS.get(self.charset or "utf8mb4", ""))


UNNAMED: Final = Collation()
"""Neither is named: the database's collation applies, which is assumed to be TiDB's default, utf8mb4_bin."""


class Kind(StrEnum):
    """MySQL column types, each with TiDB's own spelling."""

    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    MEDIUMINT = "MEDIUMINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    BIT = "BIT"
    YEAR = "YEAR"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    TINYTEXT = "TINYTEXT"
    TEXT = "TEXT"
    MEDIUMTEXT = "MEDIUMTEXT"
    LONGTEXT = "LONGTEXT"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    TINYBLOB = "TINYBLOB"
    BLOB = "BLOB"
    MEDIUMBLOB = "MEDIUMBLOB"
    LONGBLOB = "LONGBLOB"
    DATE = "DATE"
    DATETIME = "DATETIME"
    TIMESTAMP = "TIMESTAMP"
    TIME = "TIME"
    ENUM = "ENUM"
    SET = "SET"
    JSON = "JSON"
    VECTOR = "VECTOR"


@dataclass(frozen=True, slots=True)
class MySqlType:
    """A column type.

    `length` is the display width, character length, bit count, decimal precision or fraction digits of the
    written type, None where it was not written. `elements` are the labels of an ENUM or SET, None where they
    are not known.
    """

    kind: Kind
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    elements: tuple[str, ...] | None = None
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class Default:
    """A column default: a literal `value` (text, bytes for binary columns) or an expression (CURRENT_TIMESTAMP)."""

    value: str | bytes | None = None
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `uid` is 0 until a table's history gives it one; `virtual` columns are never in rows.

    `text_order` is set where its text is known to compare by code points; it does not change the column's values.
    `comment` is the source's COMMENT; "" where it has none or the stream does not send it.
    """

    name: str
    type: MySqlType
    nullable: bool = True
    default: Default | None = None
    virtual: bool = False
    column_id: int | None = None
    uid: int = 0
    text_order: TextOrder | None = field(default=None, compare=False)
    comment: str = field(default="", compare=False)


def is_hidden(column: str) -> bool:
    """Whether TiDB created the column, for an index over an expression (`_V$_<index>_<n>`).

    No statement names such a column and no row holds it, but some streams list it with the others.
    """
    return column.startswith(_HIDDEN)


@dataclass(frozen=True, slots=True)
class Index:
    """A primary, unique or plain index over columns, in index order."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False


@dataclass(frozen=True, slots=True)
class PartitionDefinition:
    """One partition as written: `less_than` for RANGE (None = MAXVALUE), `values_in` for LIST; texts of literals."""

    name: str
    less_than: tuple[str | None, ...] = ()
    values_in: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a table is partitioned: `method` RANGE, LIST, HASH or KEY; over `columns`, else over an `expression`.

    `count` is the number of HASH and KEY partitions, at least 1, and 0 for the other methods.
    """

    method: str
    columns: tuple[str, ...] = ()
    expression: str | None = None
    partitions: tuple[PartitionDefinition, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A source table's columns in table order, indexes and partitioning. `inferred` is true if they are inferred from
    rows.

    `virtual_unknown` is true if the stream lists the columns without a statement: rows may lack any, since virtual
    columns are not marked. `named_key` are the key columns that the user configures; no statement changes them.
    `collation` is the default for columns without one; None where no statement has it. `comment` is the source's
    COMMENT.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    partitioning: Partitioning | None = None
    inferred: bool = False
    named_key: tuple[str, ...] = ()
    collation: Collation | None = field(default=None, compare=False)
    virtual_unknown: bool = field(default=False, compare=False)
    comment: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, ...]:
        """The key's columns in table order: those the user configures, else the handle key's: the primary key, else the
        unique index over NOT NULL columns with the fewest columns (the earliest among equals), else ()."""
        chosen = self._handle_index()
        wanted = {fold(name) for name in self.named_key or (chosen.columns if chosen else ())}
        return tuple(c.name for c in self.columns if fold(c.name) in wanted)

    @property
    def own_key(self) -> tuple[str, ...]:
        """The columns of the handle key, whatever the user configures; () without one."""
        chosen = self._handle_index()
        return chosen.columns if chosen else ()

    @property
    def ordered_key(self) -> tuple[Column, ...]:
        """The key's columns in the order of their index; those that the user configures in table order."""
        index = None if self.named_key else self._handle_index()
        columns = (self.column(name) for name in (index.columns if index else self.key))
        return tuple(column for column in columns if column is not None)

    @property
    def unique_columns(self) -> tuple[str, ...]:
        """The columns of the key and of all unique indexes, in table order: an update of one is DELETE + INSERT."""
        unique = (name for index in self.indexes if index.unique or index.primary for name in index.columns)
        wanted = {fold(name) for name in (*self.named_key, *unique)}
        return tuple(c.name for c in self.columns if fold(c.name) in wanted and not c.virtual)

    def _handle_index(self) -> Index | None:
        for index in self.indexes:
            if index.primary:
                return index
        fit = {fold(column.name) for column in self.columns if not column.nullable and not column.virtual}
        candidates = (i for i in self.indexes if i.unique and all(fold(name) in fit for name in i.columns))
        return min(candidates, key=lambda index: len(index.columns), default=None)

    def column(self, name: str) -> Column | None:
        """The column of this name, without regard to case as in MySQL."""
        lowered = fold(name)
        return next((c for c in self.columns if fold(c.name) == lowered), None)

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """The columns that rows have: all but the virtual generated ones."""
        return tuple(c for c in self.columns if not c.virtual)
