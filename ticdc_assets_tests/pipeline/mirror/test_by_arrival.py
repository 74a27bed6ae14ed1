"""Mirrors of streams without a TSO to read at: at the end they equal the truth, as far as the stream carries it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.changes import layout
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.gaps import Image, Log, expected
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.pipeline.small_streams import binary_record
from ticdc_assets_tests.pipeline.two_tables import T, shown
from ticdc_assets_tests.sources.storage.bucket import ID, NAME
from ticdc_assets_tests.truth import comparable

PLAIN_CANAL = [w for w in workloads("canal-json") if w.root.parent.name == "canal-json"]
AVRO = [w for w in workloads("avro") if w.name.startswith(("avro/seed1", "avro-ext-restart/seed2"))]
DEBEZIUM = workloads("debezium", "seed1")


CANAL = "kafka://host/feed?protocol=canal-json"


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("workload", of_full_set(PLAIN_CANAL), ids=lambda w: w.name)
def test_canal_json_without_the_extension_ends_at_the_truth(workload: Workload, tmp_path: Path):
    """Statements come with the milliseconds of their commits, and so do rows."""
    lake = FeedLake(workload, tmp_path)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert lake.differences(max(entry["ts"] for entry in workload.truth)) == []


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("workload", of_full_set(PLAIN_CANAL), ids=lambda w: w.name)
def test_growing_files_of_single_partitions_without_the_extension_end_at_the_truth(workload: Workload, tmp_path: Path):
    capture = tmp_path / "capture"
    capture.mkdir()
    lake = FeedLake(workload, tmp_path / "lake", source={"capture": str(capture)})
    sent = list(messages(workload.root / "messages.jsonl"))
    cuts = [0, len(sent) // 5, len(sent) // 2, len(sent) * 4 // 5, len(sent)]

    for begin, end in pairwise(cuts):
        for message in sent[begin:end]:
            with (capture / f"{message.topic}-{message.partition}.bin").open("ab") as file:
                file.write(binary_record(message.key, message.value))
        report = lake.run()
        assert report is not None
        assert report.errors == {}

    assert lake.differences(max(entry["ts"] for entry in workload.truth)) == []
    assert lake.run() is None


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("workload", DEBEZIUM, ids=lambda w: w.name)
def test_debezium_ends_with_every_row_of_the_truth(workload: Workload, tmp_path: Path):
    """Cells that its gaps are about are compared in its changelogs (`test_message_changelogs`)."""
    lake = FeedLake(workload, tmp_path)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    end = max(entry["ts"] for entry in workload.truth)
    records = lake.records()
    for entry in (entry for entry in workload.truth if entry["ts"] == end):
        found = Counter(rows_of(lake, records[entry["schema"], entry["table"]], frozenset(entry["key"])))
        assert sum(found.values()) == len(entry["rows"]), entry["table"]
        assert max(found.values(), default=1) == 1


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("workload", of_full_set(AVRO), ids=lambda w: w.name)
def test_avro_without_statements_ends_with_the_last_row_of_every_key(workload: Workload, tmp_path: Path):
    """What DDL would have taken away is still there; every cell that was sent is right."""
    lake = FeedLake(workload, tmp_path)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    expected = last_rows(workload)
    records = lake.records()
    assert records.keys() == expected.keys()
    for name, record in records.items():
        wanted = expected[name]
        mirror = {row_key(dict(row), record.key): dict(row) for row in rows_of(lake, record)}
        assert mirror.keys() == wanted.keys(), name
        for key, row in wanted.items():
            assert {n: c for n, c in row.items() if n in mirror[key]} == {
                n: mirror[key][n] for n in row if n in mirror[key]
            }


def rows_of(lake: FeedLake, record: Any, only: frozenset[str] = frozenset()) -> list[Image]:
    table = lake.lake.catalog.load_table(tuple(record.mirror))
    return [
        tuple(sorted((n, comparable(c)) for n, c in row.items() if n != layout.COMMIT_TS and (not only or n in only)))
        for row in table.scan().to_arrow().to_pylist()
    ]


def row_key(row: dict[str, Any], key: list[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


def last_rows(workload: Workload) -> dict[tuple[str, str], dict[tuple[Any, ...], dict[str, Any]]]:
    """By name and key, what a reader without statements last heard of a row. Another key is another table."""
    log = Log(workload)
    tables: dict[tuple[str, str], dict[tuple[Any, ...], dict[str, Any]]] = {}
    keys: dict[tuple[str, str], list[str]] = {}
    for change in sorted(expected(workload), key=lambda c: (c.commit_ts, c.op != "D")):
        name, key = (change.schema, change.table), list(log.shape(change).key)
        row = {re.sub(r"[^A-Za-z0-9_]", "_", n): cell for n, cell in change.new}
        if change.op == "D":
            tables.setdefault(name, {}).pop(row_key(row, key), None)
            continue
        if keys.setdefault(name, key) != key:
            keys[name], tables[name] = key, {}
        tables.setdefault(name, {})[row_key(row, key)] = row
    return tables


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("moment", [Failpoint.AFTER_CHANGELOG_COMMIT, Failpoint.AFTER_MIRROR_COMMIT])
def test_rows_of_a_newer_version_come_after_a_run_that_ended_before_them(tmp_path: Path, moment: Failpoint):
    """One ends before it records what it published, one between the rows of the old version and those of the new."""
    made = Sink(tmp_path / "bucket", commit_ts=False)
    made.table(T)
    made.file(T, 1, [made.line(T, "I", 0, 1, "one")])
    feed = made.feed(tmp_path / "lake")
    feed.run()
    feed.lake.mirrors("first")
    made.file(T, 2, [made.line(T, "I", 0, 2, "two")])
    made.alter(T, 1500, "ALTER TABLE `t` ADD COLUMN `n` INT", [ID, NAME, column("n", "INT")])
    made.file(T, 1, [made.line(T, "I", 0, 3, "three", 7)], version=1500)
    made.bucket.checkpoint(2000)

    with at(moment, broken), pytest.raises(BrokenRunError):
        feed.run()
        feed.lake.mirrors("broken")
    feed.lake.mirrors("recovery")
    feed.run()
    feed.lake.mirrors("last")

    assert shown(feed, T) == [(1, "one", None), (2, "two", None), (3, "three", 7)]
    assert feed.lake.mirrors("again").merged == []


@pytest.mark.long
@pytest.mark.spark
def test_rows_of_an_older_version_that_come_late_are_merged_as_if_they_had_come_before(tmp_path: Path):
    """Partitions are independent: messages from before a statement on one may come after messages from behind it on
    another. A TRUNCATE takes away what is older than it, and a new column's default fills it, whenever that comes."""
    capture = tmp_path / "messages.jsonl"
    workload: Any = SimpleNamespace(
        variant={"sink_uri": CANAL, "config": {}}, events=[], time_zone="UTC", root=tmp_path
    )
    lake = FeedLake(workload, tmp_path / "lake", capture)
    send(capture, 0, [
        statement(100, "CREATE TABLE `t` (`id` INT NOT NULL,`name` VARCHAR(20),PRIMARY KEY(`id`))"),
        row(110, "INSERT", id=1, name="one"),
        statement(200, "TRUNCATE TABLE `t`"),
        row(210, "INSERT", id=2, name="two"),
        row(220, "INSERT", id=3, name="three"),
        statement(300, "ALTER TABLE `t` ADD COLUMN `n` INT NOT NULL DEFAULT 5"),
        row(310, "UPDATE", id=2, name="due", n=7),
    ])  # fmt: skip
    lake.run()
    send(capture, 1, [
        row(120, "INSERT", id=9, name="before the TRUNCATE"),
        row(230, "INSERT", id=4, name="four"),
        row(320, "INSERT", id=5, name="five", n=8),
        statement(400, "ALTER TABLE `t` ADD COLUMN `m` INT NOT NULL DEFAULT 6"),
        row(410, "UPDATE", id=3, name="tre", n=9, m=10),
    ])  # fmt: skip

    lake.run()

    assert shown(Feed(lake, tmp_path, Counter()), T) == [
        (2, "due", 7, 6),
        (3, "tre", 9, 10),
        (4, "four", 5, 6),
        (5, "five", 8, 6),
    ]
    assert lake.mirrors("again").merged == []


