"""Compares the columns of rows with those of their table.

Where the columns of a table are inferred from rows, the row's own schema is inferred. It is in effect from just before
the row; the messages are then read again with it. `NameState` keeps why the rows of a name wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DISPLACED, DecodeError, SchemaError
from ticdc_assets.names.encoding import sanitised
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.rows.fit import ColumnRules
from ticdc_assets.pipeline.stream.decode.official_canal import PositionedRow
from ticdc_assets.pipeline.stream.decode.task import MessageTask, VersionClock
from ticdc_assets.pipeline.tasks import FileReport, FileState, QuarantineEntry
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.schema_compare import changed_column, widened
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.schema.model import Column, TableName, TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS

_Place = tuple[int, str, str, str, str, bool]

SHAPES_MAX: Final = 100
"""How many column sets of one table a task reports; others are reported once these are known."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """How a row differs from its table, naming the column, and whether the table's new schema can be inferred from it.
    `lacking` is a column of the table that the row does not have, `unknown` one of the row that the table does not
    have."""

    found: str
    is_inferable: bool
    lacking: str = ""
    unknown: str = ""


@dataclass(slots=True)
class Shapes:
    """The schemas inferred from rows of one name: each set of columns and types once, from the earliest row."""

    _by_columns: dict[tuple[Any, ...], DdlEvent] = field(default_factory=dict)

    def add(self, event: DdlEvent) -> None:
        """Keep the schema if its columns are new or its row is earlier. At most `SHAPES_MAX` sets are kept."""
        sent = event.after.columns if event.after is not None else ()
        columns = (
            event.unexplained,
            event.lacking,
            event.displaced,
            *sorted((fold(column.name), str(column.type)) for column in sent),
        )
        known = self._by_columns.get(columns)
        if (known is None and len(self._by_columns) < SHAPES_MAX) or (known and event.commit_ts < known.commit_ts):
            self._by_columns[columns] = event

    def events(self) -> tuple[DdlEvent, ...]:
        """The schemas, in the order in which they were added."""
        return tuple(self._by_columns.values())


# -- columns ----------------------------------------------------------------------------------------------------------


def spelt(task: MessageTask, column: Column) -> str:
    """The name of a column in rows, in lower case."""
    return fold(sanitised(column.name) if task.decoding.protocol == "avro" else column.name)


def column_rules(task: MessageTask, table: TableSchema, source: TableName) -> ColumnRules:
    """Which columns rows of a table have."""
    leaves_out = partial(task.schemas.selectors.leaves_out, *source)
    return ColumnRules(table, leaves_out, partial(spelt, task), takes_virtual=True)


def unlike(task: MessageTask, table: TableSchema, event: RowEvent, source: TableName) -> Unlike | None:
    """How a row differs from the present columns of its source table; None where it does not."""
    rules = column_rules(task, table, source)
    column = rules.unknown((*event.wire, *(event.before or ())))
    if column is not None:
        return Unlike(f"found {column!r}", is_inferable=True, unknown=column)
    if not event.handle_only:
        column = rules.lacking(event.wire, event.op is Op.DELETE, event.hints.key or ())
    if column is not None:
        return Unlike(f"found no {column!r}", is_inferable=False, lacking=column)
    column = changed_type(task, table, event)
    return None if column is None else Unlike(f"found another type of {column!r}", is_inferable=True)


def changed_type(task: MessageTask, table: TableSchema, event: RowEvent) -> str | None:
    """A column whose type in the row differs from that of its table, where that is inferred from rows."""
    infer = REGISTRY[task.decoding.protocol].infer
    if not table.inferred or infer is None or not event.hints.columns:
        return None
    try:
        return changed_column(table, infer(event))
    except SchemaError:
        return None  # the row has no types


def sample_is_unlike(task: MessageTask, table: TableSchema, name: SourceName, message: Message) -> bool:
    """Whether a message has a row of the table with another type. Types do not vary from row to row, so one row of a
    batch decides whether the others are checked."""
    if not table.inferred or REGISTRY[task.decoding.protocol].infer is None:
        return False
    events = REGISTRY[task.decoding.protocol].decode(message.key, message.value, message.where, task.decoding.options)
    rows = (event for event in events if isinstance(event, RowEvent) and fold_name(event.schema, event.table) == name)
    return any(changed_type(task, table, row) is not None for row in rows)


def inferred_by(task: MessageTask, name: TableName, event: RowEvent, message: Message) -> DdlEvent | None:
    """The schema inferred from a row, in effect from just before it; None where there is none."""
    try:
        table = _table(task, event, message)
    except (SchemaError, DecodeError):
        return None
    if table is None or task.schemas.clock is VersionClock.POSITION:
        return None  # by position, the first pass has all schemas in messages
    schema, own = name
    after = replace(table, schema=schema, name=own, inferred=True)
    return DdlEvent(_just_before(event), schema, own, "", after=after, where=message.where)


def unexplained_by(
    task: MessageTask, name: TableName, event: RowEvent, unlike: Unlike, message: Message
) -> DdlEvent | None:
    """The event of a row whose columns differ from those that statements give its table: it names the column and is in
    effect from just before the row. None if the stream has no schemas but those of rows (Avro)."""
    if task.schemas.clock is VersionClock.POSITION:
        return None
    ts = _before_position(task, event, message) if event.time.by_position else _just_before(event)
    return DdlEvent(ts, *name, "", where=message.where, unexplained=unlike.unknown, lacking=unlike.lacking)


def displaced_by(task: MessageTask, name: TableName, event: RowEvent, message: Message) -> DdlEvent:
    """The event of a row that only its position orders, and whose name no table has any more at that position. It is in
    effect from just before the row."""
    return DdlEvent(_before_position(task, event, message), *name, "", where=message.where, displaced=True)


def is_given_up(task: MessageTask, timeline: Timeline, gap: SchemaPeriod | SchemaGap | None) -> bool:
    """Whether a row in a gap between two tables is of the first, which has stopped."""
    before = (p for p in timeline if isinstance(p, SchemaPeriod) and gap is not None and p.after_ts < gap.after_ts)
    *_, last = None, *before
    return last is not None and last.source_table_id in task.schemas.stopped


def _before_position(task: MessageTask, event: RowEvent, message: Message) -> int:
    """The time before that of a row that only its position orders."""
    row = PositionedRow.of(event, (message.topic, message.partition), message.offset)
    return max(_just_before(event) - 1, task.schemas.statement_positions.last_before(row))


def _table(task: MessageTask, event: RowEvent, message: Message) -> TableSchema | None:
    infer = REGISTRY[task.decoding.protocol].infer
    if infer is not None:
        return infer(event) if event.hints.columns else None
    if task.decoding.protocol != "avro":
        return None
    writer = confluent_avro.schema_event(message.key, message.value, message.where, task.decoding.options)
    return writer.after if writer is not None else None


def _just_before(event: RowEvent) -> int:
    """The TSO before the row. Where only milliseconds are known, rows of one millisecond are separated by their
    columns."""
    if event.commit_ts is not None:
        return max(0, event.commit_ts - 1)
    return (event.time.commit_ms or 0) << LOGICAL_BITS


def merged_schemas(
    inferred: Iterable[DdlEvent], known: Iterable[DdlEvent], clock: VersionClock = VersionClock.COMMIT_TS
) -> list[DdlEvent]:
    """The schemas from rows, one for each table and time; without those that are already `known`.

    Where only milliseconds are known, a row that comes later may have further columns in the millisecond of a known
    schema. Its own is then next to that.
    """
    places = {_place(event): event for event in known if not event.query}
    found: dict[_Place, DdlEvent] = {}
    for event in sorted(inferred, key=lambda event: event.commit_ts):
        place = _place(event)
        found[place] = _joined(found[place], event) if place in found else event
    by_ms = clock is VersionClock.COMMIT_MS
    moved = (_beside(event, places) if by_ms else event for event in found.values())
    return [event for event in moved if _place(event) not in places]


def _beside(event: DdlEvent, known: Mapping[_Place, DdlEvent]) -> DdlEvent:
    """The event, moved behind the known schemas of its millisecond if none of them has all of its columns."""
    moved = event
    while (there := known.get(_place(moved))) is not None:
        if _columns(moved) <= _columns(there):
            return event
        moved = replace(moved, commit_ts=moved.commit_ts + 1)
    return moved


def _columns(event: DdlEvent) -> set[str]:
    return set() if event.after is None else {fold(column.name) for column in event.after.columns}


def _place(event: DdlEvent) -> _Place:
    """The table and the time of an event. A schema and the events of columns that stop the table may have the same
    ones."""
    return event.commit_ts, event.schema, event.table, event.unexplained, event.lacking, event.displaced


def _joined(one: DdlEvent, other: DdlEvent) -> DdlEvent:
    if one.after is None or other.after is None:
        return one
    try:
        return replace(one, after=widened(one.after, other.after))
    except SchemaError:
        return one  # the rows of the other are held once these are known


# -- what a task finds of the rows under one source name --------------------------------------------------------------


@dataclass(slots=True)
class NameState:
    """The state of one source name in this task."""

    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0
    problem: Note | None = None
    state: FileState = FileState.READ
    bad: list[QuarantineEntry] = field(default_factory=list)
    shapes: Shapes = field(default_factory=Shapes)

    def count(self, rows: int, above: int, repeats: int) -> None:
        """Count these rows, those above the run among them, and repeats."""
        self.rows += rows
        self.above += above
        self.repeats += repeats

    def waits(self, problem: Note) -> None:
        """Let the table wait, unless it is known to be stopped."""
        if self.state is not FileState.STOPPED:
            self.state, self.problem = FileState.WAITING, problem

    def stops(self, problem: Note) -> None:
        """Stop the table."""
        self.state, self.problem = FileState.STOPPED, problem

    def report(self, name: SourceName) -> FileReport:
        """The report of this name for the driver."""
        return FileReport(
            ".".join(name),
            name,
            self.state,
            self.rows,
            self.above,
            self.repeats,
            self.zero_dates,
            tuple(self.bad),
            self.problem,
            shapes=self.shapes.events(),
            ambiguous_times=self.ambiguous_times,
        )


def no_table(event: RowEvent, message: Message) -> Note:
    """Why a row waits whose table no longer has that name."""
    detail = f"{message.where}: {event.schema}.{event.table}: {DISPLACED}."
    return Note(NoteCode.INPUT, detail, (Advice.CREATE_AGAIN,))


def no_schema(event: RowEvent) -> Note:
    """Why a row waits whose schema is not known yet."""
    version = "" if event.hints.schema_version is None else f" version {event.hints.schema_version}"
    expected = f"expected the schema{version} that its rows were written with"
    return Note(NoteCode.INPUT, f"{event.schema}.{event.table}: {expected}, found none yet.", (Advice.AWAIT_SCHEMA,))
