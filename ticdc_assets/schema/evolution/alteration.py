"""Applies one ALTER TABLE to a `Shape`; `evolution.evolve` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import are_alike, fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.create import in_table, named_indexes
from ticdc_assets.schema.ddl.defaults import typed_default
from ticdc_assets.schema.ddl.tokens import TokenKind, tokens_of
from ticdc_assets.schema.evolution.promotion import preserves, promotes
from ticdc_assets.schema.evolution.schema_state import (
    COLUMNS_MAX,
    Change,
    ConvertColumn,
    DeletePartitions,
    Effect,
    FillColumn,
    KeyChanged,
    Shape,
    TruncateRows,
    check_names,
    ddl_error,
    fill_of,
)
from ticdc_assets.schema.model import Column, Index, Kind, PartitionDefinition, Partitioning, TableSchema
from ticdc_assets.schema.partitions.rows import partition_rows, place_of

_DATES: Final = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
_ACTIONS_MAX: Final = 4 * COLUMNS_MAX  # an ALTER that renames, changes, indexes and drops each column is not larger


@dataclass(slots=True)
class _Slot:
    """A column while its table is altered; `was` is the column before the statement, None for a new one."""

    column: Column
    was: Column | None = None
    dropped: bool = False


@dataclass(slots=True)
class _IndexWork:
    """What a statement does to indexes, in MySQL's order: drops, then renames, then additions."""

    dropped: set[str] = field(default_factory=set)
    primary_dropped: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    added: list[tuple[Index, bool]] = field(default_factory=list)


