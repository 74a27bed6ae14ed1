"""The control table `messages`: the landed messages of Kafka topics, each once, raw.

The summary of each landing commit has the next offset of each partition. A commit succeeds only on top of the offsets
that it was planned from, so each message lands once, also with two consumers or after a lost response. The table's
order is the order of its commits. Within a commit, messages are ordered by timestamp, those of one partition by offset.

The last columns are the head of a message (`ticdc_assets.pipeline.landing.message_heads`). Files of older versions lack
some of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from ticdc_assets.errors import LakeError, StaleRunError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.tables.catalog import Identifier, ensure_namespace
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, refreshed, transaction
from ticdc_assets.tables.iceberg.types import arrow_field
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_of
from ticdc_assets.tables.lake_format import MARK, load_control_table, marked
from ticdc_assets.tables.progress import CHANGEFEED, RUN_ID, newest_summary

MESSAGES: Final = "messages"
OFFSETS: Final = "ticdc.offsets"
TOPIC_IDS: Final = "ticdc.topic-ids"
FAULTS: Final = "ticdc.topic-faults"
LANDED: Final = "ticdc.landed-messages"
COMMIT_TRIES_MAX: Final = 5

TopicPartition = tuple[str, int]

_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "32",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_HEADERS: Final = ListType(
    element_id=20,
    element=StructType(NestedField(21, "key", StringType()), NestedField(22, "value", BinaryType())),
    element_required=False,
)
_SCHEMA: Final = Schema(
    NestedField(1, "topic", StringType()),
    NestedField(2, "partition", IntegerType()),
    NestedField(3, "offset", LongType()),
    NestedField(4, "timestamp", TimestamptzType()),
    NestedField(5, "key", BinaryType()),
    NestedField(6, "value", BinaryType()),
    NestedField(7, "headers", _HEADERS),
    NestedField(8, "kind", StringType()),
    NestedField(9, "schema", StringType()),
    NestedField(10, "table", StringType()),
    NestedField(11, "commit_ts", LongType()),
    NestedField(12, "min_commit_ts", LongType()),
    NestedField(13, "schema_version", LongType()),
)
PARTITION_ID, OFFSET_ID, TIMESTAMP_ID = 2, 3, 4
"""The field ids by which `tables.landings` finds the bounds of files."""
_SPEC: Final = PartitionSpec(
    PartitionField(4, 1000, DayTransform(), "timestamp_day"), PartitionField(1, 1001, IdentityTransform(), "topic")
)


@dataclass(frozen=True, slots=True)
class LandedPartition:
    """The progress of a partition: the offset to read next, and the mark of the last message ("" before the first).

    The mark distinguishes a message from one at the same offset of a topic that was created again.
    """

    next_offset: int
    last_mark: str = ""


@dataclass(frozen=True, slots=True)
class LandedOffsets:
    """The progress of all partitions, and the number of messages landed so far.

    `topic_ids` are the cluster's ids of the topics, where it sends them. `faults` has, by topic, why the last landing
    could not read it.
    """

    partitions: Mapping[TopicPartition, LandedPartition] = field(default_factory=dict)
    messages: int = 0
    run_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """The offset to read next, by partition."""
        return {partition: landed.next_offset for partition, landed in self.partitions.items()}

    def summary(self, changefeed: str) -> dict[str, str]:
        """The snapshot properties that publish these offsets."""
        rows = [[*partition, of.next_offset, of.last_mark] for partition, of in sorted(self.partitions.items())]
        return {
            CHANGEFEED: changefeed,
            RUN_ID: self.run_id,
            LANDED: str(self.messages),
            OFFSETS: json.dumps(rows, ensure_ascii=False, separators=(",", ":")),
            TOPIC_IDS: json.dumps(dict(sorted(self.topic_ids.items())), ensure_ascii=False, separators=(",", ":")),
            **({FAULTS: json.dumps(dict(sorted(self.faults.items())), ensure_ascii=False)} if self.faults else {}),
        }


def load(catalog: Catalog, namespace: Identifier) -> Table | None:
    """The table; None before the first landing."""
    return load_control_table(catalog, (*namespace, MESSAGES))


def ensure(catalog: Catalog, namespace: Identifier) -> Table:
    """The table, created where there is none. One of an older version gets the columns that it lacks."""
    table = load(catalog, namespace)
    if table is not None:
        table = marked(table)
        return table if _names(_SCHEMA) <= _names(table.schema()) else _widened(table)
    ensure_namespace(catalog, namespace)
    identifier = (*namespace, MESSAGES)
    try:
        return catalog.create_table(identifier, _SCHEMA, partition_spec=_SPEC, properties=_PROPERTIES | MARK)
    except TableAlreadyExistsError:
        return catalog.load_table(identifier)


def file_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a data file: the columns that the table has, with the field ids that the table gave them."""
    own = _names(_SCHEMA)
    return pa.schema([arrow_field(field) for field in table.schema().fields if field.name in own])


