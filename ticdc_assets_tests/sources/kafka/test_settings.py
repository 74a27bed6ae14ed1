"""Settings that librdkafka refuses: the error names the setting, and of a file its path and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.config import KafkaSource
from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.errors import SourceError
from ticdc_assets.sources.kafka.client import FIXED, KafkaClient
from ticdc_assets_tests.config.config_file import refused as refused_config
from ticdc_assets_tests.config.config_file import with_feed


def refused(options: dict[str, str]) -> str:
    source = KafkaSource(brokers=("127.0.0.1:9",), topics=("t",), options=Settings(options))
    with pytest.raises(SourceError) as caught, KafkaClient(source):
        pass
    return str(caught.value)


@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
def test_a_file_of_the_login_is_named_with_what_is_wrong(tmp_path: Path, setting: str):
    (tmp_path / "text.pem").write_text("no certificate")

    missing = refused({"security.protocol": "SSL", setting: f"{tmp_path}/nosuch.pem"})
    text = refused({"security.protocol": "SSL", setting: f"{tmp_path}/text.pem"})

    assert f"{setting}, {tmp_path}/nosuch.pem: No such file or directory. Check source.kafka.security" in missing
    assert f"{setting}, {tmp_path}/text.pem: not as PEM" in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.username"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "",
            },
            "sasl.password",
        ),
        ({"fetch.wiat.max.ms": "1"}, "fetch.wiat.max.ms"),
        ({"fetch.wait.max.ms": "hunter2"}, "fetch.wait.max.ms"),
        ({"isolation.level": "hunter2"}, "isolation.level"),
        ({"check.crcs": "hunter2"}, "check.crcs"),
        ({"receive.message.max.bytes": "1000"}, "receive.message.max.bytes"),
    ],
)
def test_a_setting_is_named_without_its_value(options: dict[str, str], named: str):
    text = refused(options)

    assert f"found one that it refuses: {named}. Check" in text
    assert "hunter2" not in text


def test_a_mechanism_that_librdkafka_was_built_without_is_named():
    text = refused({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})

    assert "sasl.mechanism, GSSAPI: this librdkafka was built without it" in text


@pytest.mark.parametrize("setting", FIXED)
def test_a_setting_that_would_have_no_effect_is_refused_by_the_config(tmp_path: Path, setting: str):
    kafka = {"brokers": "h:1", "topics": "t", "options": {setting: "any"}}

    assert "This project sets it" in str(refused_config(tmp_path, with_feed(source={"kafka": kafka})))
