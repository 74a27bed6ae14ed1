"""How many offsets a round of a landing takes, by the limits of a run and the size of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import TopicError
from ticdc_assets.pipeline.landing.land import SAMPLED_FROM_OFFSETS, LandingBudget
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange

SOURCE = KafkaSource(("broker:9092",), ("t",), messages_max=50_000, bytes_max=1_000_000)


@dataclass
class Samples:
    """The first messages of each partition, by their sizes."""

    sizes: Sequence[int] | None

    def messages_of_all(self, _ranges: Sequence[OffsetRange], *, each_max: int) -> list[Message]:
        if self.sizes is None:
            raise TopicError("t[0]", "offset 0", "none", "Look.")
        return [Message("t", 0, 0, b"k", bytes(size - 1), 0) for size in self.sizes[:each_max]]


def budget(sizes: Sequence[int] | None, *lengths: int) -> LandingBudget:
    ranges = [OffsetRange(KafkaPartition("t", number), 0, length) for number, length in enumerate(lengths)]
    return LandingBudget.of(Samples(sizes), SOURCE, ranges)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "lengths", "per_offset"),
    [
        ([100, 300], [SAMPLED_FROM_OFFSETS - 1], None),  # few offsets: nothing is asked of the cluster
        ([100, 300], [SAMPLED_FROM_OFFSETS], 200),
        ([100, 300], [SAMPLED_FROM_OFFSETS - 1, 1], 200),
        ([], [SAMPLED_FROM_OFFSETS], None),
        (None, [SAMPLED_FROM_OFFSETS], None),
    ],
)
def test_the_size_of_messages_is_estimated_where_many_offsets_are_left(
    sizes: list[int] | None, lengths: list[int], per_offset: float | None
):
    assert budget(sizes, *lengths) == LandingBudget(1_000_000, 50_000, 1_000_000, per_offset)


@pytest.mark.parametrize(
    ("offsets_left", "bytes_left", "per_offset", "offsets"),
    [
        (50, 1000, None, 50),  # the size is not known
        (50, 1000, 9.0, 50),
        (500, 1000, 9.0, 100),  # nine tenths of the bytes
        (500, 500, 9.0, 50),
        (500, 1000, 5000.0, 1),  # one message larger than the limit
        (500, 101, 1.0, 90),
        (500, 99, 1.0, 0),  # less than a tenth is left
        (500, 0, None, 0),
        (0, 1000, None, 0),
    ],
)
def test_a_round_takes_offsets_for_most_of_the_bytes_that_are_left(
    offsets_left: int, bytes_left: int, per_offset: float | None, offsets: int
):
    assert LandingBudget(1000, offsets_left, bytes_left, per_offset).offsets == offsets


def test_a_round_leaves_what_it_did_not_read_and_tells_the_size_of_messages():
    whole = LandingBudget(1000, 500, 1000, 2.0)

    assert whole.after(100, 400) == LandingBudget(1000, 400, 600, 4.0)
    assert whole.after(100, 4000) == LandingBudget(1000, 400, 0, 40.0)
    assert whole.after(100, 0) == LandingBudget(1000, 400, 1000, 2.0)


def test_a_round_without_offsets_is_the_last_one():
    assert LandingBudget(1000, 500, 1000, 2.0).after(0, 0).offsets == 0
