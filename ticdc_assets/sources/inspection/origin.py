"""Where inspected messages come from: the files of a capture, or the partitions of Kafka topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Messages in parts: files or partitions. Each call of a part reads it from its first message.

    `folder` holds the sidecars of a capture. `ranges`, `sink_uri` (without its query), `has_login` and `schemas` (of
    the schema registry, by id; None where none is named) are those of Kafka.
    """

    place: str
    parts: Sequence[Callable[[], Iterator[Message]]]
    folder: Path | None = None
    ranges: Sequence[OffsetRange] = ()
    sink_uri: str = ""
    has_login: bool = False
    schemas: dict[int, str] | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """The kind of source in the report."""
        return "kafka" if self.folder is None else "capture"
