"""A plain model of a TiDB database: tables, transactions, statements, and what is true of them at every TSO.

It knows nothing of the code under test. A table is followed by its `source_table` from CREATE to DROP, through all
names; rows are dictionaries; the log is what happened, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ticdc_assets_tests.protocols.happened import Change

Name = tuple[str, str]
Value = int | float | str | None
Row = Mapping[str, Value]

MS = 1 << 18
DAY = 24 * 3600 * 1000 * MS
START_TS = 1_754_006_300_000 * MS


@dataclass(frozen=True)
class Column:
    """A column; `fill` is what rows that were there get when it is added."""

    name: str
    type: str
    nullable: bool = True
    default: Value = None

    @property
    def fill(self) -> Value:
        if self.default is not None or self.nullable:
            return self.default
        return "" if self.type.startswith("VARCHAR") else 0

    @property
    def sql(self) -> str:
        default = f"_UTF8MB4'{self.default}'" if isinstance(self.default, str) else str(self.default)
        parts = [f"`{self.name}` {self.type}", "" if self.nullable else "NOT NULL"]
        return " ".join(filter(None, [*parts, "" if self.default is None else f"DEFAULT {default}"]))


@dataclass(frozen=True)
class Shape:
    """A table as one statement left it; `version` is TiDB's UpdateTS, a little below the statement's commit_ts."""

    source_table: int
    table_id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: str | None
    unique: str | None
    version: int

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def create(self) -> str:
        parts = [column.sql for column in self.columns]
        parts += [f"PRIMARY KEY(`{self.key}`)"] if self.key else []
        parts += [f"UNIQUE `uk`(`{self.unique}`)"] if self.unique else []
        return f"CREATE TABLE `{self.name}` ({','.join(parts)})"


@dataclass(frozen=True)
class RowChange:
    """One change of one row as TiCDC sends it: updates of a key are a D and an I already."""

    commit_ts: int
    shape: Shape
    op: str
    row: Row
    old: Row | None = None


@dataclass(frozen=True)
class Statement:
    """A DDL statement; `after` is None for a DROP, `kind` is the name of TiDB's action."""

    commit_ts: int
    kind: str
    query: str
    before: Shape | None
    after: Shape | None

    @property
    def source_table(self) -> int:
        shape = self.after or self.before
        assert shape is not None
        return shape.source_table


DatabaseEvent = RowChange | Statement
Action = tuple[int, str, int, int]
"""Of a transaction: which table, what to do, to which row, with which value."""


