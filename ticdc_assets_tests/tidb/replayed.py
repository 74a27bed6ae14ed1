"""What this project makes of a recorded history, statement by statement, to be held against what the server had."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ticdc_assets.errors import SchemaError
from ticdc_assets.names import column_name, quote
from ticdc_assets.schema.arrow_types import BINARY_KINDS, INTEGER_BITS, arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl.statements import AlterTable, CreateTable, TruncateTable
from ticdc_assets.schema.evolution.evolve import alter_all, create
from ticdc_assets.schema.evolution.promotion import promotes
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, DeletePartitions, FillColumn, Shape, TruncateRows
from ticdc_assets.schema.model import Kind, MySqlType, TableSchema
from ticdc_assets.tables.conversion.convert import converted_value
from ticdc_assets.tables.conversion.literals import spark_type, typed_literal
from ticdc_assets.tables.mirror.partition_conditions import rows_condition
from ticdc_assets_tests.tidb.recording import History

NOT_SHOWN = "not sent"
"""The value of a column that was added with the time of the statement, which no stream tells."""
REFUSED = "refused"
SCHEMA = "s"


@dataclass
class TableState:
    """A table as the server had it at one step."""

    columns: list[list[str | None]] = field(default_factory=list)
    unique: list[list[Any]] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)

    def after(self, step: dict[str, Any]) -> TableState:
        known = {name: step.get(name, getattr(self, name)) for name in ("columns", "unique", "rows")}
        return TableState(**known)

    @property
    def types(self) -> dict[str, MySqlType]:
        return {str(name): canonical(_type_of(str(of), charset)) for name, of, charset, *_ in self.columns}

    @property
    def stored(self) -> list[str]:
        return [str(name) for name, *_, extra in self.columns if extra != "VIRTUAL GENERATED"]

    @property
    def key(self) -> list[str]:
        """The handle key's columns in table order, as the streams have it."""
        columns = [
            (str(name).lower(), null == "YES" or "VIRTUAL" in str(extra)) for name, _, _, null, extra in self.columns
        ]
        nullable = {name for name, is_nullable in columns if is_nullable}
        usable = [columns for _, columns in self.unique if not nullable & {c.lower() for c in columns}]
        primary = [columns for name, columns in self.unique if name == "PRIMARY"]
        chosen = {name.lower() for name in next(iter(primary), min(usable, key=len, default=[]))}
        return [str(name) for name, *_ in self.columns if str(name).lower() in chosen]

    def values(self) -> dict[int, dict[str, Any]]:
        """The rows by their number, in the lake's values."""
        types, names = self.types, [str(name) for name, *_ in self.columns]
        found = {}
        for row in self.rows:
            cells = {name: lake_value(types[name], cell) for name, cell in zip(names, row, strict=True)}
            found[int(cells["rn"])] = {name: cells[name] for name in self.stored}
        return found


def _type_of(of: str, charset: str | None) -> MySqlType:
    of = of.replace("'", "\0").split("\0")  # type: ignore[assignment]
    text = "'".join(part.upper() if place % 2 == 0 else part for place, part in enumerate(of))
    return replace(parse_type(text), charset=charset)


def canonical(of: MySqlType) -> MySqlType:
    """The type without what the server writes in more than one way: display widths, default lengths, character sets."""
    if of.kind in INTEGER_BITS or of.kind is Kind.YEAR:
        return replace(of, length=None, charset=None)
    lengths = {Kind.DECIMAL: 10, Kind.BIT: 1, Kind.CHAR: 1, Kind.BINARY: 1}
    moments = dict.fromkeys((Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME), 0)
    length = of.length if of.length is not None else {**lengths, **moments}.get(of.kind)
    scale = (of.scale or 0) if of.kind is Kind.DECIMAL else of.scale
    return replace(of, length=length, scale=scale, charset=None)


