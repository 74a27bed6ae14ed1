"""The sensor of a Kafka source: what it reads of a real broker, and when it requests a run."""

from __future__ import annotations

import json
import time
from typing import Any

import dagster as dg
import pytest
from confluent_kafka.admin import AclOperation

from ticdc_assets.assets.automation.sensors import LAG_TAG, REASON_TAG
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing import lag as lag_module
from ticdc_assets.pipeline.landing.lag import lag_of_topics
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.plurals import duration
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.pipeline.landing.topics import DAY_MS, lake_of
from ticdc_assets_tests.services.kafka import PLAIN_PASSWORD, PLAIN_USER

pytestmark = pytest.mark.services


def message(topic: str, partition: int, value: dict[str, Any], ts_ms: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "key": None, "value": json.dumps(value).encode(), "ts_ms": ts_ms}


def watermark(topic: str, partition: int, ts_ms: int) -> dict[str, Any]:
    tidb = {"watermarkTs": from_physical_ms(ts_ms)}
    value = {"id": 0, "database": "", "table": "", "isDdl": False, "type": "TIDB_WATERMARK", "_tidb": tidb}
    return message(topic, partition, value, ts_ms)


def row(topic: str, partition: int, ts_ms: int) -> dict[str, Any]:
    value = {
        "id": 0, "database": "shop", "table": "t", "isDdl": False, "type": "INSERT", "es": ts_ms, "ts": ts_ms,
        "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "pkNames": ["id"], "data": [{"id": "1"}], "old": None,
        "_tidb": {"commitTs": from_physical_ms(ts_ms)},
    }  # fmt: skip
    return message(topic, partition, value, ts_ms)


def tick(lake: Lake, cursor: str | None) -> dg.SensorResult:
    repository = definitions_of(lake.config).get_repository_def()
    [sensor] = repository.sensor_defs
    instance = dg.DagsterInstance.ephemeral()
    return sensor(dg.build_sensor_context(cursor=cursor, instance=instance, repository_def=repository))


