"""TIMESTAMPs in the hour that a clock change repeats: counted where nothing tells which of two times one is."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ticdc_assets_tests.deliveries.wires import SimpleJson
from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.changelog.key_messages import message, statement
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink, column
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at
from ticdc_assets_tests.sources.storage.bucket import ID

ZONE = "America/New_York"
SENT = ("2024-11-03 00:30:00", "2024-11-03 01:30:00", "2024-11-03 01:30:00", "2024-11-03 02:30:00")
UTC = ("2024-11-03 04:30:00", "2024-11-03 05:30:00", "2024-11-03 06:30:00", "2024-11-03 07:30:00")
"""What TiDB has: the third is the second of two times."""
FIRST = ("2024-11-03 04:30:00", "2024-11-03 05:30:00", "2024-11-03 05:30:00", "2024-11-03 07:30:00")
CREATE = "CREATE TABLE `a` (`id` INT NOT NULL,`k` TIMESTAMP NULL,PRIMARY KEY(`id`))"


def times(lake: FeedLake) -> tuple[str, ...]:
    [record] = lake.records().values()
    found = lake.lake.catalog.load_table(tuple(record.changelog or ())).scan().to_arrow().to_pylist()
    return tuple(f"{row['k']:%Y-%m-%d %H:%M:%S}" for row in sorted(found, key=lambda row: row["id"]))


@pytest.mark.parametrize("rows", [1, 300], ids=["a few rows", "many rows"])
def test_ambiguous_times_of_a_stream_are_counted(tmp_path: Path, rows: int):
    stream = SmallStream(tmp_path)
    stream.send(TOPIC, 0, statement(CREATE, at(1)))
    for number, text in enumerate(SENT * rows):
        stream.send(TOPIC, 0, message("I", {"k": text, "id": str(number)}, "TIMESTAMP", at(3)))
    stream.watermark(5)
    lake = stream.lake(time_zone=ZONE)

    report = lake.publish()

    assert report is not None
    assert total(report).ambiguous_times == 2 * rows
    assert times(lake) == FIRST * rows


def test_ambiguous_times_of_a_bucket_are_counted(tmp_path: Path):
    sink, name = Sink(tmp_path / "bucket"), ("s", "a")
    sink.table(name, columns=[ID, column("k", "TIMESTAMP")], query=CREATE)
    sink.file(name, 1, [sink.line(name, "I", 110, number, text) for number, text in enumerate(SENT)])
    feed = sink.feed(tmp_path / "lake", time_zone=ZONE)

    report = feed.run()

    assert report is not None
    assert total(report).ambiguous_times == 2
    assert times(feed.lake) == FIRST


def test_no_time_in_utc_is_ambiguous(tmp_path: Path):
    stream = SmallStream(tmp_path)
    stream.send(TOPIC, 0, statement(CREATE, at(1)))
    stream.send(TOPIC, 0, message("I", {"k": SENT[1], "id": "1"}, "TIMESTAMP", at(3)))
    stream.watermark(5)

    report = stream.lake().publish()

    assert report is not None
    assert total(report).ambiguous_times == 0


@pytest.mark.parametrize("checksums", [True, False], ids=["with checksums", "without"])
def test_the_checksum_of_a_simple_row_tells_ambiguous_times_apart(tmp_path: Path, checksums: bool):
    config = {"integrity": {"integrity-check-level": "correctness", "corruption-handle-level": "error"}}
    stream = SmallStream(tmp_path, wire=SimpleJson(), config=config if checksums else {})
    stream.send(TOPIC, 0, simple({"type": "CREATE", "sql": CREATE, "commitTs": at(1), "tableSchema": SCHEMA}))
    for number, (text, utc) in enumerate(zip(SENT, UTC, strict=True)):
        stream.send(TOPIC, 0, simple_row(number, text, utc, checksums))
    stream.watermark(5)
    lake = stream.lake(time_zone="UTC")

    report = lake.publish()

    assert report is not None
    assert lake.lake.control.quarantined() == []
    assert times(lake) == (UTC if checksums else FIRST)
    assert total(report).ambiguous_times == (0 if checksums else 2)


INT = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
TIMESTAMP = {"mysqlType": "timestamp", "charset": "binary", "collate": "binary", "length": 19}
SCHEMA = {
    "schema": "s", "table": "a", "tableID": 7, "version": at(1) - 3,
    "columns": [
        {"name": "id", "dataType": INT, "nullable": False, "default": None},
        {"name": "k", "dataType": TIMESTAMP, "nullable": True, "default": None},
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}  # fmt: skip


def simple(members: dict[str, Any]) -> tuple[None, bytes]:
    return None, json.dumps({"version": 1, "buildTs": 0, **members}, separators=(",", ":")).encode()


def simple_row(number: int, text: str, utc: str, checksums: bool) -> tuple[None, bytes]:
    head = {"database": "s", "table": "a", "tableID": 7, "type": "INSERT", "commitTs": at(3)}
    members = {**head, "schemaVersion": at(1) - 3, "data": {"id": str(number), "k": {"location": ZONE, "value": text}}}
    current = crc32(struct.pack("<Q", number) + struct.pack("<I", len(utc)) + utc.encode())
    checksum = {"version": 0, "corrupted": False, "current": current, "previous": 0}
    return simple({**members, **({"checksum": checksum} if checksums else {})})
