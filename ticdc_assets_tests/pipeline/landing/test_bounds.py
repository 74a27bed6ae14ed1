"""A landing keeps to its bounds, and ends at the offsets that it fixed."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.landing import plan, records
from ticdc_assets.pipeline.landing.land import LandingReport, land, unlanded_offsets
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.landing.topics import lake_of, landed, numbered

pytestmark = pytest.mark.services


def test_a_run_lands_no_more_messages_than_its_bound(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 10, 4))
    lake = lake_of(tmp_path, kafka, [topic], max_messages=6)
    assert land(lake, LocalWorkers()) == LandingReport(6, 8, total=6)
    assert land(lake, LocalWorkers()) == LandingReport(6, 2, total=12)
    assert land(lake, LocalWorkers()) == LandingReport(2, 0, total=14)

    assert landed(lake) == {0: list(range(10)), 1: list(range(4))}


def test_a_run_lands_little_more_than_its_bound_of_bytes(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 10)
    monkeypatch.setattr(plan, "TASK_OFFSETS_MIN", 50)
    kafka.make_topic(topic)
    kafka.send([{**m, "value": b"x" * 100} for m in numbered(topic, 90)])
    lake = lake_of(tmp_path, kafka, [topic], max_bytes=4000)
    counts = []
    while unlanded_offsets(lake):
        counts.append(land(lake, LocalWorkers()).messages)

    assert sum(counts) == 90
    assert 36 <= min(counts[:-1]) <= max(counts) <= 40  # of the 40 that have 4,000 bytes
    assert landed(lake) == {0: list(range(90))}


def test_partitions_that_are_read_together_keep_to_the_bound_of_bytes(kafka, topic, tmp_path):
    kafka.make_topic(topic, 12)
    kafka.send([{**m, "value": b"x" * 100} for m in numbered(topic, *[10] * 12)])
    lake = lake_of(tmp_path, kafka, [topic], max_bytes=4000)
    counts = []
    while unlanded_offsets(lake):
        counts.append(land(lake, LocalWorkers()).messages)

    assert max(counts) <= 50  # 40 have 4,000 bytes, and a partition is written whole
    assert landed(lake) == {partition: list(range(10)) for partition in range(12)}


def test_offsets_without_messages_do_not_keep_a_landing_from_its_end(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send_in_transactions(numbered(topic, 5), numbered(topic, 3, first=5))
    lake = lake_of(tmp_path, kafka, [topic])
    end = kafka.end_of(topic, 0)
    assert end > 8
    land(lake, LocalWorkers())

    assert len(landed(lake)[0]) == 8
    assert unlanded_offsets(lake) == 0


def test_a_landing_ends_at_the_offsets_it_fixed_where_a_transaction_is_aborted_or_open(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    lake = lake_of(tmp_path, kafka, [topic])
    kafka.send(numbered(topic, 3))
    kafka.begin_transaction(numbered(topic, 4, text="aborted")).abort_transaction(30)
    assert land(lake, LocalWorkers()).messages == 3
    assert unlanded_offsets(lake) == 0
    open_one = kafka.begin_transaction(numbered(topic, 2, text="open"))
    kafka.send(numbered(topic, 1, first=5))  # it follows the open transaction, so nobody can read it yet
    assert land(lake, LocalWorkers()).messages == 0
    open_one.commit_transaction(30)
    assert land(lake, LocalWorkers()).messages == 3

    assert landed(lake)[0] == kafka.offsets_of(topic, 0)
    assert unlanded_offsets(lake) == 0


@pytest.mark.matrix
def test_a_landing_ends_at_the_offsets_it_fixed_where_compaction_removed_messages(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "TASK_OFFSETS_MIN", 10)  # some tasks have no message at all
    kafka.make_topic(
        topic, cleanup_policy="compact", segment_bytes="1048576", segment_ms="100", min_cleanable_dirty_ratio="0.01"
    )
    kafka.send([{**m, "key": b"same"} for m in numbered(topic, 95)])
    kafka.send([{**m, "key": b"same"} for m in numbered(topic, 1, first=95)])  # a segment of its own, by its timestamp
    kept = kafka.wait_for_compaction(topic, 0, 2)
    assert kept[0] > 40
    lake = lake_of(tmp_path, kafka, [topic], max_messages=30)
    counts = []
    while unlanded_offsets(lake):
        counts.append(land(lake, LocalWorkers()).messages)

    assert landed(lake)[0] == kept
    assert counts.count(0) >= 1  # whole runs whose offsets are all compacted
