"""Records which offsets a capture has, and finds faults: missing offsets, changed content, two messages of one offset.

Each message of a topic has the next offset, and an offset never gets another message. Only compaction and transactions
leave offsets out, and TiCDC's topics have neither. So a missing offset is a missing message, unless the user accepts it
(`skip_offsets`). Whether an offset still has the message that was consumed is checked with the digests of some
messages: the first, and those at multiples of a power of two. Of messages whose bodies are not read, only the first and
those with an earlier digest are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.stream.offsets.ranges import Bools, Ints, OffsetSet, Range, TopicPartition, without
from ticdc_assets.sources.capture import Message, digest_of

if TYPE_CHECKING:
    from ticdc_assets.config.model.config import OffsetRule
    from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
    from ticdc_assets.sources.message_block import MessageBlock

DIGESTS_MAX: Final = 16
"""The number of digests of a partition. An overlap of a sixteenth of the consumed offsets is enough for a
comparison."""


Digests = Mapping[TopicPartition, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class CaptureFault:
    """Why nothing of a partition is read from `until` on; without a `partition`, of all partitions."""

    note: Note
    partition: TopicPartition | None = None
    until: int = 0


@dataclass(slots=True)
class _Partition:
    offsets: OffsetSet
    digests: dict[int, str] = field(default_factory=dict)
    step: int = 1
    other: int | None = None
    out_of_order: tuple[int, int] | None = None
    twice: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """The offsets of a capture, collected in one pass. `known` are the digests of consumed messages."""

    known: Digests = field(default_factory=dict)
    _partitions: dict[TopicPartition, _Partition] = field(default_factory=dict)

    def add(self, partition: TopicPartition, message: Message) -> bool:
        """Add a message; False where the capture already has its offset."""
        found, offset = self._partitions.get(partition), message.offset
        if found is None:
            found = self._partitions[partition] = _Partition(OffsetSet(offset))
            self._keep(partition, found, message)
            return True
        end = found.offsets.end
        if not found.offsets.add(offset):
            found.twice[offset] = digest_of(message)
            return False
        if offset < end and found.out_of_order is None:
            found.out_of_order = (offset, end - 1)
        if offset % found.step == 0 or offset in self.known.get(partition, ()):
            self._keep(partition, found, message)
        return True

    def add_block(self, block: MessageBlock) -> Bools:
        """Add the messages of a block. Returns a mask, False where the capture already has the offset."""
        first = np.ones(len(block), np.bool_)
        for partition, indices in block.of_partitions():
            if partition not in self._partitions:
                self.add(partition, block.message(int(indices[0])))
                indices = indices[1:]
                if not len(indices):
                    continue
            found, offsets = self._partitions[partition], block.offsets[indices]
            if offsets[0] >= found.offsets.end and np.all(offsets[1:] > offsets[:-1]):
                self._extend(partition, found, block, indices)
            else:
                first[indices] = [self.add(partition, block.message(int(index))) for index in indices]
        return first

    def _extend(self, partition: TopicPartition, found: _Partition, block: MessageBlock, indices: Ints) -> None:
        """Add messages of one partition in ascending order that are all after its present ones."""
        offsets = block.offsets[indices]
        found.offsets.extend(offsets)
        is_known = np.isin(offsets, np.fromiter(self.known.get(partition, ()), np.int64))
        at = 0
        while at < len(indices):
            step = found.step
            sampled = is_known[at:] if block.is_fixed else (offsets[at:] % step == 0) | is_known[at:]
            for place in at + np.flatnonzero(sampled):
                at = int(place) + 1
                self._keep(partition, found, block.message(int(indices[place])))
                if found.step != step:
                    break
            else:
                return

    def add_range(self, partition: TopicPartition, first: int, end: int) -> None:
        """Add consumed messages that are not read again."""
        found = self._partitions.setdefault(partition, _Partition(OffsetSet(first)))
        found.offsets.add_range(first, end)

    def _keep(self, partition: TopicPartition, found: _Partition, message: Message) -> None:
        digest = digest_of(message)
        if self.known.get(partition, {}).get(message.offset, digest) != digest and found.other is None:
            found.other = message.offset
        found.digests[message.offset] = digest
        while len(found.digests) > 2 * DIGESTS_MAX:
            found.step *= 2
            found.digests = _thinned(found.digests, found.step)

    # -- what was found -----------------------------------------------------------------------------------------------

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self._partitions)

    def begins(self) -> dict[TopicPartition, int]:
        """The smallest offset of each partition."""
        return {partition: found.offsets.first for partition, found in self._partitions.items()}

    def ranges(self, partition: TopicPartition) -> list[Range]:
        """The offsets of a partition in the capture."""
        found = self._partitions.get(partition)
        return found.offsets.ranges if found is not None else []

    def digests(self, partition: TopicPartition, end: int) -> dict[int, str]:
        """Digests that identify the messages before `end`."""
        stored = dict(self.known.get(partition, {}))
        if partition in self._partitions:
            stored |= self._partitions[partition].digests
        kept, step = {offset: digest for offset, digest in stored.items() if offset < end}, 1
        while len(kept) > DIGESTS_MAX + 1:
            step *= 2
            kept = _thinned(kept, step)
        return kept

    @property
    def has_twice(self) -> bool:
        """Whether a partition has two messages of one offset."""
        return any(found.twice for found in self._partitions.values())

    def differing(self, messages: Iterable[Message]) -> dict[TopicPartition, int]:
        """The first offset of each partition that the capture has twice, with different messages."""
        left = {partition: dict(found.twice) for partition, found in self._partitions.items() if found.twice}
        differing: dict[TopicPartition, int] = {}
        for message in messages:
            partition = (message.topic, message.partition)
            digest = left.get(partition, {}).pop(message.offset, None)
            if digest is not None and digest != digest_of(message):
                differing.setdefault(partition, message.offset)
        return differing

    # -- faults -------------------------------------------------------------------------------------------------------

    def faults(
        self,
        cursor: StreamCursor,
        rules: Sequence[OffsetRule],
        differing: Mapping[TopicPartition, int],
        *,
        in_order: bool,
    ) -> Iterator[CaptureFault]:
        """The faults that stop partitions.

        Args:
            cursor: the consumed offsets.
            rules: the offsets that the config allows to be missing.
            differing: the result of `differing`.
            in_order: whether nothing but the order of messages shows which came first.
        """
        for partition, found in sorted(self._partitions.items()):
            consumed = cursor.offsets.get(partition, 0)
            if found.other is not None:
                yield CaptureFault(_another(partition, found.other), partition, consumed)
            elif partition in differing:
                yield CaptureFault(_two(partition, differing[partition]), partition, consumed)
            elif in_order and (disorder := _disorder(partition, found, cursor)) is not None:
                yield CaptureFault(disorder, partition, consumed)
            else:
                missing = _not_accepted(rules, partition, self._missing(partition, cursor))
                if missing:
                    yield CaptureFault(_missing_offsets(partition, *missing[0]), partition, missing[0][0])

    def _missing(self, partition: TopicPartition, cursor: StreamCursor) -> list[Range]:
        found = self._partitions[partition].offsets
        return without(_expected_first(partition, found.first, cursor), found.end, found.ranges)


def _thinned(digests: Mapping[int, str], step: int) -> dict[int, str]:
    first = min(digests)
    return {offset: digest for offset, digest in digests.items() if offset == first or offset % step == 0}


def _expected_first(partition: TopicPartition, first: int, cursor: StreamCursor) -> int:
    """The offset from which none may be missing: the next one to consume. A new partition has one too, where the others
    were read from their first message."""
    if partition in cursor.offsets:
        return cursor.offsets[partition]
    others = [other for other in cursor.offsets if other[0] == partition[0]]
    return 0 if others and not any(cursor.begins.get(other, 0) for other in others) else first


def _not_accepted(rules: Sequence[OffsetRule], partition: TopicPartition, missing: Iterable[Range]) -> list[Range]:
    accepted = [rule.range for rule in rules if rule.is_of(partition)]
    return [left for first, end in missing for left in without(first, end, accepted)]


def _disorder(partition: TopicPartition, found: _Partition, cursor: StreamCursor) -> Note | None:
    late = found.offsets.first < cursor.begins.get(partition, 0) and partition in cursor.offsets
    offset, after = found.out_of_order or (found.offsets.first, cursor.offsets.get(partition, 0))
    if found.out_of_order is None and not late:
        return None
    expected = "expected offsets in ascending order, since nothing else orders this stream"
    return _note(f"{_named(partition)}: {expected}, found {offset} after {after}.", Advice.SORT_CAPTURE)


def _missing_offsets(partition: TopicPartition, first: int, end: int) -> Note:
    count = "1 message is" if end == first + 1 else f"{end - first} messages are"
    last = "" if end == first + 1 else f"-{end - 1}"
    entry = f'"{_named(partition)}@{first}{last}"'
    detail = f"{_named(partition)}: expected offset {first} next, found {end}: {count} missing, {entry}."
    return _note(detail, Advice.RESTORE_MESSAGES)


def _another(partition: TopicPartition, offset: int) -> Note:
    expected = f"expected the message at offset {offset} that an earlier run has read"
    return _note(f"{_named(partition)}: {expected}, found another.", Advice.RESTORE_CAPTURE)


def _two(partition: TopicPartition, offset: int) -> Note:
    detail = f"{_named(partition)}: expected one message at offset {offset}, found two different ones."
    return _note(detail, Advice.SEPARATE_CAPTURES)


def _note(detail: str, advice: Advice) -> Note:
    return Note(NoteCode.MESSAGES, detail, (advice,))


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}[{partition[1]}]"
