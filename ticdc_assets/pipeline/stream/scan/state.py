"""How a stream is scanned, and how one row, schema or statement is added to the scan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ticdc_assets.errors import SchemaError
from ticdc_assets.pipeline.stream.decode.official_canal import PositionedRow
from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.protocols.avro.table_names import topic_of
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent, DdlOrigin
from ticdc_assets.schema.history.fold.renames import rename_pairs
from ticdc_assets.schema.history.sent_statements import statements_of
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What is known of a stream before it is read.

    `topics` are the topics in dispatch rules, `newest` is the largest commit_ts of earlier runs. From the first row
    above `until`, where given, messages wait: the statements about their tables are not known yet. If
    `deletes_are_keys` is true, deletes have only their key, mostly without a mark. `placed` are the times that earlier
    runs assigned to events that only their position orders.
    """

    protocol: str
    options: Any
    dating: VersionClock = VersionClock.COMMIT_TS
    topics: tuple[str, ...] = ()
    has_commit_ts: bool = True
    until: int | None = None
    newest: int = 0
    deletes_are_keys: bool = False
    placed: Mapping[tuple[str, int, int], int] = field(default_factory=dict)

    @property
    def heads_suffice(self) -> bool:
        """Whether the scan of rows and watermarks needs nothing but their heads; of Avro, also their keys."""
        is_dated = self.dating is VersionClock.COMMIT_TS or self.protocol == "avro"
        return is_dated and self.until is None and not self.deletes_are_keys

    def is_whole(self, row: RowEvent) -> bool:
        """Whether a row has all columns of its table, as far as is known."""
        return not row.handle_only and not (self.deletes_are_keys and row.op is Op.DELETE)


def positioned_statement(scan: StreamScan, event: DdlEvent, message: Message) -> DdlEvent:
    """A statement that its position orders, with its assigned time."""
    place = (message.topic, message.partition, message.offset)
    commit_ts = scan.clocks.of_statement(place, event.origin.commit_ms)
    return replace(event, commit_ts=commit_ts, origin=replace(event.origin, place=place))


def positioned_row(scan: StreamScan, row: RowEvent, message: Message) -> int:
    """The time assigned to a row that its position orders."""
    partition = (message.topic, message.partition)
    of_name = scan.tables.first_positioned.setdefault(fold_name(row.schema, row.table), {})
    of_name.setdefault(partition, PositionedRow.of(row, partition, message.offset))
    return scan.clocks.of_row((*partition, message.offset), row.time.commit_ms)


def first_row(
    scan: StreamScan, stream: StreamForm, row: RowEvent, message: Message, ordinal: int, given: int | None = None
) -> None:
    """Record the time of a table's first row, and the columns inferred from it.

    Args:
        given: the commit_ts of a row whose message has none.
    """
    name = fold_name(row.schema, row.table)
    ts = ordinal + 1 if stream.dating is VersionClock.POSITION else row.commit_ts if given is None else given
    if ts is None:
        ts = (row.time.commit_ms or 0) << LOGICAL_BITS
    scan.tables.add_row(message.topic, row.schema, row.table, ts)
    infer = REGISTRY[stream.protocol].infer
    if infer is None or scan.tables.is_inferred(name, ts) or not row.hints.columns or not stream.is_whole(row):
        return
    try:
        table = infer(row)
    except SchemaError:
        return  # a later row, or the user's schema_files, may have more columns
    place = (message.topic, message.partition, message.offset) if row.time.by_position else None
    before_ts, origin = max(0, ts - 1), DdlOrigin(place=place)
    scan.tables.inferred[name] = DdlEvent(
        before_ts, row.schema, row.table, "", after=table, where=message.where, origin=origin
    )


def avro_schema(
    scan: StreamScan, avro: AvroScan, stream: StreamForm, message: Message, ordinal: int
) -> DdlEvent | None:
    """The writer schema of an Avro message, where no earlier message had it."""
    schema = avro.schema(message)
    if schema is not None and stream.dating is VersionClock.POSITION:
        # Such a stream has no other schemas: each is in effect from the first message that is written with it.
        # Positions count from 1, as those of rows: 0 is for schemas from before the stream, which have a version.
        scan.statements.append(replace(schema, commit_ts=ordinal + 1))
    return schema


def infer_from_schema(
    scan: StreamScan, stream: StreamForm, event: DdlEvent | None, schema: str, table: str, commit_ts: int | None
) -> None:
    """Record the schema `event` that an Avro message has, as the columns of a table from a row at `commit_ts` on."""
    name, ts = fold_name(schema, table), commit_ts or 0
    if event is not None and stream.dating is not VersionClock.POSITION and not scan.tables.is_inferred(name, ts):
        scan.tables.inferred[name] = replace(event, commit_ts=max(0, ts - 1), hints=replace(event.hints, version=None))


def date_of(row: RowEvent, dating: VersionClock) -> int | None:
    """The largest possible commit_ts of the row."""
    if row.commit_ts is None and row.time.commit_ms is not None and dating is VersionClock.COMMIT_MS:
        return last_of(row.time.commit_ms)
    return row.commit_ts


def last_of(commit_ms: int) -> int:
    """The last TSO of a millisecond."""
    return (commit_ms + 1 << LOGICAL_BITS) - 1


def named_in(topic: str, event: DdlEvent, rules: Iterable[str]) -> set[SourceName]:
    """The tables whose messages are in a topic, as the statement or schema `event` in it shows. `rules` are the topics
    that dispatch rules name.

    TiCDC sends a statement to the topic of the table's old name. A renamed table may stay in that topic.
    """
    before, now = _named_before(event), (event.schema, event.table)
    if before and fold_name(*now) not in before and any(topic == topic_of(rule, now) for rule in rules):
        return before | {fold_name(*now)}
    return before


def _named_before(event: DdlEvent) -> set[SourceName]:
    if not event.table:
        return set()
    if event.before is not None:
        return {fold_name(event.before.schema, event.before.name)}
    try:
        statements = statements_of(event) if event.query else ()
    except SchemaError:
        return set()
    renamed = {fold_name(*old) for old, _ in rename_pairs(event, statements)} or {fold_name(event.schema, event.table)}
    return {name for name in renamed if name[0]}
