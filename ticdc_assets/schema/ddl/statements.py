"""The content of a DDL statement as frozen values: `Statement`s, and the `Action`s of ALTER TABLE in their order."""

from __future__ import annotations

from dataclasses import dataclass

from ticdc_assets.schema.ddl.defaults import WrittenDefault
from ticdc_assets.schema.model import UNNAMED, Collation, Column, Index, PartitionDefinition, Partitioning, TableName


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as a statement defines it. In its table, the type and the default may be different ones.

    primary, unique: whether the definition makes the column a key.
    computed: what gives rows their values, if it is not in the statement's text: "STORED" or "AUTO_INCREMENT".
    collation, default: as written.
    """

    column: Column
    primary: bool = False
    unique: bool = False
    computed: str | None = None
    collation: str | None = None
    default: WrittenDefault | None = None


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """Where a column goes: after another, or first (`after` None)."""

    after: str | None = None


# -- actions of ALTER TABLE -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Columns with their places, None = last."""

    columns: tuple[tuple[ColumnDefinition, ColumnPosition | None], ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """MODIFY and CHANGE: column `name` gets the new definition; `place` None = unchanged position."""

    name: str
    definition: ColumnDefinition
    place: ColumnPosition | None = None
    if_exists: bool = False

    @property
    def column(self) -> Column:
        return self.definition.column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class AlterDefault:
    """SET DEFAULT, or DROP DEFAULT (`default` None); existing rows stay."""

    name: str
    default: WrittenDefault | None


@dataclass(frozen=True, slots=True)
class AddIndex:
    """An index that is not the primary key; the name "" means that TiDB chooses one."""

    index: Index
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class AddPrimaryKey:
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    pass


@dataclass(frozen=True, slots=True)
class RenameTable:
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class TruncatePartitions:
    """Partitions whose rows are removed; `names` None = all."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class DropPartitions:
    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions as defined, or `count` more of them (HASH, KEY)."""

    partitions: tuple[PartitionDefinition, ...] = ()
    count: int = 0
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CoalescePartitions:
    """Fewer HASH or KEY partitions, by `count`; no row is removed."""

    count: int


@dataclass(frozen=True, slots=True)
class ReorganizePartitions:
    """Partitions `names` (() = all) are reorganized; no row is removed."""

    names: tuple[str, ...]
    partitions: tuple[PartitionDefinition, ...]


@dataclass(frozen=True, slots=True)
class ExchangePartition:
    """The rows of a partition and of another table are exchanged, without row events."""

    name: str
    with_table: TableName


@dataclass(frozen=True, slots=True)
class Repartition:
    """PARTITION BY, or REMOVE PARTITIONING (None); no row is removed."""

    partitioning: Partitioning | None


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """A new default collation of the table. `converts` is true if existing text columns get it too."""

    collation: Collation
    converts: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    """The table's new COMMENT."""

    comment: str


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Something that changes neither columns, keys, partitions nor rows; `reason` names it, and `unknown_option` the
    option of a table that is not known here."""

    reason: str
    unknown_option: str = ""


Action = (
    AddColumns
    | DropColumn
    | ModifyColumn
    | RenameColumn
    | AlterDefault
    | AddIndex
    | DropIndex
    | RenameIndex
    | AddPrimaryKey
    | DropPrimaryKey
    | RenameTable
    | TruncatePartitions
    | DropPartitions
    | AddPartitions
    | CoalescePartitions
    | ReorganizePartitions
    | ExchangePartition
    | Repartition
    | ConvertCharset
    | SetComment
    | NoEffect
)


# -- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new table; `like` names the table it copies instead of columns of its own.

    `collation` is that of columns without one. If it names none either, the collation of the database applies.
    `unknown_options` are those behind the columns that are not known here.
    """

    schema: str
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    indexes: tuple[Index, ...] = ()
    partitioning: Partitioning | None = None
    like: TableName | None = None
    if_not_exists: bool = False
    collation: Collation = UNNAMED
    comment: str = ""
    unknown_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTables:
    names: tuple[TableName, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class RenameTables:
    """Renames in the statement's order, each (old, new)."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True, slots=True)
class AlterTable:
    schema: str
    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str
    if_not_exists: bool = False
    collation: Collation = UNNAMED


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """A new default collation for later tables of the database."""

    name: str
    collation: Collation


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """RECOVER TABLE and FLASHBACK TABLE: a dropped or truncated table comes back, under `new_name` where given.

    `name` is None where the statement names a job instead of a table.
    """

    schema: str
    name: str | None
    new_name: str | None = None


Statement = (
    CreateTable
    | DropTables
    | TruncateTable
    | RenameTables
    | AlterTable
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | RecoverTable
    | NoEffect
)
