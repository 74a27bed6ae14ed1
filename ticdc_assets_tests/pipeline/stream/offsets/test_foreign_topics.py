"""Topics of other producers, which a pattern or the dispatch rules match by accident, hold no table."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.small_streams import BY_TABLE, SmallStream, at, ids, shape, states, tso

A, B = shape("a", version=1), shape("b", version=1)
FOREIGN = (b"key", b"an order"), (None, b""), (b"key", None)


def begun(tmp_path: Path, wire: Wire) -> SmallStream:
    """A table in a topic of its own, complete up to tick 3."""
    stream = SmallStream(tmp_path, wire, config=BY_TABLE)
    stream.create(1, A, "s_a")
    stream.put(2, A, 1, topic="s_a")
    stream.watermark(3, "feed", "s_a")
    return stream


@pytest.mark.parametrize("wire", [CanalJson(), OpenProtocol()], ids=["canal-json", "open"])
@pytest.mark.parametrize("is_there_first", [True, False], ids=["from the start", "later"])
def test_a_topic_without_a_message_of_ticdc_holds_nothing(tmp_path: Path, wire: Wire, is_there_first: bool):
    stream = begun(tmp_path, wire)
    lake = stream.lake()
    if not is_there_first:
        lake.publish()
    stream.send("s_other", 0, *FOREIGN)
    lake.publish()
    stream.put(4, A, 2, topic="s_a")
    stream.watermark(5, "feed", "s_a")
    stream.send("s_other", 0, *FOREIGN)
    lake.publish()

    assert (ids(lake), states(lake), tso(lake)) == ({"a": [1, 2]}, {"a": "live"}, at(5))
    assert len({kept.position for kept in lake.lake.control.quarantined()}) >= 4
    assert lake.publish() is None


def test_many_messages_of_another_producer_are_no_sign_of_a_wrong_config(tmp_path: Path):
    stream = begun(tmp_path, CanalJson())
    lake = stream.lake()
    lake.publish()
    for _ in range(10):
        stream.send("s_other", 0, *FOREIGN)
    stream.put(4, A, 2, topic="s_a")
    stream.watermark(5, "feed", "s_a")

    lake.publish()

    assert (ids(lake), tso(lake)) == ({"a": [1, 2]}, at(5))


def test_a_topic_counts_from_its_first_message_of_ticdc_on(tmp_path: Path):
    stream = begun(tmp_path, CanalJson())
    lake = stream.lake()
    stream.send("s_b", 0, *FOREIGN)
    lake.publish()
    assert tso(lake) == at(3)
    stream.create(4, B, "s_b")
    stream.put(5, B, 1, topic="s_b")
    stream.watermark(6, "feed", "s_a")
    lake.publish()
    assert tso(lake) == at(3)
    stream.watermark(6, "s_b")
    lake.publish()

    assert (ids(lake), tso(lake)) == ({"a": [1], "b": [1]}, at(6))


def test_the_default_topic_is_waited_for_though_none_of_its_messages_can_be_read(tmp_path: Path):
    stream = SmallStream(tmp_path, CanalJson(), config=BY_TABLE)
    stream.create(1, A, "s_a")
    stream.watermark(3, "s_a")
    stream.send("feed", 0, *FOREIGN)
    lake = stream.lake()
    lake.publish()
    assert tso(lake) == 0
    stream.watermark(3, "feed")
    lake.publish()

    assert tso(lake) == at(3)