@dataclass
class Database:
    """The database now, and its log; the rows of a table are by their handle, a hidden one where it has no key."""

    log: list[DatabaseEvent] = field(default_factory=list)
    now: int = START_TS
    live: list[Shape] = field(default_factory=list)
    _rows: dict[int, dict[int, Row]] = field(default_factory=dict)
    _numbers: int = 0

    # -- transactions -------------------------------------------------------------------------------------------------

    def transact(self, actions: Sequence[Action], step: int) -> None:
        """One transaction; each row is changed at most once, and an action that cannot be done is left out."""
        if not self.live:
            return
        ts = self._tick(step)
        touched: set[tuple[int, int]] = set()
        changes: list[RowChange] = []
        for number, kind, handle, value in actions:
            shape = self.live[number % len(self.live)]
            changes += self._act(ts, shape, kind, handle, value, touched)
        # Inside one table's transaction TiCDC sends deletes first, then updates, then inserts.
        changes.sort(key=lambda change: (change.shape.source_table, "DUI".index(change.op)))
        self.log += changes

    def _act(
        self, ts: int, shape: Shape, kind: str, handle: int, value: int, touched: set[tuple[int, int]]
    ) -> list[RowChange]:
        rows = self._rows[shape.source_table]
        if shape.key is None:
            return self._act_without_key(ts, shape, kind, value, rows, touched)
        old = rows.get(handle)
        target = value % 4 if kind == "move" else handle
        if {(shape.source_table, handle), (shape.source_table, target)} & touched or (
            target != handle and target in rows
        ):
            return []
        touched |= {(shape.source_table, handle), (shape.source_table, target)}
        if kind == "delete" or (kind == "move" and old is not None):
            if old is None:
                return []
            del rows[handle]
            gone = [RowChange(ts, shape, "D", old)]
            return gone if kind == "delete" else [*gone, *self._put(ts, shape, target, value, rows)]
        return self._put(ts, shape, handle, value, rows)

    def _put(self, ts: int, shape: Shape, handle: int, value: int, rows: dict[int, Row]) -> list[RowChange]:
        old = rows.get(handle)
        new = self._filled(shape, handle, value)
        rows[handle] = new
        if old is None:
            return [RowChange(ts, shape, "I", new)]
        if shape.unique is not None and old[shape.unique] != new[shape.unique]:
            return [RowChange(ts, shape, "D", old), RowChange(ts, shape, "I", new)]
        return [RowChange(ts, shape, "U", new, old)]

    def _act_without_key(
        self, ts: int, shape: Shape, kind: str, value: int, rows: dict[int, Row], touched: set[tuple[int, int]]
    ) -> list[RowChange]:
        free = [number for number in rows if (shape.source_table, number) not in touched]
        if kind in ("delete", "move") and free:
            number = free[value % len(free)]
            touched.add((shape.source_table, number))
            old = rows.pop(number)
            if kind == "delete":
                return [RowChange(ts, shape, "D", old)]
            rows[number] = self._filled(shape, 0, value)
            return [RowChange(ts, shape, "U", rows[number], old)]
        self._numbers += 1
        touched.add((shape.source_table, self._numbers))
        rows[self._numbers] = self._filled(shape, 0, value % 2)  # few values, so that equal rows are common
        return [RowChange(ts, shape, "I", rows[self._numbers])]

    @staticmethod
    def _filled(shape: Shape, handle: int, value: int) -> Row:
        def cell(column: Column) -> Value:
            if column.name == shape.key:
                return handle
            if column.type.startswith("VARCHAR"):
                return f"v{value}"
            return None if column.nullable and value == 3 else value % 3

        return {column.name: cell(column) for column in shape.columns}

    # -- statements ---------------------------------------------------------------------------------------------------

    def create(self, name: Name, key: bool, unique: bool, step: int) -> None:
        if any((shape.schema, shape.name) == name for shape in self.live):
            return
        ts = self._tick(step)
        self._numbers += 1
        columns = [Column("id", "INT", nullable=not key), Column("v", "VARCHAR(20)")]
        columns += [Column("u", "INT")] if unique and key else []
        source_table = self._numbers
        shape = Shape(
            source_table, 100 + source_table, *name, tuple(columns), "id" if key else None,
            "u" if unique and key else None, ts - 3,
        )  # fmt: skip
        self.live.append(shape)
        self._rows[source_table] = {}
        self.log.append(Statement(ts, "create table", shape.create, None, shape))

    def alter(self, number: int, kind: str, what: int, step: int) -> None:
        """One statement on a table that is there; nothing where it cannot be done."""
        if not self.live:
            return
        shape = self.live[number % len(self.live)]
        made = _ALTERATIONS[kind](shape, what, {(s.schema, s.name) for s in self.live})
        if made is None:
            return
        after, query = made
        ts = self._tick(step)
        self._numbers += 1
        if after is not None:
            renumbered = 100 + self._numbers if kind == "truncate table" else shape.table_id
            version = shape.version if kind == "rename table" else ts - 3
            after = replace(after, version=version, table_id=renumbered)
        self.live[self.live.index(shape)] = after or shape
        if after is None:
            self.live.remove(shape)
        self.log.append(Statement(ts, kind, query, shape, after))
        self._rows[shape.source_table] = {
            handle: refilled(row, shape, after) for handle, row in self._rows[shape.source_table].items()
        } if after is not None and kind != "truncate table" else {}  # fmt: skip

    def _tick(self, step: int) -> int:
        self.now += (7, MS + 5, 90 * MS, DAY)[step % 4]
        return self.now

    # -- truth --------------------------------------------------------------------------------------------------------

    def changes(self, since: int, until: int) -> Counter[Change]:
        """Every change with commit_ts in `(since, until]`, as a changelog must show it."""
        return Counter(
            Change(c.shape.schema, c.shape.name, c.op, c.commit_ts, image(c.row), image(c.old))
            for c in self.log
            if isinstance(c, RowChange) and since < c.commit_ts <= until
        )  # type: ignore[arg-type]

    def rows(self, since: int, until: int) -> dict[Name, Counter[tuple[tuple[str, Value], ...] | None]]:
        """The rows of every table with a key that is there at `until`, computed from the events after `since` alone."""
        shapes: dict[int, Shape] = {}
        rows: dict[int, dict[Value, Row]] = {}
        for event in (event for event in self.log if event.commit_ts <= until):
            if isinstance(event, Statement):
                _apply(event, shapes, rows)
            elif event.commit_ts > since and event.shape.key is not None:
                rows[event.shape.source_table].pop(event.row[event.shape.key], None)
                if event.op != "D":
                    rows[event.shape.source_table][event.row[event.shape.key]] = event.row
        keyed = {source_table: shape for source_table, shape in shapes.items() if shape.key is not None}
        return {
            (shape.schema, shape.name): Counter(image(row) for row in rows[source_table].values())
            for source_table, shape in keyed.items()
        }

    def shapes_at(self, ts: int) -> Iterator[Shape]:
        """The tables that are there at `ts`."""
        shapes: dict[int, Shape] = {}
        for event in self.log:
            if isinstance(event, Statement) and event.commit_ts <= ts:
                _apply(event, shapes, {})
        yield from shapes.values()


