"""What the driver tells a worker about a stretch of a captured stream; all of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ticdc_assets.pipeline.task import Target
from ticdc_assets.schema.history import Slot, SourceName
from ticdc_assets.schema.model import TableSchema

SchemaVersion = tuple[SourceName, int]
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MessageTask:
    """The messages `[first, last)` of a capture, counted from its start.

    `offsets` are the first offsets of each partition that are not consumed yet. `versions` maps a schema version that
    rows name to the TSO after which it holds; `checked` has the schemas that row checksums are computed over; `told`
    the tables whose schema the user gave: their rows need no version. `epochs` gives, per partition, the ordinals at
    which its watermark went back: a new delivery begins there.
    """

    run_id: str
    number: int
    capture: Path
    first: int
    last: int
    protocol: str
    options: Any
    zone: str
    claim_check: str | None = field(repr=False)
    by_arrival: bool
    names_versions: bool
    offsets: dict[Partition, int]
    timelines: dict[SourceName, tuple[Slot, ...]]
    versions: dict[SchemaVersion, int]
    checked: dict[SchemaVersion, TableSchema]
    told: frozenset[SourceName]
    epochs: dict[Partition, tuple[int, ...]]
    targets: dict[str, Target]
    io_properties: dict[str, str] = field(default_factory=dict)
    quarantine: bool = True
    zero_dates_allowed: bool = True
