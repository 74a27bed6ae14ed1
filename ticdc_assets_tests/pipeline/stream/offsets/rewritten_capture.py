"""A capture from which a test removes messages, and to which it adds them again."""

from __future__ import annotations

import json
from typing import Any

from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import (
    SmallStream,
    shape,
)

A, X = shape("a"), shape("x")


class Lines:
    """The messages of a stream, of which a test puts some into the capture."""

    def __init__(self, stream: SmallStream) -> None:
        self.path = stream.capture / "messages.jsonl"
        self.all = self.path.read_text().splitlines(keepends=True)

    def put(self, *offsets: int, partition: int | None = None, topic: str | None = None) -> None:
        """The messages of these offsets, in this order; of other partitions and topics all that there are."""
        lines = [(json.loads(line), line) for line in self.all]
        chosen = {m["offset"]: line for m, line in lines if self._is(m, partition, topic)}
        others = [line for m, line in lines if not self._is(m, partition, topic)]
        self.path.write_text("".join([*others, *(chosen[offset] for offset in offsets)]))

    def put_all(self) -> None:
        self.path.write_text("".join(self.all))

    @staticmethod
    def _is(message: dict[str, Any], partition: int | None, topic: str | None) -> bool:
        return partition in (None, message["partition"]) and topic in (None, message["topic"])


def rows(stream: SmallStream, numbers: range, partition: int = 0, topic: str = "feed") -> None:
    for number in numbers:
        stream.put(number, A, number, partition=partition, topic=topic)


def notes(lake: FeedLake) -> list[str]:
    newest = lake.lake.control.newest()
    return [record.note for record in newest.tables] if newest else []
