"""Reading landed messages takes bounded memory and few open files, whatever their sizes and partitions."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.landing import landed_log as reading
from ticdc_assets.pipeline.landing import records, segment_rows
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.protocols.formats.limits import BATCH_BYTES
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.landing.topics import lake_of, landed, numbered

pytestmark = pytest.mark.services


@pytest.fixture
def arrow_memory():
    """A memory pool that knows its peak, used while a test runs."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(before)


def test_large_messages_are_read_as_many_at_once_as_memory_allows(kafka, topic, tmp_path, arrow_memory):
    size_bytes = 500_000
    kafka.make_topic(topic, 2)
    value = random.Random(1).randbytes(size_bytes)
    kafka.send([{**m, "value": value} for m in numbered(topic, 200, 200)])
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    log = landed_log(lake)
    before_bytes = arrow_memory.bytes_allocated()
    held = [arrow_memory.bytes_allocated() - before_bytes for _ in log.blocks()]
    sizes = [len(block) * size_bytes for block in log.blocks()]

    assert sum(sizes) == 400 * size_bytes
    assert BATCH_BYTES // 2 <= max(sizes) <= BATCH_BYTES + size_bytes
    assert max(held) < 8 * BATCH_BYTES


def test_small_messages_after_large_ones_are_read_in_large_blocks(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    large = [{**m, "value": b"x" * 500_000} for m in numbered(topic, 40)]
    kafka.send([*large, *numbered(topic, 9_000, first=40)])
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    sizes = [len(block) for block in landed_log(lake).blocks()]

    assert sum(sizes) == 9_040
    assert max(sizes) == 8_192
    assert len(sizes) < 8
    assert landed(lake)[0] == list(range(9_040))


def test_the_row_groups_of_all_partitions_together_have_a_bounded_size(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_READ_BYTES", 40_000)
    monkeypatch.setattr(records, "_ROW_GROUP_BYTES_LEAST", 1_000)
    kafka.make_topic(topic, 4)
    kafka.send([{**m, "value": b"x" * 5_000} for m in numbered(topic, 10, 10, 10, 10)])
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    files = [pq.ParquetFile(file.uri.removeprefix("file://")) for file in _files(lake)]

    assert [file.num_row_groups for file in files] == [5, 5, 5, 5]
    assert landed(lake) == {partition: list(range(10)) for partition in range(4)}


def test_a_log_of_many_partitions_keeps_no_file_open(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "OPEN_FILES_MAX", 3)
    monkeypatch.setattr(segment_rows, "WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 4)
    monkeypatch.setattr("ticdc_assets.sources.message_block.BLOCK_MESSAGES", 7)
    kafka.make_topic(topic, 5)
    kafka.send(numbered(topic, 10, 10, 10, 10, 10))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    seen = [len(_open_files(tmp_path)) for _ in landed_log(lake).blocks()]

    assert len(seen) == 8
    assert set(seen) == {0}
    assert landed(lake) == {partition: list(range(10)) for partition in range(5)}


@pytest.mark.parametrize("whole_bytes_max", [0, segment_rows.WHOLE_BYTES_MAX])
@pytest.mark.parametrize("kept_bytes", [None, 0, 100])
def test_a_file_that_is_gone_or_cut_off_is_named(kafka, topic, tmp_path, monkeypatch, whole_bytes_max, kept_bytes):
    monkeypatch.setattr(segment_rows, "WHOLE_BYTES_MAX", whole_bytes_max)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 10))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    file = Path(_files(lake)[0].uri.removeprefix("file://"))
    data = file.read_bytes()
    file.unlink()
    if kept_bytes is not None:
        file.write_bytes(data[:kept_bytes])

    with pytest.raises(SourceError, match=f"messages, file {file.name}: expected a file that can be read") as raised:
        list(landed_log(lake).blocks())
    assert "Restore it" in raised.value.advice


def _files(lake):
    return [file for landing in landed_log(lake).landings for segment in landing.segments for file in segment.files]


def _open_files(folder: Path) -> list[str]:
    """The Parquet files below a folder that this process has open."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(file.readlink()))
    return [path for path in found if path.startswith(str(folder)) and path.endswith(".parquet")]
