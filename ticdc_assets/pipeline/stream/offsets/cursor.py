"""The cursor of a stream of messages: the consumed offsets, as the newest record in `watermarks` holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.stream.offsets.ranges import Range, TopicPartition, Window
from ticdc_assets.schema.history.source_table import SourceName


@dataclass(frozen=True, slots=True)
class StreamCursor:
    """Per partition: the first offset not consumed, the newest watermark, the last watermark `passed` before that
    offset, and the offset from which it was first read. Messages below `read` were read while no table was held: their
    changes up to the recorded TSO are in the changelogs.

    All offsets between are consumed except `gaps`; `digests` identify some of these messages. `messages` is the number
    of messages in the capture when all were consumed; it is kept only if nothing but their order shows which came
    first. `tables_by_topic` has the tables with rows or statements in each topic, if there may be several topics: a
    topic whose tables are all dropped gets no more watermarks, even when all its messages are consumed.
    """

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    tables_by_topic: dict[str, frozenset[SourceName]] = field(default_factory=dict)
    passed: dict[TopicPartition, int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    read: dict[TopicPartition, int] = field(default_factory=dict)
    gaps: dict[TopicPartition, tuple[Range, ...]] = field(default_factory=dict)
    digests: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    messages: int = 0

    def rewound(self) -> StreamCursor:
        """The cursor before the first message; it keeps the partitions and what is known of them."""
        read = {partition: end for partition, end in self.read.items() if partition not in self.gaps}
        return StreamCursor({}, self.watermarks, self.tables_by_topic, {}, self.begins, read, digests=self.digests)

    def window(self, until: Mapping[TopicPartition, int] = MappingProxyType({})) -> Window:
        """The messages that are not consumed."""
        return Window(self.offsets, self.begins, self.gaps, until)

    @property
    def has_consumed(self) -> bool:
        """Whether any message is consumed."""
        return any(offset > self.begins.get(partition, 0) for partition, offset in self.offsets.items())

    @property
    def in_part(self) -> dict[TopicPartition, tuple[int, int]]:
        """By partition, the range of offsets that were read and are not consumed: their messages are read again."""
        begins = {p: self.offsets.get(p, self.begins.get(p, 0)) for p in self.read}
        return {partition: (begins[partition], end) for partition, end in self.read.items()}

    def to_json(self) -> str:
        """The cursor as the record stores it."""
        partitions = sorted(self.offsets.keys() | self.watermarks.keys())
        stored: dict[str, Any] = {
            "partitions": [
                [*p, self.offsets.get(p), self.watermarks.get(p, 0), self.passed.get(p, 0)] for p in partitions
            ]
        }
        begins = [[*partition, offset] for partition, offset in sorted(self.begins.items()) if offset]
        stored |= {"begins": begins} if begins else {}
        read = [[*partition, offset] for partition, offset in sorted(self.read.items()) if offset]
        stored |= {"read": read} if read else {}
        gaps = [[*partition, *gap] for partition, found in sorted(self.gaps.items()) for gap in found]
        stored |= {"gaps": gaps} if gaps else {}
        stored["digests"] = [[*partition, list(of.items())] for partition, of in sorted(self.digests.items()) if of]
        stored |= {"messages": self.messages} if self.messages else {}
        if self.tables_by_topic:
            stored["carried"] = {topic: sorted(names) for topic, names in sorted(self.tables_by_topic.items())}
        return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StreamCursor:
        """The cursor from a record; the empty text is the cursor before the first message. Raises ConfigError for the
        cursor of a bucket."""
        stored = json.loads(text or "{}")
        if "layout" in stored:
            advice = "Change it back, or read the messages in a changefeed of another name, with another `target`."
            raise ConfigError("source", "the bucket that earlier runs have read", "messages", advice)
        listed = stored.get("partitions", [])
        is_older = "digests" not in stored  # such a cursor also stores 0 for none
        gaps: dict[TopicPartition, list[Range]] = {}
        for topic, number, first, end in stored.get("gaps", []):
            gaps.setdefault((topic, number), []).append((first, end))
        return cls(
            {(t, n): offset for t, n, offset, *_ in listed if offset is not None and not (is_older and offset == 0)},
            {(topic, number): ts for topic, number, _, ts, *_ in listed if ts},
            {topic: frozenset(map(tuple, names)) for topic, names in stored.get("carried", {}).items()},
            {(topic, number): ts for topic, number, _, *_, ts in listed if ts},
            {(topic, number): offset for topic, number, offset in stored.get("begins", [])},
            {(topic, number): offset for topic, number, offset in stored.get("read", [])},
            {partition: tuple(found) for partition, found in gaps.items()},
            {(topic, number): dict(map(tuple, of)) for topic, number, of in stored.get("digests", [])},
            stored.get("messages", 0),
        )
