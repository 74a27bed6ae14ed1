"""The state of a source for a sensor: whether it has new input. It is cheap to find and needs no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import CaptureSource
from ticdc_assets.errors import NotYetError
from ticdc_assets.sources import capture
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage import scan
from ticdc_assets.sources.storage.paths import Layout

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

_NO_CHECKPOINT: Final = "TiCDC has written no checkpoint yet; check the path and that the changefeed is running."


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition of a topic that is compared with the lake.

    name: as in `topic[0]`.
    watermark: the newest one in its last messages; None where they have none.
    offsets: how many offsets are not landed.
    oldest_ms: the timestamp of the first message that is not landed; None where there is none, or where it has none.
    """

    name: str
    watermark: int | None
    offsets: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicLag:
    """Topics that are compared with the lake, partition by partition.

    recorded: the TSO that the lake has recorded; 0 before the first run.
    is_new: whether no run has fixed the offsets at which it begins.
    run_after_s: see `source.kafka.run_after_s`.
    unnamed_faults: the topics that cannot be read, and whose fault no run has named yet. `partitions` has those of the
        topics without a fault.
    """

    partitions: Sequence[PartitionLag]
    recorded: int
    is_new: bool
    run_after_s: int
    unnamed_faults: Sequence[str] = ()

    @property
    def watermark(self) -> int | None:
        """The smallest watermark of the partitions; None until each has one."""
        found = [partition.watermark for partition in self.partitions]
        return min((ts for ts in found if ts is not None), default=None) if None not in found else None

    @property
    def offsets(self) -> int:
        """How many offsets are not landed."""
        return sum(partition.offsets for partition in self.partitions)

    @property
    def oldest_ms(self) -> int | None:
        """The smallest timestamp of the first messages that are not landed."""
        return min((p.oldest_ms for p in self.partitions if p.oldest_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source, without reading its records.

    digest: changes whenever the source has new input; of constant size.
    checkpoint: the TSO up to which the source is complete; None where only a scan finds it.
    not_yet: why no run can read the source yet, as a sentence; "" where runs can.
    lag: of a source that no run has to follow message by message; None for the other sources.
    """

    digest: str
    checkpoint: int | None = None
    not_yet: str = ""
    lag: TopicLag | None = None


def of_bucket(lake: Lake) -> SourceState:
    """The checkpoint, and a digest of the newest files. Raises SourceError where the bucket cannot be read."""
    try:
        checkpoint, digest = scan.peek(open_root(lake.storage_uri), Layout.of(lake.changefeed.sink))
    except NotYetError as error:
        return SourceState("", not_yet=str(error))
    return SourceState(digest, checkpoint, "" if checkpoint is not None else _NO_CHECKPOINT)


def of_capture(lake: Lake) -> SourceState:
    """A digest of the sizes of the capture's files; none of them is opened."""
    source = lake.changefeed.source
    assert isinstance(source, CaptureSource)
    return SourceState(capture.peek(source.path))
