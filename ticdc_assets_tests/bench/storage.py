"""Rows a second from a storage sink's files: decode alone, changelogs, changelogs plus mirrors.

`python -m ticdc_assets_tests.bench.storage FOLDER` takes a folder with `storage-csv.tar.zst` and
`storage-canal-json.tar.zst` (buckets of 100,000 row events each) and `log.tar.zst` (the true rows). Every figure is of
one warm run on this machine after one cold run, whose Spark start-up is not counted; the mirrors are compared with the
true rows before any figure is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from ticdc_assets import spark
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror_run import run_mirrors
from ticdc_assets.pipeline.storage_run import StorageRun
from ticdc_assets.protocols import canal_json_bulk, csv_bulk
from ticdc_assets.protocols.storage_schema import parse_schema_file
from ticdc_assets.schema import ddl
from ticdc_assets.schema.mysql_types import format_type
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.iceberg_jvm import JvmCatalog
from ticdc_assets_tests.truth import table_rows, truth_rows, truth_types

SINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "storage-canal-json": ("file:///x?protocol=canal-json&enable-tidb-extension=true", {}),
    "storage-csv": ("file:///x?protocol=csv", {"csv": {"include-commit-ts": True}}),
}


@dataclass(frozen=True)
class Figures:
    """Seconds of one run over `rows` row events."""

    rows: int
    decode_s: float
    changelog_s: float
    mirror_s: float

    def line(self, name: str) -> str:
        whole = self.changelog_s + self.mirror_s
        speeds = (self.rows / s for s in (self.decode_s, self.changelog_s, whole))
        return f"{name:22}" + "".join(f"{speed:>16,.0f}" for speed in speeds)


def unpacked_at(archive: Path, folder: Path, *marks: str) -> Path:
    """The folder of an archive in which the first file of any of these names lies."""
    with pa.input_stream(archive, compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        tar.extractall(folder, filter="data")
    return next(path.parent for mark in marks for path in folder.rglob(mark))


def config_of(folder: Path, name: str, bucket: Path, separator: str) -> Config:
    uri, sink = SINKS[name]
    feed = {
        "sink_uri": uri,
        "config": {"sink": {"date-separator": separator, **sink}},
        "source": {"storage": str(bucket)},
    }
    lake = {
        "name": f"bench_{folder.name}".replace("-", "_"),
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"{folder}/warehouse",
    }
    folder.mkdir(parents=True)
    path = folder / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"catalog": lake, "spark": {"master": "local[2]"}, "changefeeds": {"bench": feed}}))
    return load(path, {})


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    answer = work()
    return time.perf_counter() - begin, answer


def measured(config: Config) -> tuple[Figures, Lake]:
    """One whole run into a fresh lake."""
    session = spark.session(config)
    lake = Lake(config, config.changefeeds[0])
    run = StorageRun(lake)
    pending = run.look()
    decode_s, rows = timed(lambda: decoded_rows(lake))
    changelog_s, report = timed(lambda: run.publish_changelogs(pending, SparkWorkers(session)))
    mirror_s, _ = timed(lambda: run_mirrors(lake, report.run_id, lambda: JvmCatalog(session, config.catalog.name)))
    return Figures(rows, decode_s, changelog_s, mirror_s), lake


def decoded_rows(lake: Lake) -> int:
    """Bulk decode of every file of the one table into columns of text, on one thread."""
    bucket = Path(lake.storage_uri)
    told = next(bucket.glob("*/*/meta/schema_*.json"))
    schema = parse_schema_file(told.read_bytes(), told.name).table_schema()
    assert schema is not None
    columns = tuple(c.name for c in schema.stored_columns)
    rows = 0
    for path in sorted(bucket.rglob("CDC*.csv")):
        rows += sum(len(raw) for raw in csv_bulk.read_file(str(path), lake.csv_options, columns, path.name))
    for path in sorted(bucket.rglob("CDC*.json")):
        found = canal_json_bulk.read_file(str(path), columns, path.name, schema.schema, schema.name)
        rows += sum(len(raw) for raw in found)
    return rows


def check(lake: Lake, truth: Path) -> None:
    """Raise where a mirror is not what is true."""
    lines = truth.read_text().splitlines()
    told = json.loads(lines[0])
    (statement,) = ddl.parse(told["create"], told["schema"])
    assert isinstance(statement, ddl.CreateTable)
    columns = [[c.name, format_type(c.type), c.nullable, c.virtual] for c in statement.columns]
    entry = {**told, "columns": columns, "rows": [json.loads(line) for line in lines[1:]]}
    newest = lake.control.newest()
    assert newest is not None
    record = next(r for r in newest.tables if (r.schema, r.table) == (entry["schema"], entry["table"]))
    rows = lake.catalog.load_table(tuple(record.mirror or ())).scan().to_arrow().to_pylist()
    found, wanted = table_rows(rows, truth_types(entry)), truth_rows(entry, "UTC")
    if found != wanted:
        raise AssertionError(f"{len(wanted - found)} rows are missing, {len(found - wanted)} are too many")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        truth = unpacked_at(folder / "log.tar.zst", base / "log", "truth.jsonl") / "truth.jsonl"
        lines = []
        for name in SINKS:
            bucket = unpacked_at(folder / f"{name}.tar.zst", base / name, "metadata")
            separator = "day" if any(bucket.rglob("20??-??-??")) else "none"
            for warmth in ("cold", "warm"):
                figures, lake = measured(config_of(base / f"{name}-{warmth}", name, bucket, separator))
                check(lake, truth)
                lines.append(figures.line(f"{name}, {warmth}"))
        header = f"{'rows/s':22}{'decode':>16}{'changelog':>16}{'with mirror':>16}"
        sys.stdout.write("\n".join([header, *lines]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
