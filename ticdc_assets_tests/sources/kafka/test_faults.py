"""Topics and brokers with faults: each stops the capture with a sentence, and nothing is lost."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ticdc_assets.commands.process import capture as capture_command
from ticdc_assets.sources.kafka import requests
from ticdc_assets.sources.kafka.faults import Causes, fault_of
from ticdc_assets_tests.sources.kafka.captures import MISSING, Capture, fault, numbered

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
    pytest.mark.services,
]


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


def test_offsets_that_retention_removed_and_the_user_gives_up_are_passed_by_the_capture(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    assert Capture(tmp_path, kafka.brokers, topic).run() == 0
    kafka.send(numbered(topic, 5))
    kafka.remove_messages_before(topic, 0, 6)
    assert Capture(tmp_path, kafka.brokers, topic, skip_offsets=[f"{topic}[0]@3-4"]).run() == 1
    capture = Capture(tmp_path, kafka.brokers, topic, skip_offsets=[f"{topic}[0]@3-5"])
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1, 2, 6, 7]}


def test_offsets_that_retention_removed_after_they_were_read_are_not_missed(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    capture = Capture(tmp_path, kafka.brokers, topic)
    assert capture.run() == 0
    kafka.send(numbered(topic, 2))
    kafka.remove_messages_before(topic, 0, 3)
    assert capture.run() == 0

    assert capture.offsets() == {0: [0, 1, 2, 3, 4]}


@pytest.mark.variants(1)
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


@pytest.mark.parametrize(
    "text",
    [
        "Send failed: Broken pipe (after 0ms in state UP)",
        "Receive failed: Connection reset by peer (after 1ms in state APIVERSION_QUERY)",
        "Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in state UP)",
    ],
)
def test_each_text_of_a_connection_that_the_broker_closes_leads_to_the_security_settings(text):
    causes = Causes()
    causes.add(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    causes.add(KafkaError(KafkaError._TRANSPORT, text))
    error = KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))

    found = str(fault_of(error, "Kafka at b", "the cluster's topics", causes))
    assert "source.kafka.security: a broker that asks for TLS or a login closes other connections" in found


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
