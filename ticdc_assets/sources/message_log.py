"""A message log: the messages of a changefeed in one fixed order, whatever their storage.

The pipeline reads all message streams through this interface: a folder of captured messages, or the Iceberg table with
landed Kafka messages. A log is a fixed view: driver and workers read the same messages from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ticdc_assets.sources.capture import START, Message, MessagePosition, files_from, is_appended_to, is_binary, lines
from ticdc_assets.sources.message_block import (
    MessageBlock,
    MessageHeads,
    TopicPartition,
    blocks_of,
    blocks_of_records,
)

if TYPE_CHECKING:
    OffsetRange = tuple[int, int]


Suffice = Callable[[MessageHeads], bool]
"""Whether the heads of some messages are enough for whoever reads them."""


class UnreadOffsets(Protocol):
    """The offsets that a run has to read."""

    def overlaps(self, partition: TopicPartition, first: int, end: int) -> bool:
        """Whether any offset of a partition from `first`, inclusive, to `end`, exclusive, has to be read."""
        ...


@dataclass(frozen=True, slots=True)
class PassedMessages:
    """The messages at the start of a log that a run can skip.

    `ordinal` is the number of messages before `position`, `ranges` are the offsets of the skipped messages that the log
    still has, and `partitions` are further partitions that the source is known to have.
    """

    ordinal: int = 0
    position: MessagePosition = START
    ranges: Sequence[tuple[TopicPartition, OffsetRange]] = ()
    partitions: frozenset[TopicPartition] = frozenset()


NONE_PASSED: Final = PassedMessages()


class LogPart(NamedTuple):
    """Consecutive messages of a log: the position of the first, and their number."""

    start: MessagePosition
    messages: int


class MessageLog(Protocol):
    """Messages in a fixed order, each with a position at which reading can resume. A log can be pickled."""

    @property
    def is_appended_to(self) -> bool:
        """Whether new messages always follow the existing ones, so that a message keeps its ordinal."""
        ...

    @property
    def can_be_rewritten(self) -> bool:
        """Whether the messages may be written again in another order or number, as those of a captured file."""
        ...

    @property
    def first_ordinal(self) -> int:
        """The ordinal of the first message: the number of messages that were removed before it."""
        ...

    @property
    def topic_faults(self) -> Mapping[str, str]:
        """By topic, why its messages after those in the log could not be read."""
        ...

    def blocks(self, start: MessagePosition = START) -> Iterator[MessageBlock]:
        """The messages from a position on, in order. Raises SourceError if one cannot be read."""
        ...

    def headed_blocks(
        self, start: MessagePosition = START, *, suffice: Suffice, with_keys: bool = False
    ) -> Iterator[MessageBlock]:
        """The same with heads where the log has them and they suffice, and then with keys if they are asked for. Other
        bodies are read when they are needed, which takes longer where all of them are."""
        ...

    def passed(self, unread: UnreadOffsets) -> PassedMessages:
        """The messages at the start that a run can skip if it only reads the unread offsets."""
        ...

    def sections(self, parts: Sequence[LogPart]) -> Sequence[MessageLog]:
        """For each part, a log from which a worker reads its messages at the same positions, without reading the rest
        of the log to find their order. Raises SourceError if the log cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class CaptureLog:
    """The log of a captured file or folder. Nothing is skipped, as its order may differ from Kafka's."""

    path: Path

    @property
    def is_appended_to(self) -> bool:
        return is_appended_to(self.path)

    @property
    def can_be_rewritten(self) -> bool:
        return True

    @property
    def first_ordinal(self) -> int:
        return 0

    @property
    def topic_faults(self) -> Mapping[str, str]:
        return {}

    def blocks(self, start: MessagePosition = START) -> Iterator[MessageBlock]:
        """See `MessageLog`. The files of a folder follow each other by name, each message in its order in the file."""
        for file, begin in files_from(self.path, start):
            yield from blocks_of_records(file, begin) if is_binary(file) else blocks_of(lines(file, begin))

    def headed_blocks(
        self, start: MessagePosition = START, *, suffice: Suffice, with_keys: bool = False
    ) -> Iterator[MessageBlock]:
        """See `MessageLog`."""
        return self.blocks(start)

    def passed(self, unread: UnreadOffsets) -> PassedMessages:
        """None: the order of a capture may differ from that of Kafka, so that all messages are read."""
        return PassedMessages()

    def sections(self, parts: Sequence[LogPart]) -> Sequence[MessageLog]:
        """See `MessageLog`. Positions in a capture are places in its files, so this log serves all parts."""
        return [self] * len(parts)


def placed_messages(log: MessageLog) -> Iterator[tuple[MessagePosition, Message]]:
    """All messages of a log with their positions."""
    for block in log.blocks():
        yield from block.messages()


def numbered_messages(log: MessageLog) -> Iterator[tuple[int, Message]]:
    """All messages of a log with their ordinals."""
    for ordinal, (_, message) in enumerate(placed_messages(log), start=log.first_ordinal):
        yield ordinal, message
