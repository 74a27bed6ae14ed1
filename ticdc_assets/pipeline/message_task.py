"""What the driver tells a worker about a stretch of a captured stream; all of it pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ticdc_assets.config import Upstream
from ticdc_assets.pipeline.offset_ranges import Partition, Window
from ticdc_assets.pipeline.placed_rows import Places
from ticdc_assets.pipeline.task import Target
from ticdc_assets.protocols.avro_names import Name
from ticdc_assets.schema.lineage import Slot, SourceName
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import Message, Place
from ticdc_assets.table_filter import TableFilter

SchemaVersion = tuple[SourceName, int]
Told = tuple[str, str, str]
"""A topic, and the database and table that its messages name."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to begin reading a capture at, and the ordinal of the message there."""

    ordinal: int
    place: Place


class Dating(StrEnum):
    """What says which version of its table a row has: its commit_ts, its commit time in milliseconds, or its place in
    the stream (the versions then hold from the message that first has them)."""

    COMMIT_TS = "commit_ts"
    COMMIT_MS = "commit_ms"
    PLACE = "place"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a table takes by arrival where partitions grow side by side: of each the offsets from `since` and below
    `until`, where they have one. It is delivery `number` of the table's: all its changes come after those of before.
    """

    number: int
    since: Mapping[Partition, int]
    until: Mapping[Partition, int]

    def takes(self, message: Message) -> bool:
        partition = (message.topic, message.partition)
        return self.since.get(partition, 0) <= message.offset < self.until.get(partition, message.offset + 1)


@dataclass(frozen=True, slots=True)
class MessageTask:
    """The messages from `begin` up to the ordinal `last` of a capture, as far as their commit_ts is not above `high`.

    Read are those in `window`, but for those that the capture has `twice`, by ordinal. `versions` maps a schema version
    that rows name to the TSO after which it holds; `checked` has the schemas that row checksums are computed over;
    `told` the tables whose schema the user gave: their rows need no version. `epochs` gives, per partition, the offsets
    at which its watermark went back: a new delivery begins there. `tables` are those that are asked for: no other needs
    a schema. `names` has the true names of tables where messages cannot spell them, None where they are not known;
    `placed` the commit_ts that deletes without one stand at, by ordinal; `repeated` the changes that were sent again.
    `upstream` is where rows are completed of which only the handle key was sent. `arrivals` is what each table takes by
    arrival, where ordinals do not tell. `places` are those of statements that only their places order.
    `read` are the offsets of each partition that an earlier run has read: rows of theirs are in the changelog up to its
    watermark, but of the lineages that are `fresh`, which nobody asked for then. Rows of other messages may be late.
    """

    run_id: str
    number: int
    capture: Path
    begin: Mark
    last: int
    high: int
    protocol: str
    options: Any
    zone: str
    claim_check: str | None = field(repr=False)
    by_arrival: bool
    dating: Dating
    window: Window
    timelines: dict[SourceName, tuple[Slot, ...]]
    versions: dict[SchemaVersion, int]
    checked: dict[SchemaVersion, TableSchema]
    told: frozenset[SourceName]
    epochs: dict[Partition, tuple[int, ...]]
    targets: dict[str, Target]
    tables: TableFilter
    names: dict[Told, Name | None] = field(default_factory=dict)
    placed: dict[int, int] = field(default_factory=dict)
    repeated: frozenset[int] = frozenset()
    io_properties: dict[str, str] = field(default_factory=dict)
    quarantine: bool = True
    zero_dates_allowed: bool = True
    upstream: Upstream | None = field(default=None, repr=False)
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    twice: frozenset[int] = frozenset()
    read: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()

    def was_read(self, message: Message) -> bool:
        """Whether an earlier run has read the message, and left it only for what is above its tables' watermarks."""
        first, end = self.read.get((message.topic, message.partition), (0, 0))
        return first <= message.offset < end
