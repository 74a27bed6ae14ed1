"""Takes new golden messages and files from the fixtures: `python -m ticdc_assets_tests.golden.take`.

Read the difference before it is committed: the golden events are what the decoders must find.
"""

from __future__ import annotations

import argparse
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Event, RowEvent, WatermarkEvent
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.fixtures import FIXTURES, read_jsonl
from ticdc_assets_tests.golden import files as golden_files
from ticdc_assets_tests.golden.messages import GOLDEN, Message, bytes_of, decoded, plain, write_events

VARIANTS = {
    "open": "open-protocol",
    "open-lz4": "open-protocol",
    "open-claim-check": "open-protocol",
    "open-handle-key-only": "open-protocol",
    "open-only-updated-delete-key": "open-protocol",
    "simple-json": "simple",
    "simple-json-snappy": "simple",
    "simple-json-checksum": "simple",
    "simple-json-claim-check": "simple",
    "simple-avro": "simple",
    "simple-avro-index-value-checksum": "simple",
    "canal-json": "canal-json",
    "canal-json-tidb": "canal-json",
    "canal-json-tidb-content-compatible": "canal-json",
    "canal-json-tidb-handle-key-only": "canal-json",
    "avro": "avro",
    "avro-ext": "avro",
    "avro-checksum": "avro",
    "avro-watermark-internal": "avro",
    "debezium": "debezium",
    "debezium-tidb-noschema": "debezium",
}
LARGE_BYTES = 4_000
"""Messages of this size are left out where smaller ones of their kind exist."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixtures", type=Path, default=FIXTURES)
    arguments = parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    golden_files.take(arguments.fixtures)
    for variant, protocol in VARIANTS.items():
        _take(arguments.fixtures / variant / "seed1", variant, protocol)


def _take(root: Path, variant: str, protocol: str) -> None:
    large = json.loads((root / "variant.json").read_text())["config"]["sink"].get("kafka-config", {})
    compression = large.get("large-message-handle", {}).get("large-message-handle-compression") or "none"
    head: dict[str, Any] = {"protocol": protocol, "compression": compression, "from": f"{variant}/seed1"}
    if (root / "registry.json").exists():
        head["schemas"] = {s["id"]: s["schema"] for s in json.loads((root / "registry.json").read_text())}
    sent = [(bytes_of(m["key"]), bytes_of(m["value"])) for m in read_jsonl(root / "messages.jsonl")]
    chosen = list(_chosen(head, sent))
    if "schemas" in head:
        ids = {i for message in chosen for i in confluent_avro.schema_ids(*message, "")} if protocol == "avro" else {}
        head["schemas"] = {i: text for i, text in head["schemas"].items() if i in ids}
    with (GOLDEN / f"{variant}.jsonl").open("w") as file:
        file.write(json.dumps(head) + "\n")
        for parts in chosen:
            key, value = (None if part is None else b64encode(part).decode() for part in parts)
            file.write(json.dumps({"key": key, "value": value}) + "\n")
    events = [[plain(event) for event in decoded(head, message)] for message in chosen]
    write_events(variant, events)


def _chosen(head: Mapping[str, Any], sent: list[Message]) -> Iterator[Message]:
    """One message of every kind in the order sent: the smallest, and of rows also the one with most columns."""
    best: dict[Any, tuple[int, int]] = {}
    for number, message in enumerate(sent):
        events = decoded(head, message)
        size = sum(len(part or b"") for part in message)
        for event in events:
            for kind, rank in _kinds(event, size):
                if kind not in best or rank < best[kind][0]:
                    best[kind] = (rank, number)
    for number in sorted({number for _, number in best.values()}):
        yield sent[number]


def _kinds(event: Event, size: int) -> Iterator[tuple[Any, int]]:
    if isinstance(event, WatermarkEvent):
        yield "watermark", size
    elif isinstance(event, DdlEvent):
        yield ("ddl", bool(event.query), event.query.split(" ", 1)[0]), size
    else:
        assert isinstance(event, RowEvent)
        yield (event.op, event.handle_only, event.claim is not None, event.before is None), size
        if size < LARGE_BYTES:
            yield (event.op, "wide"), -len(event.wire)


if __name__ == "__main__":
    main()