def statement(ms: int, query: str) -> dict[str, Any]:
    return {"type": "QUERY", "isDdl": True, "es": ms, "sql": query}


def row(ms: int, kind: str, **cells: Any) -> dict[str, Any]:
    types = {name: "int" if isinstance(cell, int) else "varchar" for name, cell in cells.items()}
    data = {name: str(cell) for name, cell in cells.items()}
    codes = {name: {"int": 4, "varchar": 12}[mysql_type] for name, mysql_type in types.items()}
    rest = {"pkNames": ["id"], "mysqlType": types, "sqlType": codes, "data": [data], "old": None}
    return {"type": kind, "isDdl": False, "es": ms, "sql": "", **rest}


def send(capture: Path, partition: int, messages: list[dict[str, Any]]) -> None:
    """Canal-JSON messages without the TiDB extension."""
    nothing = dict.fromkeys(("pkNames", "mysqlType", "sqlType", "data", "old"))
    with capture.open("a") as file:
        for offset, message in enumerate(messages):
            value = json.dumps({"id": 0, "database": "s", "table": "t", "ts": 0, **nothing, **message}).encode()
            place = {"topic": "feed", "partition": partition, "offset": offset, "key": None, "ts_ms": 0}
            file.write(json.dumps({**place, "value": b64encode(value).decode()}) + "\n")


def broken() -> None:
    raise BrokenRunError
