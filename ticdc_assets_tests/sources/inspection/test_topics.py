"""Topics of a real Kafka broker, inspected: what a capture of the same messages shows, and nothing written to Kafka."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from ticdc_assets.cli import main
from ticdc_assets.errors import SourceError
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets_tests.fixtures import Workload, read_jsonl, workloads
from ticdc_assets_tests.services.kafka import SCRAM_PASSWORD, SCRAM_USER, KafkaServer
from ticdc_assets_tests.sources.inspection.inspected import EVERYTHING, seen

OF_BROKER = pytest.mark.services


@pytest.fixture
def topics(kafka: KafkaServer) -> Iterator[list[str]]:
    """The topics that a test has made; they are removed after it."""
    made: list[str] = []
    yield made
    for topic in made:
        kafka.remove_topic(topic)


def sent(kafka: KafkaServer, topics: list[str], variant: str) -> tuple[Workload, str]:
    """A recorded stream, sent to the broker; the name of its first topic."""
    workload = workloads(variant, "seed1")[0]
    lines = [
        {**line, "key": decoded(line["key"]), "value": decoded(line["value"])}
        for line in read_jsonl(workload.root / "messages.jsonl")
    ]
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["topic"]] = max(counts.get(line["topic"], 0), line["partition"] + 1)
    for topic, count in sorted(counts.items()):
        kafka.make_topic(topic, count)
        topics.append(topic)
    kafka.send(lines)
    return workload, topics[0]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def config_of(folder: Path, kafka: KafkaServer, topic: str, **feed: Any) -> Path:
    path = folder / "changefeeds.yaml"
    options = {"sink_uri": f"kafka://{kafka.brokers}/{topic}?protocol=canal-json", **feed}
    path.write_text(yaml.safe_dump({"changefeeds": {"shop": options}}))
    return path


@OF_BROKER
@pytest.mark.parametrize("variant", ["canal-json-tidb", "open", "simple-json", "debezium-tidb-noschema"])
def test_a_topic_shows_what_its_capture_shows(kafka, topics, variant):
    workload, topic = sent(kafka, topics, variant)
    captured, found = seen(workload), inspect_source(f"kafka://{kafka.brokers}/{topic}", EVERYTHING)

    assert (found.kind, found.protocol, found.read.whole) == ("kafka", captured.protocol, True)
    assert found.tables == captured.tables
    assert found.partitions == captured.partitions
    assert (found.events.watermark, found.read.messages) == (captured.events.watermark, captured.read.messages)
    assert (found.detected.options, found.detected.config) == (captured.detected.options, captured.detected.config)
    assert found.detected.sink_uri.startswith(f"kafka://{kafka.brokers}/{topic}?protocol={found.protocol}")
    assert found.problems == captured.problems
    admin = AdminClient({"bootstrap.servers": kafka.brokers})  # a client that is gone answers no request
    groups = admin.list_consumer_groups().result(timeout=30).valid
    assert "ticdc-assets" not in {group.group_id for group in groups}


@OF_BROKER
@pytest.mark.parametrize("bounds", [Bounds(messages=30), Bounds(bytes_=3000)])
def test_only_the_first_messages_of_each_partition_are_read(kafka, topics, bounds):
    _, topic = sent(kafka, topics, "canal-json-tidb")
    found = inspect_source(f"kafka://{kafka.brokers}/{topic}", bounds)

    assert not found.read.whole
    assert all(0 < partition.messages <= 10 for partition in found.partitions.values())
    assert any("--all reads everything" in note for note in found.notes)


@OF_BROKER
def test_a_partition_without_messages_has_no_watermark(kafka, topics, capfd):
    workload, topic = sent(kafka, topics, "canal-json-tidb")
    count = len(seen(workload).partitions)
    kafka.grow_topic(topic, count + 1)

    assert main(["inspect", f"kafka://{kafka.brokers}/{topic}"]) == 0
    shown = capfd.readouterr().out
    assert "complete: not known yet" in shown
    assert f"No watermark has arrived yet on 1 of {count + 1} partitions ({topic}[{count}])" in shown
    assert f"sink_uri: kafka://{kafka.brokers}/{topic}?protocol=canal-json&enable-tidb-extension=true" in shown


@OF_BROKER
def test_parameters_of_the_uri_that_are_not_read_are_named(kafka, topics, capfd):
    _, topic = sent(kafka, topics, "canal-json-tidb")

    assert main(["inspect", f"kafka://{kafka.brokers}/{topic}?protocol=open-protocol&partition-num=9"]) == 0
    shown = capfd.readouterr().out
    assert "protocol=canal-json&enable-tidb-extension=true" in shown
    assert "Of the URI, partition-num, protocol are not read: the messages show what TiCDC was told." in shown


@OF_BROKER
def test_a_config_is_compared_with_its_topics(kafka, topics, tmp_path, capfd):
    _, topic = sent(kafka, topics, "canal-json-tidb")

    assert main(["inspect", str(config_of(tmp_path, kafka, topic))]) == 1
    assert "Set `sink.kafka-config.codec-config.enable-tidb-extension = true`" in capfd.readouterr().out
    extended = f"kafka://{kafka.brokers}/{topic}?protocol=canal-json&enable-tidb-extension=true"
    latest = {"kafka": {"starting": "latest"}}
    config = config_of(tmp_path, kafka, topic, sink_uri=extended, source=latest)
    assert main(["inspect", str(config)]) == 0
    assert capfd.readouterr().out == "shop: its configuration has what its source shows.\n"


@OF_BROKER
def test_avro_rows_are_read_with_the_schemas_that_the_config_names(kafka, topics, tmp_path, capfd):
    workload, topic = sent(kafka, topics, "avro-ext")
    found = inspect_source(f"kafka://{kafka.brokers}/{topic}", EVERYTHING)
    assert any("write `schema_registry`" in note for note in found.notes)
    uri = f"kafka://{kafka.brokers}/{topic}?protocol=avro"
    registry = {"file": str(workload.root / "registry.json")}
    source = {"kafka": {"topics": topics}}
    config = config_of(tmp_path, kafka, topic, sink_uri=uri, source=source, schema_registry=registry)

    main(["inspect", "--json", str(config)])

    (shop,) = json.loads(capfd.readouterr().out)
    assert "enable-tidb-extension" in {missing["option"] for missing in shop["missing"]}


@OF_BROKER
def test_a_login_is_used_and_not_shown(kafka, topics, capfd):
    _, topic = sent(kafka, topics, "open")
    login = f"sasl-user={SCRAM_USER}&sasl-password={SCRAM_PASSWORD}&sasl-mechanism=SCRAM-SHA-256"

    assert main(["inspect", f"kafka://{kafka.sasl_brokers}/{topic}?{login}"]) == 0
    shown = capfd.readouterr()
    assert "The lines below have no login" in shown.out
    assert SCRAM_PASSWORD not in shown.out + shown.err


@OF_BROKER
def test_an_empty_topic_and_a_missing_one_are_one_sentence(kafka, topics):
    kafka.make_topic("nothing_inspected", 2)
    topics.append("nothing_inspected")

    with pytest.raises(SourceError, match=r"found no message. Inspect again when TiCDC has written"):
        inspect_source(f"kafka://{kafka.brokers}/nothing_inspected", Bounds())
    with pytest.raises(SourceError, match="expected the topic absent_inspected, found no such topic"):
        inspect_source(f"kafka://{kafka.brokers}/absent_inspected", Bounds())


def test_a_uri_without_a_topic_is_refused():
    with pytest.raises(
        SourceError, match=r"expected brokers and a topic, found no topic. Write kafka://host:9092/topic"
    ):
        inspect_source("kafka://127.0.0.1:9092", Bounds())
