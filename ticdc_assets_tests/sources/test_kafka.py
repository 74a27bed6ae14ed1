"""Captures of topics of a real Kafka broker, and the errors."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from ticdc_assets.cli import main
from ticdc_assets.commands.process import capture as capture_command
from ticdc_assets.sources.kafka import client, requests
from ticdc_assets.sources.kafka.faults import Causes, fault_of
from ticdc_assets_tests.fixtures import Workload, read_jsonl, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.kafka import (
    PLAIN_PASSWORD,
    PLAIN_USER,
    SCRAM_PASSWORD,
    SCRAM_USER,
)

T0 = 1_700_000_000_000
MISSING = missing_tools("java", "mvn", "openssl")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
    pytest.mark.services,
]


def numbered(topic: str, *counts: int, text: str = "m") -> list[dict[str, Any]]:
    """So many messages for each partition of a topic."""
    return [
        {
            "topic": topic,
            "partition": p,
            "key": None,
            "value": f"{text}{p}-{n}".encode(),
            "ts_ms": 1_700_000_000_000 + n,
        }
        for p, count in enumerate(counts)
        for n in range(count)
    ]


class Capture:
    """A config with a Kafka source and the folder it is captured into."""

    def __init__(self, folder: Path, brokers: str, topic: str, **kafka: Any) -> None:
        self.folder, self.to = folder, folder / "captured"
        self.config = folder / "changefeeds.yaml"
        source = {"kafka": {"brokers": brokers, "topics": [topic], **kafka}}
        feed = {"sink_uri": f"kafka://h:9092/{topic}?protocol=open-protocol", "source": source}
        self.config.write_text(yaml.safe_dump({"changefeeds": {"shop": feed}}))

    def run(self, *arguments: str) -> int:
        return main(["capture", "--config", str(self.config), "--to", str(self.to), *arguments])

    def lines(self) -> list[dict[str, Any]]:
        return list(read_jsonl(self.to / "messages.jsonl"))

    def offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for line in self.lines():
            found.setdefault(line["partition"], []).append(line["offset"])
        return found


def fault(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


# -- what is captured --------------------------------------------------------------------------------------------------


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


# -- login -------------------------------------------------------------------------------------------------------------


def test_a_password_and_tls_open_the_cluster(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", SCRAM_PASSWORD)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    login = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": SCRAM_USER}
    security = {**login, "password": {"env": "KAFKA_PASSWORD"}, "ca": str(kafka.authority)}
    capture = Capture(tmp_path, kafka.tls_brokers, topic, security=security)
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1]}


def test_a_plain_password_opens_the_cluster(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    capture = Capture(
        tmp_path, kafka.sasl_brokers, topic, security={"username": PLAIN_USER, "password": PLAIN_PASSWORD}
    )
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1]}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_named_and_not_printed(kafka, topic, tmp_path, capsys, mechanism):
    kafka.make_topic(topic)
    security = {"mechanism": mechanism, "username": PLAIN_USER, "password": "hunter2"}
    assert Capture(tmp_path, kafka.sasl_brokers, topic, security=security).run() == 1

    sentence = fault(capsys)
    assert "uthentication" in sentence
    assert "Check username, password and mechanism" in sentence
    assert "hunter2" not in sentence


def test_an_unknown_authority_is_named(kafka, topic, tmp_path, capsys):
    kafka.make_topic(topic)
    security = {"protocol": "SASL_SSL", "username": PLAIN_USER, "password": PLAIN_PASSWORD}
    assert Capture(tmp_path, kafka.tls_brokers, topic, security=security).run() == 1

    assert "the authority in ca" in fault(capsys)


def test_a_plain_password_over_tls_opens_the_cluster(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    login = {"protocol": "SASL_SSL", "username": PLAIN_USER, "password": PLAIN_PASSWORD}
    capture = Capture(tmp_path, kafka.tls_brokers, topic, security={**login, "ca": str(kafka.authority)})
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1]}


def test_a_client_certificate_opens_the_cluster_and_without_one_it_stays_closed(kafka, topic, tmp_path, capsys):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    security = {"protocol": "SSL", "ca": str(kafka.authority)}
    files = {"cert": str(kafka.file("client.crt")), "key": str(kafka.file("client.key"))}
    (tmp_path / "without").mkdir()
    capture = Capture(tmp_path, kafka.mutual_brokers, topic, security={**security, **files})
    assert capture.run() == 0
    assert Capture(tmp_path / "without", kafka.mutual_brokers, topic, security=security).run() == 1

    assert capture.offsets() == {0: [0, 1]}
    assert "cert and key if brokers ask" in fault(capsys)


def test_an_authority_that_has_not_signed_the_brokers_certificate_is_named(kafka, topic, tmp_path, capsys):
    login = {"protocol": "SASL_SSL", "username": PLAIN_USER, "password": PLAIN_PASSWORD}
    security = {**login, "ca": str(kafka.file("other-ca.pem"))}
    assert Capture(tmp_path, kafka.tls_brokers, topic, security=security).run() == 1

    sentence = fault(capsys)
    assert "certificate verify failed" in sentence
    assert "the authority in ca" in sentence


@pytest.mark.parametrize(
    ("allowed", "sentence"),
    [
        (AclOperation.DESCRIBE, "Let this user READ and DESCRIBE the topic"),
        (AclOperation.WRITE, "Let this user READ and DESCRIBE the topic"),
        (None, "and that this user may describe the topic"),
    ],
    ids=["describe", "write", "nothing"],
)
def test_a_user_who_may_not_read_the_topic_is_named(kafka, topic, tmp_path, capsys, allowed, sentence):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 2))
    kafka.allow_only(topic, PLAIN_USER if allowed else "another", allowed or AclOperation.READ)
    security = {"username": PLAIN_USER, "password": PLAIN_PASSWORD}
    assert Capture(tmp_path, kafka.sasl_brokers, topic, security=security).run() == 1

    assert sentence in fault(capsys)


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_named(kafka, topic, tmp_path, capsys):
    assert Capture(tmp_path, kafka.brokers, topic).run() == 1

    assert f"the topic {topic}, found no such topic" in fault(capsys)


def test_offsets_that_retention_removed_before_they_were_read_stop_the_capture(kafka, topic, tmp_path, capsys):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    kafka.send(numbered(topic, 5))
    kafka.remove_messages_before(topic, 0, 6)
    assert capture.run() == 1

    assert "retention has removed 3 offsets that were not read" in fault(capsys)
    assert capture.offsets() == {0: [0, 1, 2]}


def test_offsets_that_retention_removed_after_they_were_read_are_not_missed(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    kafka.send(numbered(topic, 2))
    kafka.remove_messages_before(topic, 0, 3)
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1, 2, 3, 4]}


@pytest.mark.parametrize("count", [2, 3, 8], ids=["shorter", "as long", "longer"])
def test_a_topic_that_was_made_again_stops_the_capture(kafka, topic, tmp_path, capsys, count):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    kafka.remove_topic(topic)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, count, text="another"))
    assert capture.run() == 1

    assert "The topic was created again" in fault(capsys)
    assert capture.offsets() == {0: [0, 1, 2]}


def test_a_topic_that_was_made_again_stops_the_capture_where_its_last_message_is_gone(kafka, topic, tmp_path, capsys):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    kafka.remove_topic(topic)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 8, text="another"))
    kafka.remove_messages_before(topic, 0, 3)
    assert capture.run() == 1

    assert "The topic was created again" in fault(capsys)
    assert capture.offsets() == {0: [0, 1, 2]}


def test_a_topic_that_is_made_again_while_it_is_captured_stops_the_capture(kafka, topic, tmp_path, capsys, monkeypatch):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)

    def made_again(*arguments, **named):
        kafka.remove_topic(topic)
        kafka.make_topic(topic)
        kafka.send(numbered(topic, 8, text="another"))
        return bounded(*arguments, **named)

    bounded = capture_command.bounded
    with monkeypatch.context() as patched:
        patched.setattr(capture_command, "bounded", made_again)
        assert capture.run() == 1
    assert "The topic was created again" in fault(capsys)

    assert capture.run() == 0
    assert capture.offsets() == {0: list(range(8))}


def test_a_broker_that_is_not_there_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(requests, "REACH_TIMEOUT_S", 3.0)
    assert Capture(tmp_path, "127.0.0.1:1", "t").run() == 1

    assert "Kafka at 127.0.0.1:1" in fault(capsys)


@pytest.mark.parametrize("listener", ["tls_brokers", "sasl_brokers"])
def test_brokers_that_close_connections_without_tls_or_a_login_lead_to_the_security_settings(
    kafka, topic, tmp_path, capsys, monkeypatch, listener
):
    monkeypatch.setattr(requests, "REACH_TIMEOUT_S", 3.0)
    assert Capture(tmp_path, getattr(kafka, listener), topic).run() == 1

    assert "source.kafka.security: a broker that asks for TLS or a login closes other connections" in fault(capsys)


def test_tls_to_a_listener_without_it_leads_to_the_security_protocol(kafka, topic, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(requests, "REACH_TIMEOUT_S", 3.0)
    security = {"protocol": "SSL", "ca": str(kafka.authority)}
    assert Capture(tmp_path, kafka.brokers, topic, security=security).run() == 1

    assert "Check source.kafka.security.protocol" in fault(capsys)


@pytest.mark.parametrize(
    "text",
    [
        "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener? (after 4ms)",
        "Disconnected: SSL connection closed by peer (after 0ms in state SSL_HANDSHAKE)",
        "SSL connection closed by peer",
    ],
)
def test_each_text_of_a_handshake_that_fails_leads_to_the_security_protocol(text):
    causes = Causes()
    causes.add(KafkaError(KafkaError._TRANSPORT, text))
    error = KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))

    assert "Check source.kafka.security.protocol" in str(fault_of(error, "Kafka at b", "the cluster's topics", causes))


def test_the_error_that_says_why_a_connection_failed_is_shown_before_the_count_of_lost_brokers():
    causes = Causes()
    for error in (
        KafkaError(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:1 failed: Connection refused"),
        KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"),
    ):
        causes.add(error)

    assert "Connection refused" in causes.newest


def test_a_folder_of_another_capture_is_refused(kafka, topic, tmp_path, capsys):
    capture = Capture(tmp_path, kafka.brokers, topic)
    capture.to.mkdir()
    (capture.to / "messages.jsonl").write_text("")
    assert capture.run() == 1

    assert "Name a new folder with --to" in fault(capsys)


def test_a_setting_that_librdkafka_refuses_is_named(tmp_path, capsys):
    assert Capture(tmp_path, "h:1", "t", options={"fetch.max.bites": 5}).run() == 1

    assert "fetch.max.bites" in fault(capsys)


# -- the same tables ---------------------------------------------------------------------------------------------------


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
