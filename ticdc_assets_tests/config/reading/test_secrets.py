"""Credentials come from the places that the config names, and no output contains one."""

from __future__ import annotations

import pickle
import pprint

import pytest

from ticdc_assets.config import KafkaSource, Secret, Settings, redacted
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.config.config_file import loaded, with_feed

SECRET_URIS = [
    "kafka://user:hunter2@h:9092/t?protocol=open-protocol",
    "kafka://hunter2@h:9092/t?protocol=open-protocol",
    "kafka://h:9092/t?protocol=open-protocol&sasl-user=u&sasl-password=hunter2",
    "kafka://h:9092/t?protocol=open-protocol&sasl-oauth-client-secret=hunter2",
    "kafka://h:9092/t?protocol=open-protocol&sasl%2Dpassword=hunter2",
    "kafka://h:9092/t?protocol=avro&schema-registry=http%3A%2F%2Fu%3Ahunter2%40registry",
    "s3://b/p?protocol=csv&access-key=hunter2a&secret-access-key=hunter2",
    "s3://b/p?protocol=csv&session-token=hunter2",
    "s3://b/p?protocol=csv&sasl-password=ab&hunter2",
    "s3://b/p?protocol=csv&sasl-password=ab#hunter2",
    "azblob://b/p?protocol=csv&account-key=hunter2",
    "azblob://b/p?protocol=csv&sas-token=sv%3D1%26sig%3Dhunter2",
    "gcs://b/p?protocol=csv&credentials-file=hunter2",
    "kafka://user:hun/hunter2@h:9092/t?protocol=csv",
    "kafka://user:hun?hunter2@h:9092/t?protocol=csv",
    "kafka://user:12/hunter2@h:9092/t?protocol=csv",
    "kafka://[hunter2/t?protocol=csv",
    "kafka://user:hunter2",
]


@pytest.mark.parametrize("uri", SECRET_URIS)
def test_a_redacted_uri_holds_no_credential(uri):
    assert "hunter2" not in redacted(uri)
    assert redacted(uri).startswith(uri.partition("://")[0])


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://h:9092/t?protocol=open-protocol&max-message-bytes=2500",
        "kafka://a:9092,b:9092,[::1]:9092/t?protocol=simple&encoding-format=avro",
        "s3://bucket/pre fix/ü?endpoint=http://minio:9000&region=eu",
        "file:///x?protocol=csv",
        "no uri",
    ],
)
def test_a_redacted_uri_keeps_all_else(uri):
    assert uri == redacted(uri)


@pytest.mark.parametrize("uri", SECRET_URIS)
def test_nothing_that_is_printed_holds_a_credential(tmp_path, uri):
    values = with_feed(
        sink_uri=uri,
        source={"capture": "messages.jsonl"} if uri.startswith("kafka") else None,
        schema_registry={"url": "https://u:hunter2@registry/x", "auth": {"user": "u", "password": "hunter2"}},
        config={"sink": {"kafka-config": {"sasl-password": "hunter2"}, "date-separatr": "hunter2"}},
    )
    try:
        config = loaded(tmp_path, values)
    except ConfigError as error:
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(error)
        return

    shop = config.changefeed("shop")
    printed = f"{config!r} {config} {pprint.pformat(config)} {shop.redacted_sink_uri} {shop.warnings}"
    assert "hunter2" not in printed


def test_secrets_come_from_the_environment_and_are_hidden(tmp_path):
    values = with_feed(
        sink_uri={"env": "SINK"},
        source={"kafka": {"security": {"username": "u", "password": {"env": "KAFKA_PASSWORD"}}}},
        schema_registry={"url": "https://registry", "auth": {"env": "REGISTRY"}},
        config={"sink": {"kafka-config": {"sasl-password": {"env": "KAFKA_PASSWORD"}}}},
    )

    config = loaded(
        tmp_path,
        values,
        SINK="kafka://h:9092/t?protocol=avro",
        KAFKA_PASSWORD='hun"ter2',
        REGISTRY="me:hunter2",
    )

    shop = config.changefeed("shop")
    assert shop.schemas.registry is not None
    assert shop.schemas.registry.auth is not None
    assert (shop.schemas.registry.auth.user, shop.schemas.registry.auth.password) == ("me", Secret("hunter2"))
    assert isinstance(shop.source, KafkaSource)
    assert shop.source.options["sasl.password"] == 'hun"ter2'
    assert "ter2" not in repr(config)


def test_secrets_print_as_stars():
    secret = Secret("hunter2")

    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert secret == pickle.loads(pickle.dumps(secret))
    assert secret.reveal() == "hunter2"
    assert secret != Secret("other")


def test_settings_hide_what_their_names_give_away():
    options = Settings({"s3.secret-access-key": "hunter2", "s3.region": "eu", "mine": "hunter2"}, frozenset({"mine"}))

    assert "hunter2" not in repr(options)
    assert "eu" in repr(options)
    assert dict(options)["mine"] == "hunter2"
    assert options == pickle.loads(pickle.dumps(options))
