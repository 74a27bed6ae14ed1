"""`ticdc-assets capture`: writes the topics of a changefeed to files that this project reads. Needs no JVM.

A capture ends at the offsets that the partitions had when it started, also while TiCDC writes more. A repeated
capture adds the new messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.config import Changefeed, KafkaSource, OffsetRule
from ticdc_assets.errors import ConfigError
from ticdc_assets.plurals import counted
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.capture_folder import (
    MESSAGES,
    CaptureFolder,
    CaptureProgress,
    write_part,
)
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange, bounded, pending_ranges
from ticdc_assets.sources.kafka.same_topic import ReadPartition, created_again, created_again_meanwhile
from ticdc_assets.work_progress import Count, OnProgress

PROGRESS_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Captured:
    """What one capture added, from how many partitions, and how many offsets are left for the next capture."""

    messages: int
    partitions: int
    left: int


def capture(changefeed: Changefeed, folder: Path, messages_max: int | None) -> int:
    """Append new messages of the changefeed's topics to the folder. Returns the exit code."""
    terminal = Terminal()
    source = changefeed.source
    if not isinstance(source, KafkaSource):
        advice = "Name topics in source.kafka; files need no capture."
        raise ConfigError(f"changefeeds.{changefeed.name}.source", "kafka", "another source", advice)
    with terminal.working(f"capturing {changefeed.name}"):
        skip_offsets = changefeed.bad_input.skip_offsets
        done = capture_topics(source, CaptureFolder(folder), messages_max, skip_offsets, terminal)
    terminal.result(
        f"{counted(done.messages, 'message')} of {counted(done.partitions, 'partition')} added to {folder / MESSAGES}."
    )
    if done.left:
        terminal.result(f"{counted(done.left, 'offset')} left: run it again to continue.")
    return 0


def capture_topics(
    source: KafkaSource,
    folder: CaptureFolder,
    messages_max: int | None,
    skip_offsets: Sequence[OffsetRule],
    terminal: Terminal,
) -> Captured:
    """Append the messages that the topics hold and the folder does not. The offsets in `skip_offsets` may be missing.

    Raises:
        SourceError: unread offsets are missing, or a topic was created again.
    """
    with folder.locked(), KafkaClient(source) as client:
        folder.remove_leftovers()
        state = folder.state()
        topic_ids = client.topic_ids()  # before the offsets: what is read is compared with them
        ranges = pending_ranges(client, source.start, state.next_offsets, skip_offsets)
        earlier = state.partitions or {}
        read = [_read(wanted, earlier) for wanted in ranges if wanted.partition in earlier]
        for fault in created_again(client, read, topic_ids).values():
            raise fault
        taken = list(bounded(ranges, messages_max))
        total = sum(map(len, taken))
        parts: dict[KafkaPartition, tuple[Path, CaptureProgress]] = {}
        added = done = 0
        with folder.scratch() as scratch:
            for number, wanted in enumerate(taken):
                path = scratch / f"{number}"
                messages = counted_offsets(client.messages(wanted), wanted, done, total, terminal.on_progress)
                count, mark = write_part(path, wanted, messages)
                parts[wanted.partition] = path, _progress(wanted, mark, earlier, topic_ids)
                added += count
                done += len(wanted)
            known = [
                replace(_read(wanted, earlier), topic_id=topic_ids.get(wanted.partition.topic)) for wanted in taken
            ]
            for fault in created_again_meanwhile(client, known).values() if added else ():
                raise fault
            if added or set(parts) - set(earlier):
                folder.append(state, parts)
    left = sum(map(len, ranges)) - total
    return Captured(added, len(taken), left)


def _progress(
    wanted: OffsetRange, mark: str, earlier: Mapping[KafkaPartition, CaptureProgress], topic_ids: Mapping[str, str]
) -> CaptureProgress:
    before = earlier.get(wanted.partition, CaptureProgress(0))
    topic_id = topic_ids.get(wanted.partition.topic, before.topic_id)
    return CaptureProgress(wanted.end, mark or before.last_mark, topic_id)


def _read(wanted: OffsetRange, earlier: Mapping[KafkaPartition, CaptureProgress]) -> ReadPartition:
    of = earlier.get(wanted.partition, CaptureProgress(0))
    return ReadPartition(wanted.partition, of.next_offset, of.last_mark, of.topic_id)


def counted_offsets(
    messages: Iterator[Message], wanted: OffsetRange, before: int, total: int, on_progress: OnProgress
) -> Iterator[Message]:
    """Yield the messages of a range, and report how many of all offsets are read, of which `before` in earlier ranges.
    A compacted range has fewer messages than offsets."""
    shown_at = time.monotonic()
    for message in messages:
        yield message
        now = time.monotonic()
        if now - shown_at >= PROGRESS_EVERY_S:
            shown_at = now
            on_progress(Count(before + message.offset + 1 - wanted.begin, total, "offset"))
