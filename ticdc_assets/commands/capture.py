"""`ticdc-assets capture`: the topics of a changefeed into files that this project reads. No JVM.

It ends at the offsets that the partitions had when it began, so it ends while TiCDC goes on writing. Called again, it
adds what is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ticdc_assets.amounts import counted
from ticdc_assets.commands.terminal import Terminal
from ticdc_assets.config import Changefeed, KafkaSource
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.capture_folder import (
    MESSAGES,
    CaptureFolder,
    CaptureState,
    Progress,
    mark_of,
    write_part,
)
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import OffsetRange, Partition, bounded, pending_ranges

PROGRESS_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Captured:
    """What one capture added, over how many partitions, and how many offsets it left for the next."""

    messages: int
    partitions: int
    left: int


def capture(changefeed: Changefeed, folder: Path, messages_max: int | None) -> int:
    """Capture what is new of the changefeed's topics into the folder; the exit code."""
    terminal = Terminal()
    source = changefeed.source
    if not isinstance(source, KafkaSource):
        todo = "Name topics in source.kafka; what is in files already needs no capture."
        raise ConfigError(f"changefeeds.{changefeed.name}.source", "kafka", "another source", todo)
    with terminal.working(f"capturing {changefeed.name}"):
        done = capture_topics(source, CaptureFolder(folder), messages_max, terminal)
    terminal.tell(
        f"{counted(done.messages, 'message')} of {counted(done.partitions, 'partition')} added to {folder / MESSAGES}."
    )
    if done.left:
        terminal.tell(f"{counted(done.left, 'offset')} left: run it again to go on.")
    return 0


def capture_topics(
    source: KafkaSource, folder: CaptureFolder, messages_max: int | None, terminal: Terminal
) -> Captured:
    """Add what the topics hold now and the folder does not. Raises SourceError where that cannot be told for sure."""
    with folder.locked(), KafkaClient(source) as client:
        folder.remove_leftovers()
        state = folder.state()
        ranges = pending_ranges(client, source.start, state.next_offsets)
        for wanted in ranges:
            _require_same_topic(client, wanted, state)
        taken = list(bounded(ranges, messages_max))
        total = sum(wanted.end - wanted.begin for wanted in taken)
        parts: dict[Partition, tuple[Path, Progress]] = {}
        added = 0
        with folder.scratch() as scratch:
            for number, wanted in enumerate(taken):
                path = scratch / f"{number}"
                messages = _reported(client.messages(wanted), terminal, added, total)
                count, mark = write_part(path, wanted, messages)
                earlier = (state.partitions or {}).get(wanted.partition)
                parts[wanted.partition] = path, _progress(wanted, mark, earlier)
                added += count
            if added or set(parts) - set(state.partitions or {}):
                folder.append(state, parts)
    left = sum(wanted.end - wanted.begin for wanted in ranges) - total
    return Captured(added, len(taken), left)


def _progress(wanted: OffsetRange, mark: str, earlier: Progress | None) -> Progress:
    return Progress(wanted.end, mark or (earlier.last_mark if earlier else ""))


def _require_same_topic(client: KafkaClient, wanted: OffsetRange, state: CaptureState) -> None:
    """The message before the first new one must be the one that was captured last, where the topic still has it."""
    earlier = (state.partitions or {}).get(wanted.partition)
    if earlier is None or not earlier.last_mark or wanted.begin == 0:
        return
    last = OffsetRange(wanted.partition, wanted.begin - 1, wanted.begin)
    if client.offsets(wanted.partition).low > last.begin:
        return
    messages = list(client.messages(last))  # none where compaction has removed it
    if messages and mark_of(messages[0]) != earlier.last_mark:
        todo = "The topic was made anew. Read the new one with a new changefeed and a new folder."
        raise SourceError(str(wanted.partition), f"at offset {last.begin} the message captured before", "another", todo)


def _reported(messages: Iterator[Message], terminal: Terminal, before: int, total: int) -> Iterator[Message]:
    """The messages, while a terminal is told how many have come."""
    told = began = time.monotonic()
    for number, message in enumerate(messages, start=1):
        yield message
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY_S:
            told = now
            rate = number / (now - began)
            terminal.say(f"capturing: {before + number:,} of {total:,} offsets, {rate:,.0f} messages/s")