class Alteration:
    """One ALTER TABLE being applied."""

    def __init__(self, shape: Shape) -> None:
        self._before = shape.table
        self._next_uid = shape.next_uid
        self._collation = shape.table.collation
        self._comment = shape.table.comment
        self._slots = [_Slot(column, was=column) for column in shape.table.columns]
        self._origin = {fold(slot.column.name): slot for slot in self._slots}
        self._moves: list[tuple[_Slot, ddl.ColumnPosition]] = []
        self._indexes = _IndexWork()
        self._partitioning = shape.table.partitioning
        self._name = (shape.table.schema, shape.table.name)
        self._column_effects: list[Effect] = []
        self._row_effects: list[Effect] = []

    def run(self, actions: tuple[ddl.Action, ...]) -> Change:
        """The change that these actions make together."""
        if len(actions) > _ACTIONS_MAX:
            raise self._fault(f"at most {_ACTIONS_MAX} actions", f"{len(actions)}")
        for action in actions:
            self._apply(action)
        for slot, place in self._moves:
            self._move(slot, place)
        self._slots = [slot for slot in self._slots if not slot.dropped]
        table = self._altered_table()
        effects = (*self._row_effects, *self._column_effects, *self._key_effects(table))
        return Change(Shape(table, self._next_uid), effects)

    def _apply(self, action: ddl.Action) -> None:
        match action:
            case ddl.AddColumns():
                self._add_columns(action)
            case ddl.DropColumn():
                self._drop_column(action)
            case ddl.ModifyColumn():
                self._modify_column(action)
            case ddl.RenameColumn():
                self._rename_column(action)
            case ddl.AlterDefault():
                self._alter_default(action)
            case ddl.RenameTable(schema=schema, name=name):
                self._name = (schema or self._name[0], name)
            case ddl.ConvertCharset():
                self._convert_charset(action)
            case ddl.SetComment(comment=comment):
                self._comment = comment
            case ddl.NoEffect():
                pass
            case ddl.AddIndex() | ddl.AddPrimaryKey() | ddl.DropIndex() | ddl.DropPrimaryKey() | ddl.RenameIndex():
                self._index_action(action)
            case _:
                self._partition_action(action)

    def _fault(self, expected: str, found: str) -> SchemaError:
        return ddl_error(self._before.schema, self._before.name, expected, found)

    # -- columns --------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> _Slot | None:
        """The column of this name before the statement; else one that the statement adds."""
        slot = self._origin.get(fold(name))
        if slot is not None and not slot.dropped:
            return slot
        return next((s for s in self._slots if s.was is None and fold(s.column.name) == fold(name)), None)

    def _found(self, name: str, may_lack: bool) -> _Slot | None:
        slot = self._find(name)
        # Rows have no virtual columns: a table inferred from rows may lack this one.
        if slot is None and not (may_lack or self._before.inferred):
            raise self._fault(f"a column {name}", "no column of that name")
        return slot

    def _new_uid(self) -> int:
        self._next_uid += 1
        return self._next_uid - 1

    def _add_columns(self, action: ddl.AddColumns) -> None:
        for definition, place in action.columns:
            if not (action.if_not_exists and self._find(definition.column.name) is not None):
                self._add_column(definition, place)

    def _add_column(self, definition: ddl.ColumnDefinition, place: ddl.ColumnPosition | None) -> None:
        if len(self._slots) > 2 * COLUMNS_MAX:
            raise self._fault(f"at most {COLUMNS_MAX} columns", "more")
        column = self._as_defined(definition, uid=self._new_uid())
        slot = _Slot(column)
        self._slots.append(slot)
        if place is not None:
            self._moves.append((slot, place))
        if not column.virtual:
            self._column_effects.append(self._fill(column, definition.computed))

    def _as_defined(self, definition: ddl.ColumnDefinition, uid: int) -> Column:
        return replace(in_table(definition, self._collation), uid=uid)

    def _fill(self, column: Column, computed: str | None) -> FillColumn:
        value = None if computed else fill_of(column)
        if value is None:
            found = computed or "a default that is an expression"
            raise self._fault(f"a value for the column {column.name} of rows that are there", found)
        return FillColumn(column.uid, column.name, column.type, value)

    def _drop_column(self, action: ddl.DropColumn) -> None:
        slot = self._found(action.name, action.if_exists)
        if slot is not None:
            slot.dropped = True

    def _rename_column(self, action: ddl.RenameColumn) -> None:
        slot = self._found(action.name, may_lack=False)
        if slot is not None:
            slot.column = replace(slot.column, name=action.new_name)

    def _alter_default(self, action: ddl.AlterDefault) -> None:
        slot = self._found(action.name, may_lack=False)
        if slot is not None:
            default = None if action.default is None else typed_default(action.default, slot.column.type)
            slot.column = replace(slot.column, default=default)

    def _modify_column(self, action: ddl.ModifyColumn) -> None:
        slot = self._found(action.name, action.if_exists or action.column.virtual)
        if slot is None and not (action.if_exists or action.column.virtual):
            raise self._fault(f"a column {action.name}", "no column of that name in a table inferred from rows")
        if slot is None:
            return
        if slot.was is not None:
            self._refuse_copied(slot.was, action.definition.column)
        slot.column = self._modified(slot.column, action.definition)
        if action.place is not None:
            self._moves.append((slot, action.place))

    def _refuse_copied(self, old: Column, new: Column) -> None:
        """Raise where TiDB may convert the values of another column: the first one that Go's EqualFold takes for it.
        The order of columns that are inferred from rows is not known."""
        first = next(c.name for c in self._before.columns if are_alike(c.name, old.name))
        if self._before.inferred:  # their order is not known
            first = next(
                (c.name for c in self._before.columns if c is not old and are_alike(c.name, old.name)), old.name
            )
        if first != old.name and old.type != new.type:
            raise self._fault(f"values of the column {old.name} to convert", f"those of {first}, which TiDB may copy")

    def _modified(self, old: Column, definition: ddl.ColumnDefinition) -> Column:
        new = replace(self._as_defined(definition, old.uid), column_id=old.column_id)
        if old.virtual != new.virtual:
            raise self._fault(f"the column {old.name} to stay generated, or not", "a change between both")
        if not promotes(old.type, new.type):
            new = replace(new, uid=self._new_uid())
        if not new.virtual and not preserves(old.type, new.type):
            zero_dates = not old.nullable and old.type.kind in _DATES and new.type.kind not in _DATES
            self._column_effects.append(ConvertColumn(old.uid, new.uid, new.name, old.type, new.type, zero_dates))
        return new

    def _move(self, slot: _Slot, place: ddl.ColumnPosition) -> None:
        self._slots.remove(slot)
        self._slots.insert(0 if place.after is None else self._place_after(place.after), slot)

    def _place_after(self, name: str) -> int:
        live = [(i, s) for i, s in enumerate(self._slots) if not s.dropped]
        by_new_name = next((i for i, s in live if fold(s.column.name) == fold(name)), None)
        by_old_name = next((i for i, s in live if s.was is not None and fold(s.was.name) == fold(name)), None)
        found = by_new_name if by_new_name is not None else by_old_name
        if found is not None:
            return found + 1
        if self._before.inferred:
            return len(self._slots)
        raise self._fault(f"a column {name} to follow", "no column of that name")

    # -- character sets -------------------------------------------------------------------------------------------

    def _convert_charset(self, action: ddl.ConvertCharset) -> None:
        self._collation = action.collation
        for slot in self._slots if action.converts else ():
            slot.column = replace(slot.column, text_order=action.collation.order)

    # -- indexes --------------------------------------------------------------------------------------------------

    def _index_action(self, action: ddl.Action) -> None:
        work = self._indexes
        match action:
            case ddl.AddIndex(index=index, if_not_exists=if_not_exists):
                work.added.append((index, if_not_exists))
            case ddl.AddPrimaryKey(columns=columns):
                work.added.append((Index("PRIMARY", columns, unique=True, primary=True), False))
            case ddl.DropIndex(name=name):
                # The upstream had it; one that is not known here (plain ones often are not) is no part of a key here.
                work.dropped.add(fold(name))
            case ddl.DropPrimaryKey():
                work.primary_dropped = True
            case ddl.RenameIndex(name=name, new_name=new_name):
                work.renamed[fold(name)] = new_name

    def _altered_indexes(self) -> tuple[Index, ...]:
        work = self._indexes
        kept = [i for i in self._before.indexes if not self._is_dropped(i)]
        renamed = [
            replace(i, name=work.renamed.get(fold(i.name), i.name), columns=self._parts(i.columns)) for i in kept
        ]
        present = tuple(index for index in renamed if index.columns)
        names = {fold(index.name) for index in present}
        added = [self._checked(i) for i, unless_present in work.added if not (unless_present and fold(i.name) in names)]
        if any(i.primary for i in present) and any(i.primary for i in added):
            raise self._fault("one primary key", "a second one")
        return named_indexes(present, added)

    def _is_dropped(self, index: Index) -> bool:
        if index.primary:
            return self._indexes.primary_dropped
        return fold(index.name) in self._indexes.dropped

    def _parts(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new for part in parts if (new := self._part(part)) is not None)

    def _part(self, part: str) -> str | None:
        slot = self._origin.get(fold(part))
        if slot is not None:
            return None if slot.dropped else slot.column.name
        return self._renamed_in(part) if part.startswith("(") else part

    def _renamed_in(self, expression: str) -> str:
        """The expression with renamed columns under their new names."""
        renamed = {n: s.column.name for n, s in self._origin.items() if fold(s.column.name) != n}
        return _with_names(expression, renamed) if renamed else expression

    def _checked(self, index: Index) -> Index:
        return replace(index, columns=tuple(self._checked_part(part) for part in index.columns))

    def _checked_part(self, part: str) -> str:
        slot = next((s for s in self._slots if fold(s.column.name) == fold(part)), None)
        if slot is None and not part.startswith("("):
            slot = self._found(part, may_lack=False)
        return part if slot is None else slot.column.name

    # -- partitions -----------------------------------------------------------------------------------------------

    def _partition_action(self, action: ddl.Action) -> None:
        match action:
            case ddl.TruncatePartitions(names=None):
                self._row_effects.append(TruncateRows())
            case ddl.TruncatePartitions(names=tuple(names)):
                self._delete_rows(names)
            case ddl.DropPartitions():
                self._drop_partitions(action)
            case ddl.Repartition(partitioning=partitioning):
                self._partitioning = partitioning
            case ddl.ExchangePartition(with_table=other):
                raise self._fault("rows that stay in their table", f"an exchange of rows with {'.'.join(other)}")
            case _ if self._partitioning is not None:
                self._partitioning = recut(self._partitioning, action, self._before)

    def _delete_rows(self, names: tuple[str, ...]) -> None:
        self._row_effects.append(DeletePartitions(partition_rows(self._before, names)))

    def _drop_partitions(self, action: ddl.DropPartitions) -> None:
        names = action.names
        if action.if_exists and self._partitioning is not None and self._partitioning.partitions:
            known = {fold(partition.name) for partition in self._partitioning.partitions}
            names = tuple(name for name in names if fold(name) in known)
        if not names:
            return
        self._delete_rows(names)
        assert self._partitioning is not None  # partition_rows refuses a table whose partitions are not known
        gone = {fold(name) for name in names}
        kept = tuple(p for p in self._partitioning.partitions if fold(p.name) not in gone)
        self._partitioning = replace(self._partitioning, partitions=kept)

    def _altered_partitioning(self) -> Partitioning | None:
        old = self._partitioning
        if old is None:
            return None
        columns = tuple(self._part(name) or name for name in old.columns)
        return replace(old, columns=columns, expression=old.expression and self._renamed_in(old.expression))

    # -- the whole ------------------------------------------------------------------------------------------------

    def _altered_table(self) -> TableSchema:
        indexes = self._altered_indexes()
        check_names(*self._name, [slot.column.name for slot in self._slots])
        key = {fold(part) for index in indexes if index.primary for part in index.columns}
        columns = tuple(
            replace(s.column, nullable=s.column.nullable and fold(s.column.name) not in key) for s in self._slots
        )
        schema, name = self._name
        return replace(
            self._before,
            schema=schema,
            name=name,
            comment=self._comment,
            columns=columns,
            indexes=indexes,
            partitioning=self._altered_partitioning(),
            named_key=self._parts(self._before.named_key),
            collation=self._collation,
        )

    def _key_effects(self, table: TableSchema) -> list[Effect]:
        same = _key_uids(self._before) == _key_uids(table)
        return [] if same else [KeyChanged(self._before.key, table.key)]


