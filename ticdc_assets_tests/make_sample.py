"""Makes the packaged sample from workloads that TiCDC's own encoders wrote.

Run it as `python -m ticdc_assets_tests.make_sample`, with the full set of workloads in its default folder or named.

Of each workload a few tables are kept. A message (of the Open Protocol's batches: an event) is left out where it is of
another table; of a bucket, the other tables' folders. What is kept keeps its bytes and its order, and offsets are
numbered again without gaps. What must come out is taken from the workloads' truth, as a digest of each table's rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ticdc_assets.commands.process.demo import digest
from ticdc_assets.protocols import debezium
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.formats.bodies import frames, json_object
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.fixtures import FIXTURES, read_jsonl
from ticdc_assets_tests.truth import lake_value, truth_types

SAMPLE = Path(__file__).parents[1] / "ticdc_assets" / "sample"
LOGS = {
    "events": ("seed1-events", {"shop.users", "shop.parted", "shop.codes", "shop.codes_r2"}),
    "avro": ("seed1-avro", {"shop.orders", "App_DB.counters"}),
    "dbz": ("seed1-dbz", {"shop.users", "shop.orders"}),
}
VARIANTS = {
    "open": ("open-index-value", "events"),
    "simple_json": ("simple-json", "events"),
    "simple_avro": ("simple-avro", "events"),
    "canal_json": ("canal-json-tidb", "events"),
    "storage_csv": ("storage-csv", "events"),
    "storage_canal_json": ("storage-canal-json-tidb", "events"),
    "avro": ("avro-ext", "avro"),
    "debezium": ("debezium-tidb-noschema", "dbz"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixtures", type=Path, default=FIXTURES)
    parser.add_argument("--to", type=Path, default=SAMPLE)
    arguments = parser.parse_args()
    make(arguments.fixtures, arguments.to)


def make(fixtures: Path, to: Path) -> None:
    """Writes one folder a changefeed, and `expected.json`."""
    for name, (variant, log) in VARIANTS.items():
        folder, tables = to / name, LOGS[log][1]
        shutil.rmtree(folder, ignore_errors=True)
        root = fixtures / variant / "seed1"
        if (root / "data").is_dir():
            _bucket(root / "data", folder, tables)
        else:
            _capture(root, folder, variant, tables)
    expected = [{"changefeeds": _feeds(log), "tables": _expected(fixtures, *LOGS[log])} for log in LOGS]
    (to / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def _feeds(log: str) -> list[str]:
    return [name for name, (_, own) in VARIANTS.items() if own == log]


# -- what is kept ------------------------------------------------------------------------------------------------------


def _bucket(data: Path, to: Path, tables: set[str]) -> None:
    to.mkdir(parents=True)
    shutil.copy(data / "metadata", to / "metadata")
    for table in sorted(tables):
        schema, _, name = table.partition(".")
        shutil.copytree(data / schema / name, to / schema / name)
        if (data / schema / "meta").is_dir():
            shutil.copytree(data / schema / "meta", to / schema / "meta", dirs_exist_ok=True)


def _capture(root: Path, to: Path, variant: str, tables: set[str]) -> None:
    to.mkdir(parents=True)
    offsets: Counter[tuple[str, int]] = Counter()
    with (to / "messages.jsonl").open("w") as kept:
        for line in (root / "messages.jsonl").read_text().splitlines():
            message = json.loads(line)
            found = _kept(variant, _bytes(message["key"]), _bytes(message["value"]), message["topic"], tables)
            if found is not None:
                key, value = (None if part is None else b64encode(part).decode() for part in found)
                partition = (message["topic"], message["partition"])
                numbered = {**message, "offset": offsets[partition], "key": key, "value": value}
                kept.write(json.dumps(numbered, separators=(",", ":")) + "\n")
                offsets[partition] += 1
    if (root / "registry.json").exists():
        subjects = {f"tidb_{t.replace('.', '_')}-{part}" for t in tables for part in ("key", "value")}
        schemas = [s for s in json.loads((root / "registry.json").read_text()) if s["subject"] in subjects]
        (to / "registry.json").write_text(json.dumps(schemas, indent=1) + "\n")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _kept(
    variant: str, key: bytes | None, value: bytes | None, topic: str, tables: set[str]
) -> tuple[bytes | None, bytes | None] | None:
    if variant.startswith("avro"):
        return (key, value) if topic in {f"tidb_{t.replace('.', '_')}" for t in tables} else None
    if variant.startswith("open"):
        return _events_kept(key or b"", value or b"", tables)
    decode = {"canal": canal_json.decode, "simpl": _simple, "debez": _debezium}[variant[:5]]
    return (key, value) if all(_is_of(event, tables) for event in decode(value, "")) else None


def _simple(value: bytes, where: str) -> Iterator[Any]:
    return simple.decode(None, value, where, DecoderOptions())


def _debezium(value: bytes, where: str) -> Iterator[Any]:
    return debezium.decode(None, value, where, DecoderOptions())


def _is_of(event: Any, tables: set[str]) -> bool:
    if isinstance(event, DdlEvent) and not event.table:
        return event.schema in {"", *(t.partition(".")[0] for t in tables)}
    return not isinstance(event, DdlEvent | RowEvent) or f"{event.schema}.{event.table}" in tables


def _events_kept(key: bytes, value: bytes, tables: set[str]) -> tuple[bytes, bytes] | None:
    heads, bodies = list(frames(key[8:], "")), list(frames(value, ""))
    schemas = {t.partition(".")[0] for t in tables}
    kept = []
    for head, body in zip(heads, bodies, strict=True):
        members = json_object(head, "")
        name, schema = members.get("tbl", ""), members.get("scm", "")
        if f"{schema}.{name}" in tables or (not name and schema in {"", *schemas}):
            kept.append((head, body))
    framed = [b"".join(len(part).to_bytes(8, "big") + part for part in parts) for parts in zip(*kept, strict=True)]
    return (key[:8] + framed[0], framed[1]) if kept else None


# -- what must come out ------------------------------------------------------------------------------------------------


def _expected(fixtures: Path, log: str, tables: set[str]) -> dict[str, Any]:
    entries = read_jsonl(fixtures / "logs" / log / "truth.jsonl")
    final = {f"{entry['schema']}.{entry['table']}": entry for entry in entries if entry["final"]}
    return {
        name: {"rows": len(final[name]["rows"]), "sha256": digest(list(_rows(final[name])))}
        for name in sorted(tables & final.keys())
    }


def _rows(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    types = truth_types(entry)
    for row in entry["rows"]:
        yield {name: lake_value(type_, row.get(name), "UTC") for name, type_ in types.items()}


if __name__ == "__main__":
    main()
