"""Topics of a broker to `messages`, changelog and mirror, compared with librdkafka alone and Spark's Kafka source."""

from __future__ import annotations

from typing import Any, Final

from ticdc_assets_tests.bench import child, targets
from ticdc_assets_tests.bench.ground import ReplayContext
from ticdc_assets_tests.bench.streams import topics
from ticdc_assets_tests.services.kafka import KafkaServer, kafka_server

FORM: Final = "canal-json-tidb"
PARTITIONS: Final = (1, 8)


def measure(ground: ReplayContext) -> None:
    """Print messages a second and processor microseconds a message, for one partition and for eight."""
    ground.on_progress("\nKafka, Canal-JSON: a topic to `messages`, changelog and mirror")
    ground.on_progress(f"{'':44}{'partitions':>10}{'messages/s':>12}{'CPU us/message':>16}")
    with kafka_server(ground.scratch / "kafka") as kafka:
        for partitions in PARTITIONS:
            _measure(ground, kafka, partitions)


def _measure(ground: ReplayContext, kafka: KafkaServer, partitions: int) -> None:
    topic = f"bench{partitions}"
    count = topics.send(kafka, ground.stream(FORM), topic, partitions)
    named = {"brokers": kafka.brokers, "topic": topic}
    alone = _run(ground, "peers.kafka_reading", topic, **named, partitions=partitions)
    spark_source = _run(ground, "peers.spark_kafka", topic, **named, cores=ground.cores)
    project = _run(ground, "children.kafka_run", topic, **named, form=FORM)
    for answer in (alone, spark_source, project):
        if answer["messages"] != count:
            raise AssertionError(f"{count} messages were sent, {answer['messages']} were read")
    if project["rows"] != len(ground.true_rows) * (ground.events // 100_000 or 1):
        ground.on_progress(f"the mirror has {project['rows']:,} rows")
    whole = {name: project["landing"][name] + project["after"][name] for name in ("wall_s", "cpu_s")}
    for name, spent in (
        ("librdkafka alone, to nowhere", alone),
        ("Spark's Kafka source to Iceberg", spark_source),
        ("ticdc-assets, landing", project["landing"]),
        ("ticdc-assets, landing, changelog and mirror", whole),
    ):
        ground.on_progress(
            f"{name:44}{partitions:>10}{count / spent['wall_s']:>12,.0f}{spent['cpu_s'] / count * 1e6:>16,.0f}"
        )
    ground.judge(targets.LANDING, spark_source["wall_s"] / project["landing"]["wall_s"])


def _run(ground: ReplayContext, module: str, name: str, **given: Any) -> dict[str, Any]:
    scratch = ground.scratch / f"{module.rpartition('.')[2]}-{name}"
    return child.run(f"ticdc_assets_tests.bench.{module}", scratch, **given).answer
