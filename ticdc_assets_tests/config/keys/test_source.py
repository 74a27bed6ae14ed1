"""Where a stream, its schemas and its large messages are read: as configured, else where the sink URI says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.config import CaptureSource, KafkaSource, KafkaStart, Secret, StorageSource
from ticdc_assets_tests.config.config_file import feed, loaded, refused, with_feed


def test_offsets_may_be_given_up_of_whatever_source_has_messages(tmp_path):
    uri = "kafka://h:1/t?protocol=open-protocol"
    sources = ({}, {"source": {"capture": "m.jsonl"}}, {"source": {"kafka": {"topics": "t"}}})

    for source in sources:
        assert len(feed(tmp_path, sink_uri=uri, skip_offsets=["t[0]@1-2"], **source).bad_input.skip_offsets) == 1
    assert "Remove it" in str(refused(tmp_path, with_feed(skip_offsets=["t[0]@1-2"])))


def test_what_one_run_lands_of_kafka_is_bounded_by_default(tmp_path):
    kafka = {"brokers": "h:1", "topics": "t"}
    bounds = {"max_messages": 10, "max_bytes": 20, "days_kept": 7, "run_after_s": 30}
    bounded = feed(tmp_path, source={"kafka": {**kafka, **bounds}}).source
    default = feed(tmp_path, source={"kafka": kafka}).source

    assert (bounded.messages_max, bounded.bytes_max, bounded.days_kept, bounded.run_after_s) == (10, 20, 7, 30)
    assert (default.messages_max, default.bytes_max, default.days_kept, default.run_after_s) == (
        5_000_000, 8 << 30, None, 60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "location", "options"),
    [
        ("file:///data/cdc/?protocol=csv", "/data/cdc", {}),
        ("file:///data/a%20b?protocol=csv", "/data/a b", {}),
        ("local:///data?protocol=csv", "/data", {}),
        ("s3://b/p/q/?protocol=csv&endpoint=http://minio:9000&access-key=a", "s3://b/p/q", ["endpoint", "access-key"]),
        ("gcs://b/p?protocol=csv&credentials-file=/k.json", "gcs://b/p", ["credentials-file"]),
        ("azblob://c/p?protocol=csv&account-name=n", "azblob://c/p", ["account-name"]),
        ("s3://b?protocol=csv", "s3://b", {}),
        ("abfss://c@a.dfs.core.windows.net/p?protocol=csv", "abfss://c@a.dfs.core.windows.net/p", {}),
    ],
)
def test_a_storage_sink_is_read_where_it_writes(tmp_path, uri, location, options):
    source = feed(tmp_path, sink_uri=uri).source

    assert isinstance(source, StorageSource)
    assert location == source.storage.location
    assert sorted(options) == sorted(source.storage.options)


def test_a_kafka_sink_is_read_where_it_writes(tmp_path):
    source = feed(
        tmp_path,
        sink_uri="kafka://a:9092,b:9092/main?protocol=open-protocol&sasl-user=u&sasl-password=p&sasl-mechanism=scram-sha-256",
        config={
            "sink": {
                "dispatchers": [
                    {"matcher": ["a.*"], "topic": "tidb_{schema}_{table}"},
                    {"matcher": ["b.*"], "topic": "other"},
                    {"matcher": ["c.*"], "partition": "ts"},
                ],
                "kafka-config": {"enable-tls": True},
            }
        },
    ).source

    assert isinstance(source, KafkaSource)
    assert source.brokers == ("a:9092", "b:9092")
    assert source.topics == ("main",)
    assert source.pattern == "tidb_[A-Za-z0-9._-]+_[A-Za-z0-9._-]+|other"
    assert source.options["security.protocol"] == "SASL_SSL"
    assert source.options["sasl.mechanism"] == "SCRAM-SHA-256"
    assert (source.options["sasl.username"], source.options["sasl.password"]) == ("u", "p")


def test_a_configured_source_wins_over_the_sink_uri(tmp_path):
    assert feed(tmp_path, source={"storage": "copy"}).source.storage.location == f"{tmp_path}/copy"
    assert feed(tmp_path, source={"capture": "m.jsonl"}).source == CaptureSource(tmp_path / "m.jsonl")
    kafka = feed(
        tmp_path,
        source={
            "kafka": {
                "brokers": "x:1, y:2",
                "topics": "t",
                "security": {"protocol": "ssl", "ca": "/ca.pem"},
                "options": {"fetch.max.bytes": 5},
            }
        },
    ).source
    assert kafka.brokers == ("x:1", "y:2")
    assert kafka.topics == ("t",)
    assert dict(kafka.options) == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "fetch.max.bytes": "5",
    }


@pytest.mark.parametrize(
    ("written", "start"),
    [
        (None, KafkaStart()),
        ("latest", KafkaStart("latest")),
        ({"timestamp": 1754000000000}, KafkaStart(timestamp_ms=1754000000000)),
        ({"offsets": {"t": {"0": 5, "1": 7}}}, KafkaStart(offsets={"t": {0: 5, 1: 7}})),
        ({"offsets": {"made": {"10": 5}}}, KafkaStart(offsets={"made": {10: 5}})),
    ],
)
def test_reading_of_a_topic_begins_where_the_config_says(tmp_path, written, start):
    kafka = {"brokers": "h:1", "topics": "t", "pattern": "m.*", **({} if written is None else {"starting": written})}
    assert feed(tmp_path, source={"kafka": kafka}).source.start == start


def test_storage_options_join_those_of_the_uri(tmp_path):
    source = feed(
        tmp_path,
        environ={"KEY": "hunter2"},
        source={"storage": "s3://b/p?region=eu", "options": {"secret-access-key": {"env": "KEY"}}},
    ).source

    assert dict(source.storage.options) == {"region": "eu", "secret-access-key": "hunter2"}
    assert "hunter2" not in repr(source)


@pytest.mark.parametrize(
    ("key", "written", "found"),
    [
        ("brokers", [], "an empty list"),
        ("brokers", "", "''"),
        ("brokers", ["a:1", ""], "''"),
        ("brokers", "a:1,", "''"),
        ("brokers", "a:b", "'a:b'"),
        ("brokers", "a:99999", "'a:99999'"),
        ("brokers", "a b:1", "'a b:1'"),
        ("brokers", "kafka://a:1", "'kafka://a:1'"),
        ("topics", [], "an empty list"),
        ("topics", "", "''"),
        ("topics", "a,b", "'a,b'"),
        ("topics", ["^a.*"], "'^a.*'"),
        ("topics", ["a", "."], "'.'"),
        ("topics", ["t" * 250], "'ttt"),
        ("topics", ["a", 5], "a list with a number"),
        ("pattern", "", "an empty one"),
    ],
)
def test_brokers_and_topics_that_are_written_are_not_taken_from_the_sink_uri(tmp_path, key, written, found):
    uri = "kafka://h:1/t?protocol=open-protocol"

    text = str(refused(tmp_path, with_feed(sink_uri=uri, source={"kafka": {key: written}})))

    assert f"found {found}" in text
    assert "faults" not in text


def test_brokers_may_be_written_in_every_form_of_librdkafka(tmp_path):
    brokers = ["a", "a.b-c_d:9092", "[::1]:1", "SSL://a:65535", "10.0.0.1:9"]

    assert feed(tmp_path, source={"kafka": {"brokers": brokers, "topics": "t"}}).source.brokers == tuple(brokers)


@pytest.mark.parametrize(
    ("security", "words"),
    [
        ({"protocol": "SASL_SLL"}, "Did you mean SASL_SSL?"),
        ({"protocol": "tcp"}, "Write one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."),
        ({"mechanism": "SCRAM-SHA-265", "username": "u", "password": "p"}, "Did you mean SCRAM-SHA-256?"),
        ({"protocol": "SASL_SSL"}, "Add the mechanism of the brokers"),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u"}, "Add password."),
        ({"protocol": "SASL_SSL", "mechanism": "scram-sha-512", "password": "p"}, "Add username."),
        ({"protocol": "ssl", "username": "u", "password": "p"}, "Write protocol: SASL_SSL, or remove username."),
        ({"protocol": "SASL_SLL", "username": "u", "password": "p", "ca": "ca.pem"}, "Did you mean SASL_SSL?"),
        ({"protocol": "ssl", "mechanism": "PLAIN"}, "Write protocol: SASL_SSL, or remove mechanism."),
        ({"password": "p"}, "Write protocol: SASL_PLAINTEXT, or remove password."),
        (
            {"mechanism": "PLAIN", "username": "u", "password": ""},
            "an empty text. Write one, or remove password.",
        ),
        ({"protocol": "ssl", "ca": ""}, "an empty text. Write one, or remove ca."),
        ({"ca": "ca.pem"}, "Write protocol: SSL, or remove ca."),
        ({"username": "u", "password": "p", "cert": "c.pem"}, "Write protocol: SASL_SSL, or remove cert."),
        ({"mechanism": "PLAIN", "username": {"env": "NONE"}, "password": "p"}, "the environment variable NONE"),
    ],
)
def test_a_login_that_cannot_work_is_one_fault_at_its_key(tmp_path, security, words):
    kafka = {"brokers": "h:1", "topics": "t", "security": security}

    text = str(refused(tmp_path, with_feed(source={"kafka": kafka})))

    assert words in text
    assert "changefeeds.shop.source.kafka.security." in text
    assert "faults" not in text


@pytest.mark.parametrize(
    ("security", "options"),
    [
        ({"protocol": "sasl_ssl", "mechanism": "scram-sha-256", "username": "u", "password": "p"}, {}),
        ({"username": "u", "password": "p"}, {}),
        ({"protocol": "SASL_SSL"}, {"sasl.mechanisms": "GSSAPI"}),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN"}, {"sasl.username": "u", "sasl.password": "p"}),
        ({"protocol": "SSL", "ca": "ca.pem"}, {}),
        ({"ca": "ca.pem"}, {"security.protocol": "ssl"}),
    ],
)
def test_a_login_may_be_completed_by_options(tmp_path, security, options):
    kafka = {"brokers": "h:1", "topics": "t", "security": security, "options": options}

    assert isinstance(feed(tmp_path, source={"kafka": kafka}).source, KafkaSource)


def test_a_login_of_the_sink_uri_is_complete(tmp_path):
    uri = (
        "kafka://h:1/t?protocol=open-protocol&sasl-user=u&sasl-password=p&sasl-mechanism=scram-sha-256&enable-tls=true"
    )

    found = feed(tmp_path, sink_uri=uri, source={"kafka": {"security": {"ca": "ca.pem"}}}).source

    assert found.options["security.protocol"] == "SASL_SSL"


@pytest.mark.parametrize(
    "keys",
    [
        {"source": {"storage": "a", "kafka": {"brokers": "h:1"}}},
        {"source": {"storage": "a", "capture": "b", "options": {"region": "eu"}}},
        {"source": "/bucket"},
        {"source": ["a"]},
        {"sink_uri": "kafka://h/t?protocol=avro", "schema_registry": {"ulr": "http://r"}},
        {"sink_uri": "kafka://h/t?protocol=avro", "schema_registry": {"url": 3}},
    ],
)
def test_one_mistake_is_one_fault(tmp_path, keys):
    assert "faults" not in str(refused(tmp_path, with_feed(**keys)))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"source": {"storage": "a", "capture": "b"}}, "storage and capture"),
        ({"source": {"messages": "nosuch"}}, "the name of another changefeed"),
        ({"source": {"storage": "a", "options": {"regoin": "eu"}}}, "region"),
        ({"source": {"capture": "a", "options": {"region": "eu"}}}, "Add storage:"),
        ({"source": {"options": {"region": "eu"}}}, "Add storage:"),
        ({"source": {"storage": "ftp://a"}}, "storage URI"),
        ({"source": {"storage": "file://host/a"}}, "three slashes"),
        ({"source": {"kafka": {"topic": "t"}}}, "Did you mean topics?"),
        ({"source": {"kafka": {"brokers": "h:1", "pattern": "("}}}, "brackets"),
        ({"source": {"kafka": {"brokers": "h:1", "pattern": ""}}}, "an empty one"),
        ({"source": {"kafka": {"options": {"a": 1}}}}, "Write brokers:"),
        ({"source": {"kafka": {"options": {"a": 1}}}}, "topics or pattern"),
        ({"source": {"kafka": {"options": {"bootstrap.servers": "h:1"}}}}, "Use brokers"),
        ({"source": {"kafka": {"options": {"metadata.broker.list": "h:1"}}}}, "Use brokers"),
        ({"source": {"kafka": {"options": {"group.id": "mine"}}}}, "no group is joined"),
        ({"source": {"kafka": {"options": {"topic.auto.offset.reset": "latest"}}}}, "Use starting"),
        ({"source": {"kafka": {"options": {"auto.commit.enable": True}}}}, "no offset is committed"),
        ({"source": {"kafka": {"options": {"stats_cb": "f"}}}}, "it takes no text"),
        ({"source": {"kafka": {"options": {"default.topic.config": "f"}}}}, "it takes no text"),
        ({"source": {"kafka": {"starting": "earlyest"}}}, "Write earliest"),
        ({"source": {"kafka": {"max_messages": 0}}}, "Write max_messages: 5000000"),
        ({"source": {"kafka": {"days_kept": 0}}}, "Write days_kept: 30"),
        ({"source": {"kafka": {"days_kept": 800_000}}}, "a whole number from 1 to 36525"),
        ({"source": {"kafka": {"max_bytes": "8 GiB"}}}, "a whole number from 1 on"),
        ({"source": {"kafka": {"starting": {"timestamp": -1}}}}, "Write earliest"),
        ({"source": {"kafka": {"starting": {"offsets": {"t": 5}}}}}, "Write earliest"),
        ({"source": {"kafka": {"starting": {"offsets": {"t": {"x": 5}}}}}}, "Write earliest"),
        ({"source": {"kafka": {"starting": {"offsets": {}}}}}, "Write earliest"),
        ({"source": {"kafka": {"starting": {"offsets": {"t": {}}}}}}, "Write earliest"),
        ({"source": {"kafka": {"starting": {"offsets": {"t": {"0": 5, "00": 6}}}}}}, "Write earliest"),
        ({"source": {"kafka": {"topics": "shop", "starting": {"offsets": {"shops": {"0": 5}}}}}}, "Did you mean shop?"),
        ({"source": {"kafka": {"pattern": "s.*", "starting": {"offsets": {"t": {"0": 5}}}}}}, "remove its offsets"),
        ({"source": {"capture": "m"}, "sink_uri": "file:///x?protocol=csv"}, "csv"),
        ({"source": {"storage": "m"}, "sink_uri": "kafka://h/t?protocol=open"}, "open-protocol"),
        ({"sink_uri": "mysql://h/?protocol=open-protocol"}, "Add source:"),
        ({"sink_uri": "kafka://h?protocol=open-protocol"}, "topic"),
    ],
)
def test_settings_of_a_source_that_cannot_be_right_are_refused(tmp_path, keys, words):
    assert words in str(refused(tmp_path, with_feed(**keys)))


def test_the_options_of_a_storage_uri_are_used_to_open_it_and_never_printed(tmp_path: Path):
    config = loaded(
        tmp_path,
        """
