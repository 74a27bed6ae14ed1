"""How far topics are ahead of the lake, from their partitions."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.source_state import PartitionLag, SourceState, TopicLag


def lag(*partitions: tuple[int | None, int, int | None]) -> TopicLag:
    """Partitions with these newest watermarks, offsets that are not landed, and the time of the first of these."""
    return TopicLag([PartitionLag(f"t[{n}]", *known) for n, known in enumerate(partitions)], 40, False, 60)


@pytest.mark.parametrize(
    ("partitions", "watermark", "offsets", "oldest_ms"),
    [
        ((), None, 0, None),
        (((50, 0, None),), 50, 0, None),
        (((50, 2, 9), (45, 3, 7)), 45, 5, 7),
        (((50, 2, 9), (None, 3, None)), None, 5, 9),
        (((0, 1, 0), (45, 0, 7)), 0, 1, 0),
    ],
)
def test_a_topic_is_as_far_as_its_last_partition(
    partitions: tuple[tuple[int | None, int, int | None], ...],
    watermark: int | None,
    offsets: int,
    oldest_ms: int | None,
):
    found = lag(*partitions)

    assert (found.watermark, found.offsets, found.oldest_ms) == (watermark, offsets, oldest_ms)


def test_a_source_of_which_only_its_digest_is_known_can_be_read():
    assert SourceState("digest") == SourceState("digest", None, "", None)