def lake_value(of: MySqlType, text: str | None) -> Any:
    """The lake's value of what the server tells, read without the code under test."""
    if text is None:
        return None
    if of.kind in BINARY_KINDS:
        return bytes.fromhex(text)
    if of.kind in INTEGER_BITS or of.kind in (Kind.YEAR, Kind.BIT):
        return Decimal(text) if pa.types.is_decimal(arrow_type(of)) else int(text)
    if of.kind is Kind.FLOAT:
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if of.kind is Kind.DOUBLE:
        return float(text)
    if of.kind is Kind.DECIMAL:
        return Decimal(text) if (of.length or 10) <= 38 else text
    if of.kind is Kind.VECTOR:
        return [struct.unpack("f", struct.pack("f", float(x)))[0] for x in text.strip("[]").split(",") if x]
    if of.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _moment(of.kind, text)
    return text


def _moment(kind: Kind, text: str) -> Any:
    if "-00" in text[:10] or text.startswith("0000"):
        return None  # no such day: NULL in the lake
    if kind is Kind.DATE:
        return date.fromisoformat(text)
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if kind is Kind.TIMESTAMP else found


# -- what is made of a statement --------------------------------------------------------------------------------------


@dataclass
class Evaluation:
    """An expression over columns of one row each, as Spark has to evaluate it: names, types and values, result type."""

    inputs: dict[str, tuple[pa.DataType, list[Any]]]
    expression: str
    result: pa.DataType
    found: list[Any] = field(default_factory=list)


@dataclass
class Finding:
    """A difference between the server and this project."""

    history: str
    sql: str
    what: str

    def __str__(self) -> str:
        return f"{self.history}: {self.what} -- {self.sql}"


@dataclass
class Step:
    """One statement with what was there before and behind it; `held` is why the table stops there, else ''."""

    history: str
    sql: str
    before: TableState
    after: TableState
    shape: TableSchema | None = None
    held: str = ""
    deletes: list[Evaluation] = field(default_factory=list)
    truncates: bool = False
    converts: dict[str, Evaluation] = field(default_factory=dict)
    fills: dict[str, Any] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    """Columns whose values stay: name now and before."""

    def differences(self) -> Iterator[Finding]:
        if self.shape is None:
            return
        for what in self._differences():
            yield Finding(self.history, self.sql, what)

    def _differences(self) -> Iterator[str]:
        shape = self.shape
        assert shape is not None
        in_lake = [(c.name, canonical(c.type), c.nullable, c.virtual) for c in shape.columns]
        in_tidb = [
            (name, self.after.types[str(name)], null == "YES", extra == "VIRTUAL GENERATED")
            for name, _, _, null, extra in self.after.columns
        ]
        if in_lake != in_tidb:
            yield f"columns {[o for o in in_lake if o not in in_tidb]} are {[t for t in in_tidb if t not in in_lake]}"
            if [o[0] for o in in_lake] != [t[0] for t in in_tidb]:
                yield f"columns {[o[0] for o in in_lake]} are {[t[0] for t in in_tidb]}"
            return
        if list(shape.key) != self.after.key:
            yield f"key {shape.key} is {self.after.key}"
        yield from self._row_differences(shape)

    def _row_differences(self, shape: TableSchema) -> Iterator[str]:
        before, after = self.before.values(), self.after.values()
        numbers = list(before)
        gone = {n for e in self.deletes for n, is_gone in zip(numbers, e.found, strict=True) if is_gone}
        kept = [] if self.truncates else [n for n in numbers if n not in gone]
        # A zero date is NULL in the lake, and so are its row's year and its place among partitions.
        unsure = {n for place, n in enumerate(numbers) if self.deletes and self._has_zero_date(place, before[n])}
        if [n for n in kept if n not in unsure] != [n for n in after if n not in unsure]:
            yield f"rows {kept} are {list(after)}"
            return
        for column in shape.stored_columns:
            for place, number in enumerate(numbers):
                if number in after and not self._is_zero_date(column.name, place, before[number]):
                    found = self._value(column.name, place, before[number])
                    if found not in (NOT_SHOWN, REFUSED) and found != after[number][column.name]:
                        was = before[number].get(self.same.get(column.name, column.name))
                        yield f"{column.name} of {was!r} is {after[number][column.name]!r}, not {found!r}"

    def _has_zero_date(self, place: int, before: dict[str, Any]) -> bool:
        names = [str(column) for column, *_ in self.before.columns]
        stored = dict(zip(names, self.before.rows[place], strict=True))
        return any(value is None and stored[name] is not None for name, value in before.items())

    def _is_zero_date(self, name: str, place: int, before: dict[str, Any]) -> bool:
        """Whether the value was a zero date, which is NULL in the lake already."""
        was = self.same.get(name)
        names = [str(column) for column, *_ in self.before.columns]
        return was is not None and before[was] is None and self.before.rows[place][names.index(was)] is not None

    def _value(self, name: str, place: int, before: dict[str, Any]) -> Any:
        if name in self.fills:
            return self.fills[name]
        if name in self.converts:
            evaluation = self.converts[name]
            [(_, values)] = evaluation.inputs.values()
            found = evaluation.found[place]
            return REFUSED if found is None and values[place] is not None else found
        return before[self.same[name]]

    def known_values(self) -> Iterator[Any]:
        """The results of conversions that are not refused, but for NULL."""
        for evaluation in self.converts.values():
            yield from (found for found in evaluation.found if found is not None)