def _key_uids(table: TableSchema) -> set[int]:
    return {column.uid for name in table.key if (column := table.column(name)) is not None}


def _with_names(expression: str, renamed: dict[str, str]) -> str:
    """The expression with these names (lower case) replaced, functions and string literals left alone."""
    parts, at = [], 0
    tokens = list(tokens_of(expression))
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        is_call = token.kind is TokenKind.WORD and following is not None and following.text == "("
        new = renamed.get(fold(token.text)) if token.kind in (TokenKind.WORD, TokenKind.QUOTED) else None
        if new is not None and not is_call:
            parts += [expression[at : token.start], "`", new.replace("`", "``"), "`"]
            at = token.end
    return "".join([*parts, expression[at:]])


def recut(partitioning: Partitioning, action: ddl.Action, table: TableSchema) -> Partitioning:
    """The partitioning after an action that moves no row out of the table."""
    match action:
        case ddl.AddPartitions():
            return _with_added(partitioning, action)
        case ddl.CoalescePartitions(count=count):
            left = max(1, partitioning.count - count)
            return replace(partitioning, count=left, partitions=partitioning.partitions[:left])
        case ddl.ReorganizePartitions(names=names, partitions=partitions) if names and partitioning.partitions:
            places = sorted(place_of(table, name) for name in names)
            return replace(partitioning, partitions=_replaced(partitioning.partitions, places, partitions))
    return partitioning


