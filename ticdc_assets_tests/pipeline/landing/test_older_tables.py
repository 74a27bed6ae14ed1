"""A table `messages` of an older version, without the newest columns: its messages are read next to new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from pyiceberg.table import Table

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.pipeline.landing.worker import LandedRange, LandingTask, land_ranges
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.messages import LandedOffsets, LandedPartition
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.sent_streams import feed_of, known_values
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services

NEW_COLUMNS: Final = ("min_commit_ts", "schema_version")


def older_table(lake: Lake) -> Table:
    table = messages_table.ensure(lake.catalog, lake.control.namespace)
    with table.update_schema() as update:
        for name in NEW_COLUMNS:
            update.delete_column(name)
    return table


def landed_before(lake: Lake, table: Table, kafka: KafkaServer, topic: str, partitions: int) -> None:
    """Land what the partitions have, in files with the columns of the table."""
    read: list[LandedRange] = []
    for number in range(partitions):
        end = len(kafka.offsets_of(topic, number))
        task = LandingTask(
            run_id="older",
            number=number,
            source=lake.changefeed.source,  # type: ignore[arg-type]
            wanted=(OffsetRange(KafkaPartition(topic, number), 0, end),),
            bytes_max=1 << 30,
            row_group_bytes=1 << 20,
            protocol=str(lake.changefeed.sink.protocol),
            options=options_of(lake.changefeed),
            schema=messages_table.file_schema(table),
            data_uri=f"{table.location()}/data",
            io_properties=lake.io_properties,
        )
        read += land_ranges(task)
    offsets = {(topic, n): LandedPartition(r.done.end, r.last_mark) for n, r in enumerate(read)}
    landed = LandedOffsets(offsets, sum(r.messages for r in read), "older")
    messages_table.append(table, lake.changefeed.name, [f for r in read for f in r.files], LandedOffsets(), landed)


@pytest.mark.parametrize("variant", ["canal-json-tidb", "open"])
def test_messages_that_an_older_version_landed_are_read_next_to_new_ones(
    kafka: KafkaServer, sent: Any, tmp_path: Path, variant: str
):
    workload = next(w for w in workloads(variant, "seed1") if w.name.startswith(f"{variant}/"))
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    [topic] = stream.topics
    partitions = 1 + max(message["partition"] for message in stream.messages)
    stream.send(0, 0.5)
    landed_before(feed.lake, older_table(feed.lake), kafka, topic, partitions)
    older = messages_table.landed_offsets(messages_table.ensure(feed.lake.catalog, feed.lake.control.namespace))
    stream.send(0.5, 1)
    land(feed.lake, LocalWorkers())
    blocks = list(landed_log(feed.lake).headed_blocks(suffice=lambda heads: heads.min_commit_ts is not None))
    table = messages_table.load(feed.lake.catalog, feed.lake.control.namespace)
    assert table is not None
    rows = table.scan(selected_fields=("kind", *NEW_COLUMNS)).to_arrow()
    captured = FeedLake(workload, tmp_path / "captured")
    captured.publish()
    feed.publish()

    assert sum(map(len, blocks)) == len(rows) == len(stream.messages)
    assert rows.filter(rows["min_commit_ts"].is_valid())["kind"].to_pylist().count("row") > 0
    assert rows["min_commit_ts"].null_count >= older.messages > 0
    assert sum(len(block) for block in blocks if block.heads is None) == older.messages
    assert known_values(feed) == known_values(captured)
    assert feed.complete_tso() == captured.complete_tso() > 0