def differences(steps: Iterable[Step]) -> list[str]:
    """All differences, each said in a line."""
    return [str(finding) for step in steps for finding in step.differences()]


def steps_of(history: History) -> Iterator[Step]:
    """The statements of a history up to the first that holds the table."""
    state, shape = TableState(), None
    for number, step in enumerate(history["steps"]):
        before, state = state, state.after(step)
        if "sql" not in step:
            continue
        made = Step(history["id"], step["sql"], before, state)
        try:
            shape = _apply(made, shape, history["zone"], f"{history['id']}_{number}")
        except SchemaError as error:
            made.held = str(error)
        yield made
        if made.held:
            return


def _apply(made: Step, shape: Shape | None, zone: str, name: str) -> Shape:
    [statement] = parse(made.sql, SCHEMA, restored=True)
    if isinstance(statement, CreateTable):
        shape = create(statement)
        made.shape = shape.table
        return shape
    assert shape is not None and isinstance(statement, AlterTable | TruncateTable)
    change = alter_all(shape, statement)
    before = {column.uid: column.name for column in shape.table.columns}
    values = list(made.before.values().values())
    made.same = {c.name: before[c.uid] for c in change.table.columns if c.uid in before}
    for effect in change.effects:
        match effect:
            case FillColumn():
                made.fills[effect.name] = _filled(effect, zone)
            case ConvertColumn():
                made.converts[effect.name] = _conversion(
                    effect, before[effect.old_uid], values, f"{name}_{effect.name}"
                )
                made.same[effect.name] = before[effect.old_uid]
            case TruncateRows():
                made.truncates = True
            case DeletePartitions():
                made.deletes.append(_deletion(effect, shape.table, values, zone, name))
    made.shape = change.table
    return change.shape


def _filled(effect: FillColumn, zone: str) -> Any:
    if effect.value.expression is not None:
        return NOT_SHOWN
    if effect.value.value is None:
        return None
    return pa.array(
        [typed_literal(effect.name, effect.type, effect.value.value, zone)], arrow_type(effect.type)
    ).to_pylist()[0]


def _conversion(effect: ConvertColumn, old_name: str, rows: list[dict[str, Any]], name: str) -> Evaluation:
    expression = converted_value(name, effect.old_type, effect.new_type)
    if expression is None:
        raise SchemaError(effect.name, "a change of type that is known", f"{effect.old_type} to {effect.new_type}", "")
    stays = promotes(effect.old_type, effect.new_type)
    of = arrow_type(effect.new_type if stays else effect.old_type)
    result = arrow_type(effect.new_type)
    cast = f"CAST({expression} AS {spark_type(result)})"
    return Evaluation({name: (of, [row[old_name] for row in rows])}, cast, result)


def _deletion(
    effect: DeletePartitions, table: TableSchema, rows: list[dict[str, Any]], zone: str, name: str
) -> Evaluation:
    condition = rows_condition(effect.partitions, zone)
    inputs: dict[str, tuple[pa.DataType, list[Any]]] = {}
    for column in table.stored_columns:
        named, own = quote(column_name(column.name)), f"{name}_{column.name}"
        if named in condition or column.name == "rn":  # a condition may be of no column
            condition = condition.replace(named, quote(column_name(own)))
            inputs[own] = (arrow_type(column.type), [row[column.name] for row in rows])
    return Evaluation(inputs, condition, pa.bool_())
