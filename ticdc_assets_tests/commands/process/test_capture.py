"""The progress of `ticdc-assets capture`: its total is known in offsets, so it counts offsets."""

from __future__ import annotations

import pytest

from ticdc_assets.commands.process import capture
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.work_progress import Count


def test_a_compacted_range_is_done_at_its_last_offset_and_not_at_its_last_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capture, "PROGRESS_EVERY_S", 0)
    wanted = OffsetRange(KafkaPartition("feed", 0), 100, 200)
    messages = [Message("feed", 0, offset, None, b"", 1) for offset in (100, 149, 199)]
    shown: list[str | Count] = []

    passed = list(capture.counted_offsets(iter(messages), wanted, before=50, total=150, on_progress=shown.append))

    assert passed == messages
    assert shown == [Count(done, 150, "offset") for done in (51, 100, 150)]
