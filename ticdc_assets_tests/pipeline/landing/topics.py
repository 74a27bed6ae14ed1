"""Topics of numbered messages, and what of them is landed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.sources.message_log import placed_messages
from ticdc_assets.tables import messages as messages_table
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.services.kafka import KafkaServer

DAY_MS = 86_400_000
T0 = 1_754_006_400_000


def numbered(topic: str, *counts: int, text: str = "m", first: int = 0) -> list[dict[str, Any]]:
    """So many messages for each partition of a topic, one a second in each."""
    return [
        {"topic": topic, "partition": p, "key": None, "value": f"{text}{p}-{n}".encode(), "ts_ms": T0 + n * 1000 + p}
        for p, count in enumerate(counts)
        for n in range(first, first + count)
    ]


def lake_of(folder: Path, kafka: KafkaServer, topics: Sequence[str], **source: Any) -> Lake:
    workload = workloads("canal-json-tidb", "seed1")[0]
    settings = {"skip_offsets": source.pop("skip_offsets", [])}
    named = {"kafka": {"brokers": kafka.brokers, "topics": list(topics), **source}}
    return FeedLake(workload, folder, storage=Path("unused"), source=named, **settings).lake


def landed(lake: Lake) -> dict[int, list[int]]:
    """By partition, the offsets that are in the table, in the order of the log."""
    found: dict[int, list[int]] = {}
    for _, message in placed_messages(landed_log(lake)):
        found.setdefault(message.partition, []).append(message.offset)
    return found


def snapshots(lake: Lake) -> int:
    table = messages_table.load(lake.catalog, lake.control.namespace)
    return 0 if table is None else len(table.snapshots())
