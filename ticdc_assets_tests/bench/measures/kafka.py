"""Topics to `messages`, changelog and mirror, beside librdkafka alone, Spark's Kafka source and Flink SQL."""

from __future__ import annotations

import os
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
    flink = _flink(ground, topic, named)
    for answer in (alone, spark_source, project):
        if answer["messages"] != count:
            raise AssertionError(f"{count} messages were sent, {answer['messages']} were read")
    if project["rows"] != len(ground.true_rows) * (ground.events // 100_000 or 1):
        ground.on_progress(f"the mirror has {project['rows']:,} rows")
    whole = {name: project["landing"][name] + project["after"][name] for name in ("wall_s", "cpu_s")}
    measured = {
        "librdkafka alone, to nowhere": alone,
        "Spark's Kafka source to Iceberg": spark_source,
        "ticdc-assets, landing": project["landing"],
        "ticdc-assets, landing, changelog and mirror": whole,
    }
    if flink is not None:
        measured["Flink SQL, canal-json upserted into Iceberg"] = flink
    for name, spent in measured.items():
        ground.on_progress(
            f"{name:44}{partitions:>10}{count / spent['wall_s']:>12,.0f}{spent['cpu_s'] / count * 1e6:>16,.0f}"
        )
    ground.judge(targets.LANDING, spark_source["wall_s"] / project["landing"]["wall_s"])
    if flink is not None:
        ground.on_progress(f"{'':44}Flink's table has {flink['rows']:,} rows, ours {project['rows']:,}")
        ground.judge(targets.FLINK_KAFKA, flink["wall_s"] / whole["wall_s"])


def _flink(ground: ReplayContext, topic: str, named: dict[str, str]) -> dict[str, Any] | None:
    """What Flink took; None where no jars are named."""
    jars = os.environ.get("TICDC_ASSETS_BENCH_FLINK", "")
    if not jars:
        ground.on_progress("Flink SQL was not run: TICDC_ASSETS_BENCH_FLINK names no folder with its jars")
        return None
    return _run(ground, "peers.flink_kafka", topic, **named, cores=ground.cores, jars=jars)


def _run(ground: ReplayContext, module: str, name: str, **given: Any) -> dict[str, Any]:
    scratch = ground.scratch / f"{module.rpartition('.')[2]}-{name}"
    return child.run(f"ticdc_assets_tests.bench.{module}", scratch, **given).answer