def _names(schema: Schema) -> set[str]:
    return {field.name for field in schema.fields}


def _widened(table: Table) -> Table:
    with suppress(*NOT_KNOWN), table.update_schema() as update:
        for field in _SCHEMA.fields:
            if field.name not in _names(table.schema()):
                update.add_column((field.name,), field.field_type)
    return refreshed(table)


def landed_offsets(table: Table) -> LandedOffsets:
    """The progress of the table, from its newest landing commit.

    Raises:
        LakeError: the table has messages, and none of its remaining snapshots has the progress.
    """
    summary = newest_summary(table, OFFSETS)
    if summary is not None:
        partitions = {(t, n): LandedPartition(offset, mark) for t, n, offset, mark in json.loads(summary[OFFSETS])}
        topic_ids, faults = (json.loads(summary.get(name, "{}")) for name in (TOPIC_IDS, FAULTS))
        return LandedOffsets(partitions, int(summary[LANDED]), summary.get(RUN_ID, ""), topic_ids, faults)
    if table.current_snapshot() is None:
        return LandedOffsets()
    raise LakeError(
        ".".join(table.name()),
        f"a snapshot with the property {OFFSETS}",
        "snapshots of other writers alone",
        "Set the table back to the newest snapshot that has it, and keep other writers away from this table.",
    )


def append(
    table: Table, changefeed: str, files: Sequence[WrittenFile], parent: LandedOffsets, landed: LandedOffsets
) -> Table:
    """Append the files and publish the offsets in one commit on top of the offsets `parent`.

    Raises:
        StaleRunError: another run has landed messages since this one was planned. The files are not in the table.
    """
    for _ in range(COMMIT_TRIES_MAX):
        table = refreshed(table)
        found = landed_offsets(table)
        if found == landed:
            return table  # our commit succeeded although its response was lost
        if found != parent:
            raise another_landing(table, parent, found)
        hit(Failpoint.BEFORE_LANDING_COMMIT)
        try:
            _commit(table, files, landed.summary(changefeed))
        except NOT_KNOWN:
            continue
        except Exception:
            if landed_offsets(refreshed(table)) != landed:
                raise
        hit(Failpoint.AFTER_LANDING_COMMIT)
        return refreshed(table)
    raise another_landing(table, parent, landed_offsets(refreshed(table)))


def empty(table: Table, changefeed: str) -> None:
    """Remove all messages, and forget which offsets were landed: the topics are others now."""
    summary = LandedOffsets(messages=landed_offsets(table).messages).summary(changefeed)
    with transaction(table) as tx:
        if any(True for _ in table.scan().plan_files()):
            tx.delete(AlwaysTrue())
        with tx.update_snapshot(snapshot_properties=summary).merge_append():
            pass  # a commit without files: a delete that finds no message makes none


def _commit(table: Table, files: Sequence[WrittenFile], summary: dict[str, str]) -> None:
    with transaction(table) as tx, tx.update_snapshot(snapshot_properties=summary).merge_append() as update:
        for file in files:
            update.append_data_file(data_file_of(table, file))


def another_landing(table: Table, parent: LandedOffsets, found: LandedOffsets) -> StaleRunError:
    """The error of a run when another one has landed messages first."""
    return StaleRunError(
        ".".join(table.name()),
        f"{parent.messages} messages, which this run was planned from",
        f"{found.messages} by run {found.run_id or 'unknown'}",
        "Another run has landed messages first, and none is stored twice. Run again to continue from there.",
    )
