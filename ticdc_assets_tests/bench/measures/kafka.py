"""Topics to `messages`, changelog and mirror, beside librdkafka alone, Spark's Kafka source and Flink SQL."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ticdc_assets_tests.bench import child, ours, targets
from ticdc_assets_tests.bench.children.kafka_run import LAKE
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.streams import topics
from ticdc_assets_tests.services.kafka import KafkaServer, kafka_server

CANAL_JSON: Final = "canal-json-tidb"
PARTITIONS: Final = (1, 8)

Spent = dict[str, Any]


def measure(ground: BenchContext, forms: Iterable[str]) -> None:
    """Print messages a second and processor microseconds a message, of each protocol in one partition and in eight.

    The peers read Canal-JSON: Spark's source decodes nothing, and Flink SQL has no format for the others.
    """
    ground.on_progress("\nKafka: a topic to `messages`, changelog and mirror")
    ground.on_progress(f"{'':74}{'partitions':>10}{'messages/s':>12}{'CPU us/message':>16}")
    with kafka_server(ground.scratch / "kafka") as kafka:
        for form in forms:
            for partitions in PARTITIONS:
                _measure(ground, kafka, form, partitions)


def _measure(ground: BenchContext, kafka: KafkaServer, form: str, partitions: int) -> None:
    topic = f"bench-{form}-{partitions}"
    count = topics.send(kafka, form, ground.stream(form), topic, partitions)
    named = {"brokers": kafka.brokers, "topic": topic}
    outcome = _run(ground, "children.kafka_run", topic, **named, form=form, capture=str(ground.recorded(form)))
    project = outcome.answer
    landing, after = project["landing"], project["after"]
    whole = {name: landing[name] + after[name] for name in ("wall_s", "cpu_s")}
    measured = {
        "librdkafka alone, to nowhere": _run(
            ground, "peers.kafka_reading", topic, **named, partitions=partitions
        ).answer,
        "ticdc-assets, landing": landing | {"messages": project["messages"]},
        "ticdc-assets, landed messages to changelog and mirror": after,
        "ticdc-assets, landing, changelog and mirror": whole,
    }
    rows = ours.mirror_row_count(ours.lake_in(_folder(ground, "children.kafka_run", topic) / LAKE))
    if rows != len(ground.true_rows) * (ground.events // 100_000 or 1):
        ground.on_progress(f"the mirror has {rows:,} rows")
    if form == CANAL_JSON:
        measured |= _peers(ground, topic, named, landing["wall_s"], after["wall_s"])
    for name, spent in measured.items():
        if spent.get("messages", count) != count:
            raise AssertionError(f"{count} messages were sent, {spent['messages']} were read")
        ground.on_progress(
            f"{form:18}{name:56}{partitions:>10}{count / spent['wall_s']:>12,.0f}{spent['cpu_s'] / count * 1e6:>16,.1f}"
        )
    ground.on_progress(f"{form:18}{outcome.peaks.line()}")


def _peers(
    ground: BenchContext, topic: str, named: dict[str, str], landing_s: float, after_s: float
) -> dict[str, Spent]:
    """What the peers spent on the topic, judged beside the seconds of this project; Flink only where its jars are."""
    spark_source = _run(ground, "peers.spark_kafka", topic, **named, cores=ground.cores).answer
    ground.judge(targets.LANDING, spark_source["wall_s"] / landing_s)
    found = {"Spark's Kafka source to Iceberg": spark_source}
    jars = os.environ.get("TICDC_ASSETS_BENCH_FLINK", "")
    if not jars:
        ground.on_progress("Flink SQL was not run: TICDC_ASSETS_BENCH_FLINK names no folder with its jars")
        return found
    flink = _run(ground, "peers.flink_kafka", topic, **named, cores=ground.cores, jars=jars).answer
    ground.judge(targets.FLINK_LANDED, flink["wall_s"] / after_s)
    ground.judge(targets.FLINK_KAFKA, flink["wall_s"] / (landing_s + after_s))
    ground.on_progress(f"Flink's table has {flink['rows']:,} rows")
    return found | {"Flink SQL, canal-json upserted into Iceberg": flink}


def _run(ground: BenchContext, module: str, name: str, **given: Any) -> child.Outcome:
    return child.run(f"ticdc_assets_tests.bench.{module}", _folder(ground, module, name), **given)


def _folder(ground: BenchContext, module: str, name: str) -> Path:
    return ground.scratch / f"{module.rpartition('.')[2]}-{name}"