def test_a_run_is_requested_when_the_smallest_watermark_has_advanced(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    now_ms = time.time_ns() // 1_000_000
    lake = lake_of(tmp_path, kafka, [topic], run_after_s=600)
    kafka.send([watermark(topic, p, now_ms) for p in (0, 1)])
    first = tick(lake, None)
    land(lake, LocalWorkers())
    landed = tick(lake, first.cursor)
    kafka.send([watermark(topic, 0, now_ms + 700_000), row(topic, 0, now_ms + 700_001)])
    of_one_partition = tick(lake, first.cursor)
    kafka.send([watermark(topic, 1, now_ms + 650_000), row(topic, 1, now_ms + 700_001)])
    of_both = tick(lake, first.cursor)
    again = tick(lake, of_both.cursor)

    assert [len(of.run_requests) for of in (first, landed, of_one_partition, of_both, again)] == [1, 0, 0, 1, 0]
    assert first.run_requests[0].tags[REASON_TAG] == "no run has read the topics"
    assert landed.skip_reason.skip_message.startswith("0 offsets to land")
    assert of_both.run_requests[0].tags[REASON_TAG] == "the smallest watermark has advanced by 10 min 50 s"
    [observed] = of_both.asset_events
    partitions: Any = observed.metadata["partitions"]
    rows = [dict(record.data) for record in partitions.records]
    assert [(r["partition"], r["watermark"], r["unlanded"]) for r in rows] == [
        (f"{topic}[0]", str(from_physical_ms(now_ms + 700_000)), 2),
        (f"{topic}[1]", str(from_physical_ms(now_ms + 650_000)), 2),
    ]
    assert of_both.run_requests[0].tags[LAG_TAG] == duration(observed.metadata["behind_clock_seconds"].value)
    assert len(of_both.cursor) < 100


def test_messages_that_wait_are_requested_and_those_of_a_bound_too(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    now_ms = time.time_ns() // 1_000_000
    lake = lake_of(tmp_path, kafka, [topic], max_messages=2)
    kafka.send([row(topic, 0, now_ms - 100_000), row(topic, 0, now_ms - 90_000), row(topic, 0, now_ms - 80_000)])
    land(lake, LocalWorkers())
    left_by_the_bound = tick(lake, None)
    land(lake, LocalWorkers())
    all_landed = tick(lake, left_by_the_bound.cursor)
    kafka.send([row(topic, 0, now_ms)])
    new = tick(lake, left_by_the_bound.cursor)

    assert [len(of.run_requests) for of in (left_by_the_bound, all_landed, new)] == [1, 0, 0]
    assert left_by_the_bound.run_requests[0].tags[REASON_TAG].startswith("a message has waited for 1 min")
    assert new.skip_reason.skip_message.startswith("1 offset to land")


def test_a_watermark_is_found_behind_many_rows_and_only_so_many_messages_are_read(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(lag_module, "LAST_MESSAGES", 4)
    monkeypatch.setattr(lag_module, "LAST_MESSAGES_MAX", 40)
    kafka.make_topic(topic, 2)
    now_ms = time.time_ns() // 1_000_000
    kafka.send([watermark(topic, 0, now_ms), *(row(topic, 0, now_ms + n) for n in range(30))])
    kafka.send([watermark(topic, 1, now_ms), *(row(topic, 1, now_ms + n) for n in range(50))])
    lag = lag_of_topics(lake_of(tmp_path, kafka, [topic])).lag

    assert lag is not None
    assert [(p.watermark, p.offsets, p.oldest_ms) for p in lag.partitions] == [
        (from_physical_ms(now_ms), 31, now_ms),
        (None, 51, now_ms),
    ]
    assert lag.watermark is None


def test_a_topic_that_may_not_be_read_does_not_keep_runs_from_the_others(kafka, topic, tmp_path):
    sound, faulty = f"{topic}_a", f"{topic}_b"
    now_ms = time.time_ns() // 1_000_000
    for name in (sound, faulty):
        kafka.make_topic(name)
    kafka.send([watermark(name, 0, now_ms - 900_000) for name in (sound, faulty)])
    security = {"username": PLAIN_USER, "password": PLAIN_PASSWORD}
    lake = lake_of(tmp_path, kafka, [sound, faulty], brokers=kafka.sasl_brokers, security=security)
    land(lake, LocalWorkers())
    kafka.allow_only(faulty, PLAIN_USER, AclOperation.DESCRIBE)
    kafka.send([row(name, 0, now_ms - 800_000) for name in (sound, faulty)])
    unnamed = tick(lake, None)
    land(lake, LocalWorkers())
    named = tick(lake, unnamed.cursor)
    kafka.send([row(sound, 0, now_ms - 700_000)])
    new = tick(lake, unnamed.cursor)

    assert [len(of.run_requests) for of in (unnamed, named, new)] == [1, 0, 1]
    assert unnamed.run_requests[0].tags[REASON_TAG] == f"no run has named the fault of topic {faulty}"
    assert new.run_requests[0].tags[REASON_TAG].startswith("a message has waited")


@pytest.mark.parametrize("fault", ["shortened", "deleted", "created again"])
def test_a_run_is_requested_once_for_a_fault_of_a_topic_though_nothing_else_is_new(kafka, topic, tmp_path, fault):
    kafka.make_topic(topic)
    now_ms = time.time_ns() // 1_000_000
    kafka.send([row(topic, 0, now_ms)] * 3)
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    sound = tick(lake, None)
    if fault == "shortened":
        kafka.send([row(topic, 0, now_ms)] * 2)
        kafka.remove_messages_before(topic, 0, 4)
    else:
        kafka.remove_topic(topic)
    if fault == "created again":
        kafka.make_topic(topic)
    found = tick(lake, sound.cursor)
    faults = land(lake, LocalWorkers()).faults
    named = tick(lake, found.cursor)

    assert [len(of.run_requests) for of in (sound, found, named)] == [0, 1, 0]
    assert found.run_requests[0].tags[REASON_TAG] == f"no run has named the fault of topic {topic}"
    assert list(faults) == [topic]


def test_offsets_that_the_user_gives_up_are_no_fault_and_what_follows_waits(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    now_ms = time.time_ns() // 1_000_000
    kafka.send([row(topic, 0, now_ms - 100_000)] * 3)
    land(lake_of(tmp_path, kafka, [topic]), LocalWorkers())
    kafka.send([row(topic, 0, now_ms - 90_000)] * 4)
    kafka.remove_messages_before(topic, 0, 5)
    land(lake_of(tmp_path, kafka, [topic]), LocalWorkers())
    given_up = tick(lake_of(tmp_path, kafka, [topic], skip_offsets=[f"{topic}[0]@3-4"]), None)

    assert given_up.run_requests[0].tags[REASON_TAG].startswith("a message has waited for 1 min")


def test_messages_whose_time_is_far_in_the_future_are_requested(kafka, topic, tmp_path):
    kafka.make_topic(topic, message_timestamp_after_max_ms=str(1 << 62))
    now_ms = time.time_ns() // 1_000_000
    kafka.send([row(topic, 0, now_ms)])
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.send([{**row(topic, 0, now_ms), "ts_ms": now_ms + DAY_MS}])
    first = tick(lake, None)

    assert first.run_requests[0].tags[REASON_TAG] == "messages wait whose time is in the future or not known"
    assert tick(lake, first.cursor).run_requests == []
