"""Tables that get a key after they have rows, and tables that lose it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.changelog.key_messages import message, statement
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at
from ticdc_assets_tests.sources.storage.bucket import NAME, Bucket

PLAIN_ID = {"ColumnName": "id", "ColumnType": "INT", "ColumnPrecision": "11"}
KEY_ID = {**PLAIN_ID, "ColumnNullable": "false", "ColumnIsPk": "true"}
CSV = {"delimiter": ",", "quote": '"', "null": "\\N", "include-commit-ts": True, "output-old-value": True}


def feed(folder: Path) -> tuple[Bucket, FeedLake]:
    variant = {
        "sink_uri": "file:///x?protocol=csv",
        "config": {"sink": {"date-separator": "none", "csv": CSV}},
        "log": "log",
    }
    workload = folder / "workload"
    (workload / "log").mkdir(parents=True)
    (workload / "log" / "events.jsonl").write_text("")
    (workload / "variant.json").write_text(json.dumps(variant))
    bucket = Bucket(folder / "bucket", checkpoint=0)
    return bucket, FeedLake(Workload(workload), folder / "lake", bucket.base)


def rows(*changes: tuple[Any, ...]) -> bytes:
    return b"".join(
        f'"{op}","t","shop",{ts},{"true" if update else "false"},{number},"{name}"\r\n'.encode()
        for op, ts, update, number, name in changes
    )


def mirror(lake: FeedLake) -> set[tuple[int, str]]:
    record = lake.records()["shop", "t"]
    table = lake.lake.catalog.load_table(tuple(record.mirror or ()))
    return {(row["id"], row["name"]) for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.spark
def test_a_table_that_gets_a_key_gets_a_mirror_of_the_rows_it_had(tmp_path: Path):
    bucket, lake = feed(tmp_path)
    bucket.schema("shop", "t", 100, [PLAIN_ID, NAME], "CREATE TABLE `t` (`id` INT,`name` VARCHAR(200))")
    changes = (
        ("I", 110, False, 1, "a"), ("I", 110, False, 2, "b"), ("I", 110, False, 2, "b"),
        ("D", 120, False, 2, "b"), ("D", 130, True, 1, "a"), ("I", 130, True, 1, "c"), ("I", 140, False, 3, "d"),
        ("D", 150, False, 3, "d"),
    )  # fmt: skip
    bucket.index("shop/t/100", 1)
    bucket.data("shop/t/100", 1, rows(*changes))
    bucket.schema("shop", "t", 200, [KEY_ID, NAME], "ALTER TABLE `t` ADD PRIMARY KEY(`id`)", 32)
    bucket.index("shop/t/200", 1)
    bucket.data("shop/t/200", 1, rows(("D", 210, True, 2, "b"), ("I", 210, True, 2, "e"), ("I", 220, False, 4, "f")))
    bucket.checkpoint(300)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert mirror(lake) == {(1, "c"), (2, "e"), (4, "f")}


@pytest.mark.spark
def test_a_table_that_loses_its_key_keeps_its_changelog_and_no_mirror(tmp_path: Path):
    bucket, lake = feed(tmp_path)
    bucket.schema("shop", "t", 100, [KEY_ID, NAME], "CREATE TABLE `t` (`id` INT,`name` VARCHAR(200),PRIMARY KEY(`id`))")
    bucket.index("shop/t/100", 1)
    bucket.data("shop/t/100", 1, rows(("I", 110, False, 1, "a")))
    bucket.checkpoint(150)
    lake.run()
    assert mirror(lake) == {(1, "a")}
    bucket.schema("shop", "t", 200, [PLAIN_ID, NAME], "ALTER TABLE `t` DROP PRIMARY KEY", 33)
    bucket.index("shop/t/200", 1)
    bucket.data("shop/t/200", 1, rows(("I", 210, False, 1, "a"), ("I", 210, False, 1, "a")))
    bucket.checkpoint(300)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    record = lake.records()["shop", "t"]
    assert (record.mirror, record.state, record.watermark) == (None, "live", 300)
    assert sum(lake.changes().values()) == 3


@pytest.mark.spark
def test_a_column_that_leaves_the_key_may_be_null_afterwards(tmp_path: Path):
    stream = SmallStream(tmp_path)
    stream.send(
        TOPIC, 0, statement("CREATE TABLE `a` (`id` INT NOT NULL,`k` DATE NOT NULL,UNIQUE `u`(`id`,`k`))", at(1))
    )
    stream.send(TOPIC, 0, message("I", {"id": "1", "k": "2024-01-01"}, "DATE", at(2)))
    stream.watermark(3)
    lake = stream.lake()
    lake.run()
    stream.send(TOPIC, 0, statement("ALTER TABLE `a` ADD UNIQUE `n`(`id`)", at(4)))
    stream.send(TOPIC, 0, message("I", {"id": "2", "k": "0000-00-00"}, "DATE", at(5)))
    stream.watermark(6)

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    record = lake.records()["s", "a"]
    rows = lake.lake.catalog.load_table(tuple(record.mirror or ())).scan().to_arrow().to_pylist()
    assert {row["id"]: str(row["k"]) for row in rows} == {1: "2024-01-01", 2: "None"}
