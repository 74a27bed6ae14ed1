"""Golden messages: real bytes of each protocol with the events they say, kept in `corpus/golden/`.

`<variant>.jsonl` begins with a line on the stream ({protocol, compression, schemas}); every other line is one message,
key and value in base64. `<variant>.events.json` has the events of each in order, fields with their default left out.
`take.py` takes new ones from the fixtures.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any

from ticdc_assets.protocols.events import Event
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.fixtures import CORPUS, read_jsonl

GOLDEN = CORPUS / "golden"
Message = tuple[bytes | None, bytes | None]


@cache
def stream(variant: str) -> tuple[dict[str, Any], list[Message]]:
    """The first line of a golden file, and its messages."""
    head, *lines = read_jsonl(GOLDEN / f"{variant}.jsonl")
    return head, [(bytes_of(line["key"]), bytes_of(line["value"])) for line in lines]


@cache
def wanted(variant: str) -> list[list[dict[str, Any]]]:
    """The events of each message."""
    return json.loads((GOLDEN / f"{variant}.events.json").read_text())


def decoded(head: Mapping[str, Any], message: Message) -> list[Event]:
    """The events of a message, from the reference decoder of its protocol."""
    return list(REGISTRY[head["protocol"]].decode(*message, "golden", options(head)))


def options(head: Mapping[str, Any]) -> DecoderOptions:
    schemas = {int(i): text for i, text in head.get("schemas", {}).items()}
    return DecoderOptions(Compression(head["compression"]), schemas=schemas.__getitem__)


def plain(thing: Any) -> Any:
    """An event as JSON: fields with their default left out, bytes as base64."""
    if is_dataclass(thing):
        values = {f.name: getattr(thing, f.name) for f in fields(thing) if getattr(thing, f.name) != _default(f)}
        return {"is": type(thing).__name__, **{name: plain(value) for name, value in values.items()}}
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
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    (GOLDEN / f"{name}.events.json").write_text(f"[\n{lines}\n]\n")


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def bytes_of(text: str | None) -> bytes | None:
    """The bytes of a key or value in base64."""
    return None if text is None else b64decode(text)