def _apply(statement: Statement, shapes: dict[int, Shape], rows: dict[int, dict[Value, Row]]) -> None:
    source_table, after = statement.source_table, statement.after
    if after is None:
        shapes.pop(source_table)
        rows.pop(source_table, None)
        return
    shapes[source_table] = after
    if statement.before is None or statement.kind == "truncate table":
        rows[source_table] = {}
    elif source_table in rows:
        rows[source_table] = {
            handle: refilled(row, statement.before, after) for handle, row in rows[source_table].items()
        }


def refilled(row: Row, before: Shape, after: Shape) -> Row:
    """A row that was there, as the statement left it; a renamed column keeps its place."""
    if len(before.columns) == len(after.columns):
        return {new: row[old] for old, new in zip(before.names, after.names, strict=True)}
    return {c.name: row[c.name] if c.name in before.names else c.fill for c in after.columns}


def image(row: Row | None) -> tuple[tuple[str, Value], ...] | None:
    return None if row is None else tuple(sorted(row.items()))


# -- statements on a table: the shape after, None where it is gone, and the text --------------------------------------

_ADDED = [
    lambda name: Column(name, "INT"),
    lambda name: Column(name, "INT", nullable=False, default=7),
    lambda name: Column(name, "VARCHAR(20)", default="x"),
    lambda name: Column(name, "BIGINT", nullable=False),
]
_Made = tuple[Shape | None, str] | None


def _add(shape: Shape, what: int, names: set[Name]) -> _Made:
    free = [name for name in ("a", "b", "c") if name not in shape.names]
    if not free:
        return None
    column = _ADDED[what % len(_ADDED)](free[0])
    first = what >= len(_ADDED)
    columns = (column, *shape.columns) if first else (*shape.columns, column)
    query = f"ALTER TABLE `{shape.schema}`.`{shape.name}` ADD COLUMN {column.sql}{' FIRST' if first else ''}"
    return replace(shape, columns=columns), query


def _droppable(shape: Shape) -> list[Column]:
    return [c for c in shape.columns if c.name not in (shape.key, shape.unique, "id")]


def _drop_column(shape: Shape, what: int, names: set[Name]) -> _Made:
    found = _droppable(shape)
    if len(found) < 2:
        return None
    column = found[what % len(found)]
    columns = tuple(c for c in shape.columns if c is not column)
    return replace(shape, columns=columns), f"ALTER TABLE `{shape.name}` DROP COLUMN `{column.name}`"


def _modify(shape: Shape, what: int, names: set[Name]) -> _Made:
    wider = {"INT": "BIGINT", "VARCHAR(20)": "VARCHAR(40)"}
    found = [c for c in _droppable(shape) if c.type in wider]
    if not found:
        return None
    old = found[what % len(found)]
    new = replace(old, type=wider[old.type])
    columns = tuple(new if c is old else c for c in shape.columns)
    return replace(shape, columns=columns), f"ALTER TABLE `{shape.name}` MODIFY COLUMN {new.sql}"


def _rename_column(shape: Shape, what: int, names: set[Name]) -> _Made:
    found, free = _droppable(shape), [name for name in ("a", "b", "c") if name not in shape.names]
    if not found or not free:
        return None
    old, new = found[what % len(found)].name, free[-1]
    columns = tuple(replace(c, name=new) if c.name == old else c for c in shape.columns)
    return replace(shape, columns=columns), f"ALTER TABLE `{shape.name}` RENAME COLUMN `{old}` TO `{new}`"


def _rename(shape: Shape, what: int, names: set[Name]) -> _Made:
    new = NAMES[what % len(NAMES)]
    if new in names:
        return None
    query = f"RENAME TABLE `{shape.schema}`.`{shape.name}` TO `{new[0]}`.`{new[1]}`"
    return replace(shape, schema=new[0], name=new[1]), query


def _truncate(shape: Shape, what: int, names: set[Name]) -> _Made:
    return shape, f"TRUNCATE TABLE `{shape.schema}`.`{shape.name}`"


def _add_index(shape: Shape, what: int, names: set[Name]) -> _Made:
    return shape, f"ALTER TABLE `{shape.name}` ADD INDEX `i{what}`(`id`)"


def _drop(shape: Shape, what: int, names: set[Name]) -> _Made:
    return None, f"DROP TABLE `{shape.schema}`.`{shape.name}`"


NAMES: list[Name] = [("s", "t"), ("s", "u"), ("d", "t")]
_ALTERATIONS = {
    "add column": _add,
    "drop column": _drop_column,
    "modify column": _modify,
    "rename column": _rename_column,
    "rename table": _rename,
    "truncate table": _truncate,
    "add index": _add_index,
    "drop table": _drop,
}
ALTERATIONS = list(_ALTERATIONS)
