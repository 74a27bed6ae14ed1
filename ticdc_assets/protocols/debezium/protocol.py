"""The entry of Debezium JSON as TiCDC writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from ticdc_assets.protocols.debezium import decoder
from ticdc_assets.protocols.debezium.decoder import DebeziumOptions
from ticdc_assets.protocols.protocol import EXTENSION, SCHEMA_BLOCK, MessageProtocol, StreamSettings

_BINARY: Final[dict[str, Literal["base64", "base64-url-safe", "hex"]]] = {
    "bytes": "base64",  # another type in the schema block, the same text
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}


def _options(settings: StreamSettings) -> DebeziumOptions:
    return DebeziumOptions(settings.compression, _BINARY[settings.binary_handling_mode])


def _recognise(message: Mapping[str, Any]) -> frozenset[str] | None:
    payload = message.get("payload", message)
    if not isinstance(payload, dict) or not isinstance(payload.get("source"), dict):
        return None
    marks = [EXTENSION] if payload.get("op") == "m" else []
    return frozenset([*marks, *([SCHEMA_BLOCK] if "schema" in message else [])])


PROTOCOL: Final = MessageProtocol(
    name="debezium",
    title="Debezium",
    decode=decoder.decode,
    value=decoder.value,
    options=_options,
    values=decoder.values,
    recognise=_recognise,
    has_utc_times=True,
    has_one_commit=True,
)
