"""Logins and TLS: what opens a cluster, and how each refusal is named."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation

from ticdc_assets_tests.services.kafka import (
    PLAIN_PASSWORD,
    PLAIN_USER,
    SCRAM_PASSWORD,
    SCRAM_USER,
)
from ticdc_assets_tests.sources.kafka.captures import MISSING, Capture, fault, numbered

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
    pytest.mark.services,
]


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
