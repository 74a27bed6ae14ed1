"""How fast changes get into a changelog here: one process, no Spark, a made-up table of nine columns in both formats.

`python -m ticdc_assets_tests.bench [CHANGES]`; each line says seconds, changes a second, and MB of stream a second.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.storage_run import StorageRun
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.sources.storage_bucket import NONE, Bucket, Layout

CHANGES = 200_000
FILES = 8
START = from_physical_ms(1_760_000_000_000)
COLUMNS = [
    {"ColumnName": "id", "ColumnType": "BIGINT", "ColumnNullable": "false", "ColumnIsPk": "true"},
    {"ColumnName": "customer", "ColumnType": "INT UNSIGNED"},
    {"ColumnName": "amount", "ColumnType": "DECIMAL", "ColumnPrecision": "18", "ColumnScale": "4"},
    {"ColumnName": "ratio", "ColumnType": "DOUBLE"},
    {"ColumnName": "state", "ColumnType": "CHAR", "ColumnPrecision": "8"},
    {"ColumnName": "title", "ColumnType": "VARCHAR", "ColumnPrecision": "200"},
    {"ColumnName": "made", "ColumnType": "DATETIME"},
    {"ColumnName": "seen", "ColumnType": "TIMESTAMP"},
    {"ColumnName": "note", "ColumnType": "VARCHAR", "ColumnPrecision": "50"},
]
NAMES = [column["ColumnName"] for column in COLUMNS]
QUERY = (
    "CREATE TABLE `orders` (`id` BIGINT PRIMARY KEY, `customer` INT UNSIGNED, `amount` DECIMAL(18,4), `ratio` DOUBLE, "
    "`state` CHAR(8), `title` VARCHAR(200), `made` DATETIME, `seen` TIMESTAMP, `note` VARCHAR(50))"
)
Format = Callable[[int, list[str | None]], str]


def row(number: int) -> list[str | None]:
    at = f"2025-10-{number % 28 + 1:02d} 12:{number % 60:02d}:{number % 59:02d}"
    title = f"order {number}, with a title of some length: ünïcode too"
    note = None if number % 3 else "x"
    return [str(number), str(number % 9973), f"{number % 10**6}.2500", str(number / 8), "open", title, at, at, note]


def csv_line(ts: int, values: list[str | None]) -> str:
    quoted = ["\\N" if value is None else f'"{value}"' for value in values]
    return ",".join(['"I"', '"orders"', '"bench"', str(ts), *quoted]) + "\r\n"


def json_line(ts: int, values: list[str | None]) -> str:
    message = {
        "id": 0, "database": "bench", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
        "es": ts >> 18, "ts": ts >> 18, "sql": "", "sqlType": {}, "mysqlType": {}, "old": None,
        "data": [dict(zip(NAMES, values, strict=True))], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\r\n"


def write(folder: Path, extension: str, line: Format, changes: int) -> int:
    """A bucket as the storage sink writes it; the bytes of its data files."""
    bucket = Bucket(folder, Layout(date_separator="none", extension=extension), START + changes + 2)
    bucket.schema("bench", "orders", START + 1, COLUMNS, QUERY)
    table = f"bench/orders/{START + 1}"
    written = 0
    for number in range(FILES):
        span = range(changes * number // FILES, changes * (number + 1) // FILES)
        content = "".join(line(START + 2 + at, row(at)) for at in span).encode()
        bucket.data(table, number + 1, content)
        written += len(content)
    bucket.index(table, FILES)
    return written


def lake_of(folder: Path, uri: str, bucket: Path) -> Lake:
    sink = {"date-separator": NONE.date_separator, "csv": {"include-commit-ts": True}}
    feed = {"sink_uri": uri, "config": {"sink": sink}, "source": {"storage": str(bucket)}}
    path = folder / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"changefeeds": {"bench": feed}}))
    config = load(path, {})
    return Lake(config, config.changefeeds[0])


def measure(name: str, uri: str, extension: str, line: Format, changes: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        size = write(folder / "bucket", extension, line, changes)
        run = StorageRun(lake_of(folder, uri, folder / "bucket"))
        began = time.perf_counter()
        report = run.publish_changelogs(run.look(), LocalWorkers())
        seconds = time.perf_counter() - began
    (counts,) = report.rows_by_op.values()
    if counts != {"I": changes}:
        raise SystemExit(f"{name}: expected {changes} inserts in the changelog, found {counts}. Do not trust the time.")
    print(f"{name:<12}{seconds:>7.2f} s{changes / seconds:>12,.0f} changes/s{size / seconds / 1e6:>8.1f} MB/s")


def main(changes: int) -> None:
    measure("csv", "file:///bench?protocol=csv", "csv", csv_line, changes)
    uri = "file:///bench?protocol=canal-json&enable-tidb-extension=true"
    measure("canal-json", uri, "json", json_line, changes)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CHANGES)
