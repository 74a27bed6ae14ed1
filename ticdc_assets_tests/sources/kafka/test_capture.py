"""What a capture of topics has, and that a stream captured while it grows is whole."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ticdc_assets.sources.kafka import client
from ticdc_assets_tests.fixtures import Workload, read_jsonl, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.sources.kafka.captures import MISSING, T0, Capture, numbered

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
    pytest.mark.services,
]


def test_each_message_is_captured_once_however_often_capture_is_called(kafka, topic, tmp_path):
    capture = Capture(tmp_path, kafka.brokers, topic)
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 5, 3))
    assert capture.run() == 0
    assert capture.run() == 0
    kafka.send(numbered(topic, 1, 2))
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4]}
    assert base64.b64decode(capture.lines()[0]["value"]).startswith(b"m")


def test_messages_of_partitions_stand_in_order_of_their_timestamps(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 4, 4))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0

    timestamps = [line["ts_ms"] for line in capture.lines()]
    assert timestamps == sorted(timestamps)


def test_a_bounded_capture_says_what_is_left_and_the_next_goes_on(kafka, topic, tmp_path, capsys):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 10, 4))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run("--max-messages", "6") == 0
    assert "8 offsets left" in capsys.readouterr().out
    assert len(capture.lines()) == 6
    assert capture.run() == 0

    assert capture.offsets() == {0: list(range(10)), 1: list(range(4))}


def test_what_a_killed_capture_has_appended_is_cut_off(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    with (capture.to / "messages.jsonl").open("ab") as file:
        file.write(b'{"topic": "half a li')
    (capture.to / ".parts-x").mkdir()
    kafka.send(numbered(topic, 2))
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1, 2, 3, 4]}
    assert sorted(path.name for path in capture.to.glob(".parts*")) == []


def test_a_partition_that_is_added_is_read_from_its_first_message(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    capture = Capture(tmp_path, kafka.brokers, topic, starting="latest")
    assert capture.run() == 0
    kafka.grow_topic(topic, 2)
    kafka.send(numbered(topic, 1, 3))
    assert capture.run() == 0

    assert capture.offsets() == {0: [2], 1: [0, 1, 2]}


@pytest.mark.parametrize(
    ("starting", "first"),
    [("earliest", 0), ({"timestamp": T0 + 4}, 4), ({"offsets": {"t": {"0": 7}}}, 7)],
    ids=["earliest", "timestamp", "offsets"],
)
def test_reading_begins_where_the_config_says(kafka, topic, tmp_path, starting, first):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 10))
    if isinstance(starting, dict) and "offsets" in starting:
        starting = {"offsets": {topic: starting["offsets"]["t"]}}
    capture = Capture(tmp_path, kafka.brokers, topic, starting=starting)
    assert capture.run() == 0

    assert capture.offsets() == {0: list(range(first, 10))}


def test_a_pattern_matches_whole_names_and_no_topic_of_kafka_itself():
    topics = ["__consumer_offsets", "__transaction_state", "__share_group_state", "shop_users", "shop", "__shop_users"]

    assert client.matching("(.+)_(.+)", topics) == {"shop_users", "__shop_users"}
    assert client.matching("shop", topics) == {"shop"}
    assert client.matching(None, topics) == set()


def test_topics_are_found_by_pattern(kafka, topic, tmp_path):
    for name in (f"{topic}_a", f"{topic}_b", f"other_{topic}"):
        kafka.make_topic(name)
        kafka.send(numbered(name, 1))
    capture = Capture(tmp_path, kafka.brokers, topic, topics=[], pattern=f"{topic}_.")
    assert capture.run() == 0

    assert {line["topic"] for line in capture.lines()} == {f"{topic}_a", f"{topic}_b"}


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("variant", ["canal-json-tidb", "open-index-value", "simple-json"])
def test_a_stream_that_is_captured_while_it_grows_comes_out_equal_to_the_truth(kafka, topic, tmp_path, variant):
    workload = workloads(variant, "seed1")[0]
    sent = [_sendable(line, topic) for line in read_jsonl(workload.root / "messages.jsonl")]
    kafka.make_topic(topic, 1 + max(message["partition"] for message in sent))
    capture = Capture(tmp_path, kafka.brokers, topic)
    feed = FeedLake(workload, tmp_path / "lake", storage=capture.to / "messages.jsonl")
    third = len(sent) // 3
    for part in (sent[:third], sent[third : 2 * third], sent[2 * third :]):
        kafka.send(part)
        assert capture.run() == 0
        feed.run()

    assert feed.differences(_last_ts(workload)) == []


def _sendable(line: dict[str, Any], topic: str) -> dict[str, Any]:
    bodies = {name: None if line[name] is None else base64.b64decode(line[name]) for name in ("key", "value")}
    return {**line, **bodies, "topic": topic}


def _last_ts(workload: Workload) -> int:
    return max(entry["ts"] for entry in workload.truth)