changefeeds:
  shop:
    sink_uri: "s3://bucket/prefix?protocol=csv&endpoint=http://127.0.0.1:9&access-key=AKIA&secret-access-key=hu%2Fsh"
    source:
      storage: "s3://other/place?access-key=AKIA"
      options: {secret-access-key: "hu/sh", region: eu}
""",
    )

    source = config.changefeed("shop").source

    assert isinstance(source, StorageSource)
    assert source.storage.uri == "s3://other/place?access-key=AKIA&secret-access-key=hu%2Fsh&region=eu"
    assert "hu/sh" not in repr(config)
    assert "hu%2Fsh" not in repr(config)


# ---- schema registry, claim check


def test_the_registry_of_the_sink_uri_is_used_without_its_password_in_sight(tmp_path):
    uri = "kafka://h/t?protocol=avro&schema-registry=http://u:p%2540@registry:8081/x/"
    registry = feed(tmp_path, sink_uri=uri).schemas.registry

    assert registry.url == "http://registry:8081/x"
    assert (registry.auth.user, registry.auth.password) == ("u", Secret("p@"))


def test_the_avro_protocol_needs_a_registry(tmp_path):
    values = with_feed(sink_uri="kafka://h/t?protocol=avro")

    assert "schema_registry: {url" in str(refused(tmp_path, values))


def test_a_registry_is_a_url_or_a_file(tmp_path):
    avro = {"sink_uri": "kafka://h/t?protocol=avro"}

    assert feed(tmp_path, **avro, schema_registry={"file": "r.json"}).schemas.registry.file == tmp_path / "r.json"
    token = feed(tmp_path, **avro, schema_registry={"url": "https://r", "auth": {"token": "t"}}).schemas.registry
    assert token.auth.token == Secret("t")
    assert "both" in str(refused(tmp_path, with_feed(**avro, schema_registry={"url": "https://r", "file": "r"})))
    assert "http" in str(refused(tmp_path, with_feed(**avro, schema_registry={"url": "ftp://r"})))


def test_claim_check_without_a_place_is_refused(tmp_path):
    large = {"sink": {"kafka-config": {"large-message-handle": {"large-message-handle-option": "claim-check"}}}}
    values = {"sink_uri": "kafka://h/t?protocol=open", "config": large}

    assert "claim_check" in str(refused(tmp_path, with_feed(**values)))
    assert feed(tmp_path, **values, claim_check="claims").large_rows.claim_check.location == f"{tmp_path}/claims"
