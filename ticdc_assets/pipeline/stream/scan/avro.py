"""What the first pass over an Avro stream also collects: schemas, table names, the commit_ts of deletes, and repeats.

A delete has no commit_ts. It gets the largest commit_ts before it in the stream. For the order of statements this is
exact: TiCDC sends no row from after a statement before all rows from before it, so a delete after such a row is from
after the statement too. A delete before any such row is from before a TRUNCATE or DROP: else the insert of the row that
it deletes would be from after the statement, and would precede the delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.avro import table_schema as avro_schema
from ticdc_assets.protocols.avro.table_names import Candidates, name_in_topic
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.schema.model import TableName, TableSchema

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.decode.task import MessageName, SchemaVersion
    from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition
    from ticdc_assets.sources.capture import Message


# -- repeats, which deletes without a commit_ts make hard to find ------------------------------------------------------
#
# After a restart, TiCDC sends all changes above its checkpoint again. In a partition, the changes of one key keep
# their order, so a row that is not newer than the newest row of its key is a repeat. A delete is a repeat where it
# follows such a row, or another delete with no row between. The delete before a repeated newest row is removed as
# well: it either belongs to the second delivery and preceded that row in the first one, or comes again later in the
# second delivery. Changes that an earlier run read are not known here: such repeats stay in the changelog, and the
# mirror is still correct.
#
# A row that follows the delete of its key, was not sent before, and is older than an earlier row of its table in the
# partition, is misplaced: another writer changed the order of the messages, and the row may be the one that was
# deleted. Rows up to the first one of a run may be repeats of an earlier run, so these are not counted.


@dataclass(slots=True)
class _Key:
    """The newest row of a key, the last row that was sent, and the delete after the newest row."""

    newest: int = 0
    last: int = 0
    delete: int | None = None


@dataclass(slots=True)
class Repeats:
    """One table's changes in one partition, added in order. `ordinals` has the repeats, `misplaced` the number of
    misplaced rows."""

    ordinals: set[int] = field(default_factory=set)
    misplaced: int = 0
    _first: int = 0
    _newest: int = 0
    _keys: dict[bytes, _Key] = field(default_factory=dict)

    def row(self, ordinal: int, commit_ts: int, key: bytes) -> None:
        """Add the message with this ordinal as a row."""
        state = self._keys.setdefault(key, _Key())
        state.last = commit_ts
        if commit_ts > state.newest:
            if commit_ts >= self._newest:
                self._newest = commit_ts
                self._first = self._first or commit_ts
            elif state.delete is not None and commit_ts > self._first:
                self.misplaced += 1
            state.newest, state.delete = commit_ts, None
            return
        self.ordinals.add(ordinal)
        if commit_ts == state.newest and state.delete is not None:
            self.ordinals.add(state.delete)
            state.delete = None

    def delete(self, ordinal: int, key: bytes) -> None:
        """Add the message with this ordinal as a delete."""
        state = self._keys.setdefault(key, _Key())
        if state.last < state.newest or state.delete is not None:
            self.ordinals.add(ordinal)
        else:
            state.delete = ordinal


@dataclass(frozen=True, slots=True)
class AvroTable:
    """A table in a partition: its true schema and table, `name` in lower case, and its repeats there."""

    schema: str
    table: str
    name: SourceName
    repeats: Repeats


@dataclass(slots=True)
class AvroScan:
    """What is known of an Avro stream so far.

    `topics` are the topics of the changefeed's dispatch rules; `has_commit_ts` is whether rows have one; `newest` is
    the largest one so far, including earlier runs. `placed` gives the commit_ts assigned to a delete by its ordinal, 0
    before any row. `names` has the table of each name in the messages, as far as the topic determines it, `checked` the
    schemas by the versions that rows name, `keys` the key columns of tables of which only deletes were seen.
    """

    options: DecoderOptions
    topics: Sequence[str]
    has_commit_ts: bool
    newest: int = 0
    names: dict[MessageName, TableName] = field(default_factory=dict)
    checked: dict[SchemaVersion, TableSchema] = field(default_factory=dict)
    keys: dict[SourceName, TableSchema] = field(default_factory=dict)
    placed: dict[int, int] = field(default_factory=dict)
    _repeats: dict[tuple[TopicPartition, SourceName], Repeats] = field(default_factory=dict)
    _met: set[tuple[str, int | None, int]] = field(default_factory=set)

    def name(self, topic: str, schema: str, table: str) -> TableName:
        """The table that messages of a topic call by this name."""
        key = (topic, schema, table)
        if key not in self.names:
            self.names[key] = name_in_topic(topic, (schema, table), self.topics)
        return self.names[key]

    def has_met(self, topic: str, key: bytes | None, value_id: int | None) -> bool:
        """Whether an earlier message of the topic had these schemas. Of a delete, whose `value_id` is None, whether the
        schema of its key is known, else it raises DecodeError."""
        if value_id is None:
            return not key or bool(list(confluent_avro.decode(key, None, topic, self.options)))
        key_id, _ = confluent_avro.schema_ids(key, None, topic)
        return (topic, key_id, value_id) in self._met

    def schema(self, message: Message) -> DdlEvent | None:
        """The schema of the row in a message, where no earlier message of its topic had it."""
        key_id, value_id = confluent_avro.schema_ids(message.key, message.value, message.where)
        if value_id is None or (message.topic, key_id, value_id) in self._met:
            return None
        event = confluent_avro.schema_event(message.key, message.value, message.where, self.options)
        if event is None or event.after is None:
            return None
        self._met.add((message.topic, key_id, value_id))
        self.checked[fold_name(event.schema, event.table), value_id] = event.after
        schema, table = self.name(message.topic, event.schema, event.table)
        after = replace(event.after, schema=schema, name=table, inferred=True)
        return replace(event, schema=schema, table=table, after=after)

    def table(self, partition: TopicPartition, written: TableName) -> AvroTable:
        """The table that messages of a partition call by this name."""
        schema, table = self.name(partition[0], *written)
        name = fold_name(schema, table)
        return AvroTable(schema, table, name, self._repeats.setdefault((partition, name), Repeats()))

    def change(self, event: RowEvent, message: Message, ordinal: int) -> RowEvent:
        """Add a change. Returns it under its table's name, with its own or its assigned commit_ts."""
        table = self.table((message.topic, message.partition), (event.schema, event.table))
        if event.commit_ts is None and event.handle_only and message.key:
            self.keep_key(table, message)
        commit_ts = self.row(table, event.commit_ts, event.handle_only, message.key, ordinal)
        return replace(event, schema=table.schema, table=table.table, commit_ts=commit_ts)

    def row(self, table: AvroTable, sent_ts: int | None, only_key: bool, key: bytes | None, ordinal: int) -> int | None:
        """Add a change of a table.

        Args:
            sent_ts: the commit_ts in the message; None where it has none.
            only_key: whether the change is a delete that has only its key.
            key: the key of the message.

        Returns:
            The commit_ts in the message, else the one that is assigned to a delete; None for other rows without one.
        """
        commit_ts = sent_ts
        if commit_ts is not None:
            self.newest = max(self.newest, commit_ts)
        elif only_key and key:
            commit_ts = self.placed[ordinal] = self.newest
        if key and self.has_commit_ts:
            if sent_ts is None:
                table.repeats.delete(ordinal, key)
            else:
                table.repeats.row(ordinal, sent_ts, key)
        return commit_ts

    def keep_key(self, table: AvroTable, message: Message) -> None:
        """Keep the key columns of a table, from a message with only a key."""
        if table.name not in self.keys:
            key_id, _ = confluent_avro.schema_ids(message.key, message.value, message.where)
            assert key_id is not None
            text = self.options.schemas(key_id)
            event = avro_schema.table_schema(text, text, f"schema {key_id}", (table.schema, table.table))
            self.keys[table.name] = replace(event, inferred=True)

    def misplaced(self) -> dict[SourceName, int]:
        """By table, the number of misplaced rows, where there are any."""
        found: dict[SourceName, int] = {}
        for (_, name), repeats in self._repeats.items():
            if repeats.misplaced:
                found[name] = found.get(name, 0) + repeats.misplaced
        return found

    def repeated(self) -> frozenset[int]:
        """The ordinals of repeats."""
        return frozenset(ordinal for repeats in self._repeats.values() for ordinal in repeats.ordinals)


def true_names(
    names: Mapping[MessageName, TableName], known: Sequence[TableName]
) -> dict[MessageName, TableName | None]:
    """The known table for each name in the messages; None where it may be one of several."""
    candidates = Candidates(known)
    found: dict[MessageName, TableName | None] = {}
    for (topic, schema, table), in_topic in names.items():
        meant = candidates.meant((schema, table), in_topic)
        found[topic, schema, table] = in_topic if not meant else meant[0] if len(meant) == 1 else None
    return found
