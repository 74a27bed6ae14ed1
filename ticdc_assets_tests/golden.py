"""Golden messages: real bytes of each protocol with the events they say, kept in `corpus/golden/`.

`<variant>.jsonl` begins with a line on the stream ({protocol, compression, schemas}); every other line is one message,
key and value in base64. `<variant>.events.json` has the events of each in order, fields with their default left out.
Run as a module it takes new ones from the fixtures: `python -m ticdc_assets_tests.golden`; look at the difference.
"""

from __future__ import annotations

import argparse
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.canal_json import messages as canal_json_messages
from ticdc_assets.protocols.debezium import decoder as debezium
from ticdc_assets.protocols.events import DdlEvent, Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.frames import Compression
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES, read_jsonl

GOLDEN = CORPUS / "golden"
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

Message = tuple[bytes | None, bytes | None]


@cache
def stream(variant: str) -> tuple[dict[str, Any], list[Message]]:
    """The first line of a golden file, and its messages."""
    head, *lines = read_jsonl(GOLDEN / f"{variant}.jsonl")
    return head, [(_bytes(line["key"]), _bytes(line["value"])) for line in lines]


@cache
def wanted(variant: str) -> list[list[dict[str, Any]]]:
    """The events that each message says."""
    return json.loads((GOLDEN / f"{variant}.events.json").read_text())


def decoded(head: Mapping[str, Any], message: Message) -> list[Event]:
    """The events of a message, from the reference decoder of its protocol."""
    return list(REGISTRY[head["protocol"]].decode(*message, "golden", options(head)))


def options(head: Mapping[str, Any]) -> Any:
    compression = Compression(head["compression"])
    match head["protocol"]:
        case "open-protocol":
            return open_protocol.OpenProtocolOptions(compression)
        case "simple":
            return simple.SimpleOptions(compression)
        case "canal-json":
            return canal_json_messages.CanalJsonOptions(compression)
        case "debezium":
            return debezium.DebeziumOptions(compression)
    return confluent_avro.AvroOptions({int(i): text for i, text in head["schemas"].items()}.__getitem__)


def plain(thing: Any) -> Any:
    """An event as JSON: fields with their default left out, bytes as base64."""
    if is_dataclass(thing):
        told = {f.name: getattr(thing, f.name) for f in fields(thing) if getattr(thing, f.name) != _default(f)}
        return {"is": type(thing).__name__, **{name: plain(value) for name, value in told.items()}}
    if isinstance(thing, Enum):
        return str(thing.value)
    if isinstance(thing, bytes):
        return {"b64": b64encode(thing).decode()}
    if isinstance(thing, Decimal):
        return {"decimal": str(thing)}
    if isinstance(thing, Mapping):
        return {str(name): plain(value) for name, value in thing.items()}
    return [plain(item) for item in thing] if isinstance(thing, list | tuple) else thing


def write_events(name: str, events: list[Any]) -> None:
    """One line a message, so that differences can be read."""
    lines = ",\n".join(json.dumps(told, ensure_ascii=False) for told in events)
    (GOLDEN / f"{name}.events.json").write_text(f"[\n{lines}\n]\n")


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


# -- taking them -------------------------------------------------------------------------------------------------------


def main() -> None:
    from ticdc_assets_tests import golden_files  # it uses this module

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
    sent = [(_bytes(m["key"]), _bytes(m["value"])) for m in read_jsonl(root / "messages.jsonl")]
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