def _with_added(partitioning: Partitioning, action: ddl.AddPartitions) -> Partitioning:
    if partitioning.method in ("HASH", "KEY"):
        return _with_more_hashed(partitioning, action)
    if not partitioning.partitions:
        return partitioning  # the existing partitions are not known, so the added ones would be taken for the lowest
    known = {fold(partition.name) for partition in partitioning.partitions}
    added = [p for p in action.partitions if not (action.if_not_exists and fold(p.name) in known)]
    return replace(partitioning, partitions=(*partitioning.partitions, *added))


def _with_more_hashed(partitioning: Partitioning, action: ddl.AddPartitions) -> Partitioning:
    """HASH and KEY partitions are counted until one has its own name; then all are listed."""
    count = partitioning.count + (action.count or len(action.partitions))
    if not (partitioning.partitions or action.partitions):
        return replace(partitioning, count=count)
    before = partitioning.partitions or tuple(PartitionDefinition(f"p{place}") for place in range(partitioning.count))
    added = action.partitions or tuple(PartitionDefinition(f"p{place}") for place in range(partitioning.count, count))
    return replace(partitioning, count=count, partitions=(*before, *added))


def _replaced(
    partitions: tuple[PartitionDefinition, ...], places: list[int], new: tuple[PartitionDefinition, ...]
) -> tuple[PartitionDefinition, ...]:
    kept_before = tuple(p for i, p in enumerate(partitions) if i < places[0])
    kept_after = tuple(p for i, p in enumerate(partitions) if i > places[0] and i not in places)
    return (*kept_before, *new, *kept_after)
