"""What the first pass over an Avro stream notes besides: schemas as messages name them, tables, where deletes stand.

A delete says no commit_ts. It stands at the largest one told before it in the stream. This is exact for what
statements do: TiCDC sends no row from after a statement before all from before it, so after such a row a delete is
from after it too. And a delete that comes before any such row is from before a TRUNCATE or DROP: else the write of
the row it deletes would be from after it, and would have been told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.avro_repeats import Repeats
from ticdc_assets.protocols import avro_schema, confluent_avro
from ticdc_assets.protocols.avro_names import Candidates, Name, name_in_topic
from ticdc_assets.protocols.events import DdlEvent, RowEvent
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.schema.model import TableSchema

if TYPE_CHECKING:
    from ticdc_assets.pipeline.message_task import SchemaVersion, Told
    from ticdc_assets.pipeline.offset_ranges import Partition
    from ticdc_assets.sources.capture import Message


@dataclass(slots=True)
class AvroLook:
    """What is said of an Avro stream so far.

    `topics` are the topics of the changefeed's dispatch rules; `has_commit_ts` tells whether rows have one; `newest` is
    the largest so far, of earlier runs to begin with. `placed` gives the commit_ts that a delete stands at by its
    ordinal, 0 before any row. `names` has each table under its name as far as the topic tells it, `checked` the
    schemas as rows name them, `keys` those of tables of which only deletes were seen: their keys.
    """

    options: confluent_avro.Options
    topics: Sequence[str]
    has_commit_ts: bool
    newest: int = 0
    names: dict[Told, Name] = field(default_factory=dict)
    checked: dict[SchemaVersion, TableSchema] = field(default_factory=dict)
    keys: dict[SourceName, TableSchema] = field(default_factory=dict)
    placed: dict[int, int] = field(default_factory=dict)
    _repeats: dict[tuple[Partition, SourceName], Repeats] = field(default_factory=dict)
    _met: set[tuple[str, int | None, int]] = field(default_factory=set)

    def name(self, topic: str, schema: str, table: str) -> Name:
        """The table that messages of a topic name so."""
        told = (topic, schema, table)
        if told not in self.names:
            self.names[told] = name_in_topic(topic, (schema, table), self.topics)
        return self.names[told]

    def schema(self, message: Message) -> DdlEvent | None:
        """The schema of the row that a message carries, where no message of its topic had it before."""
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

    def change(self, event: RowEvent, message: Message, ordinal: int) -> RowEvent:
        """Note a change; it comes back under its table's name, and with the commit_ts it stands at."""
        written = (event.schema, event.table)
        schema, table, commit_ts = self.row(written, event.commit_ts, event.handle_only, message, ordinal)
        return replace(event, schema=schema, table=table, commit_ts=commit_ts)

    def row(
        self, written: Name, told_ts: int | None, only_key: bool, message: Message, ordinal: int
    ) -> tuple[str, str, int | None]:
        """Note a change of the table that a message names so; its true schema and table, and where it stands."""
        schema, table = self.name(message.topic, *written)
        name = fold_name(schema, table)
        repeats = self._repeats.setdefault(((message.topic, message.partition), name), Repeats())
        commit_ts, key = told_ts, message.key
        if commit_ts is not None:
            self.newest = max(self.newest, commit_ts)
        elif only_key and key:
            self._key(name, schema, table, message)
            commit_ts = self.placed[ordinal] = self.newest
        if key and self.has_commit_ts:
            if told_ts is None:
                repeats.delete(ordinal, key)
            else:
                repeats.row(ordinal, told_ts, key)
        return schema, table, commit_ts

    def _key(self, name: SourceName, schema: str, table: str, message: Message) -> None:
        if name not in self.keys:
            key_id, _ = confluent_avro.schema_ids(message.key, message.value, message.where)
            assert key_id is not None
            text = self.options.schemas(key_id)
            told = avro_schema.table_schema(text, text, f"schema {key_id}", (schema, table))
            self.keys[name] = replace(told, inferred=True)

    def repeated(self) -> frozenset[int]:
        """The ordinals of changes that were sent again."""
        return frozenset(ordinal for repeats in self._repeats.values() for ordinal in repeats.ordinals)


def true_names(names: Mapping[Told, Name], known: Sequence[Name]) -> dict[Told, Name | None]:
    """The tables that statements tell of, for each that messages name; None where it may be one of several."""
    candidates = Candidates(known)
    found: dict[Told, Name | None] = {}
    for (topic, schema, table), in_topic in names.items():
        meant = candidates.meant((schema, table), in_topic)
        found[topic, schema, table] = in_topic if not meant else meant[0] if len(meant) == 1 else None
    return found
