"""Rows a second from captured messages to changelogs: the bulk form of each protocol against its reference.

`python -m ticdc_assets_tests.bench.messages FOLDER` takes a folder with `<protocol>.tar.zst` (captures of row events of
one table). Both forms run through the same pipeline, in this process and on one thread, on the same messages; their
changelogs are compared before any figure is printed. A ratio is of two runs that follow each other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.message_run import MessageRun
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.capture import messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.bench.storage import timed, unpacked_at

STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "canal-json-tidb": ("protocol=canal-json&enable-tidb-extension=true", {}),
    "open": ("protocol=open-protocol", {}),
    "simple-json": ("protocol=simple", {}),
    "simple-avro": ("protocol=simple", {"simple": {"encoding-format": "avro"}}),
    "avro": ("protocol=avro&enable-tidb-extension=true", {}),
}


def config_of(folder: Path, name: str, capture: Path) -> Config:
    query, sink = STREAMS[name]
    feed: dict[str, Any] = {
        "sink_uri": f"kafka://127.0.0.1:9092/bench?{query}",
        "config": {"sink": sink},
        "source": {"capture": str(capture)},
    }
    if (registry := capture / "registry.json").exists():
        feed["schema_registry"] = {"file": str(registry)}
    lake = {"name": "bench", "type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{folder}/warehouse"}
    folder.mkdir(parents=True)
    path = folder / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"catalog": lake, "changefeeds": {"bench": feed}}))
    return load(path, {})


def cut(capture: Path, folder: Path, count: int) -> Path:
    """The first messages of a capture's every partition."""
    folder.mkdir(parents=True)
    for file in capture.iterdir():
        if file.suffix == ".bin":
            body = b"".join(_record(m.ts_ms, m.key, m.value) for m in islice(messages(file), count))
            (folder / file.name).write_bytes(body)
        elif file.name == "registry.json":
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def _record(ts_ms: int, *fields: bytes | None) -> bytes:
    sized = (((-1 if f is None else len(f)).to_bytes(4, "big", signed=True), f or b"") for f in fields)
    return ts_ms.to_bytes(8, "big") + b"".join(part for pair in sized for part in pair)


def run(config: Config) -> tuple[float, pa.Table]:
    """Seconds from look to commit, and the rows that came out."""
    lake = Lake(config, config.changefeeds[0])
    seconds, report = timed(lambda: _published(lake))
    tables = [t.changelog for t in report.record.tables if t.changelog is not None]
    rows = [lake.catalog.load_table(tuple(identifier)).scan().to_arrow() for identifier in tables]
    return seconds, pa.concat_tables(rows, promote_options="permissive")


def _published(lake: Lake) -> Any:
    stream = MessageRun(lake)
    return stream.publish_changelogs(stream.look(), LocalWorkers())


def digest(rows: pa.Table) -> list[int]:
    """Sums that no two different tables are likely to share, whatever the order of rows."""
    text = pa.array([repr(row) for row in rows.to_pylist()])
    return [len(rows), pc.sum(pc.binary_length(text)).as_py() or 0, sum(hash(t) for t in text.to_pylist())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=20_000, help="of each partition")
    parser.add_argument("--only", nargs="*", default=list(STREAMS))
    asked = parser.parse_args()
    sys.stdout.write(f"{'to changelog, one thread':26}{'rows':>9}{'reference':>12}{'bulk':>12}{'ratio':>8}\n")
    for name in asked.only:
        with tempfile.TemporaryDirectory() as scratch:
            base = Path(scratch)
            capture = cut(
                unpacked_at(asked.folder / f"{name}.tar.zst", base / "all", "*.bin"), base / "cut", asked.messages
            )
            bulk_s, bulk = min((run(config_of(base / f"bulk{n}", name, capture)) for n in range(2)), key=lambda r: r[0])
            protocol = str(config_of(base / "names", name, capture).changefeeds[0].sink.protocol)
            REGISTRY[protocol] = replace(kept := REGISTRY[protocol], bulk=None)
            reference_s, reference = run(config_of(base / "reference", name, capture))
            REGISTRY[protocol] = kept
            if digest(bulk) != digest(reference):
                raise AssertionError(f"{name}: the two forms do not come to the same rows")
        rows = len(bulk)
        told = f"{rows / reference_s:>12,.0f}{rows / bulk_s:>12,.0f}{reference_s / bulk_s:>8.1f}"
        sys.stdout.write(f"{name:26}{rows:>9,}{told}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
