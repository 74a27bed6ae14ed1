"""The entry of Debezium JSON as TiCDC writes it."""

from __future__ import annotations

from typing import Final, Literal

from ticdc_assets.protocols.debezium import decoder
from ticdc_assets.protocols.debezium.decoder import DebeziumOptions
from ticdc_assets.protocols.protocol import MessageProtocol, StreamSettings

_BINARY: Final[dict[str, Literal["base64", "base64-url-safe", "hex"]]] = {
    "bytes": "base64",  # another type in the schema block, the same text
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}


def _options(settings: StreamSettings) -> DebeziumOptions:
    return DebeziumOptions(settings.compression, _BINARY[settings.binary_handling_mode])


PROTOCOL: Final = MessageProtocol(
    name="debezium",
    title="Debezium",
    decode=decoder.decode,
    value=decoder.value,
    options=_options,
    values=decoder.values,
    has_utc_times=True,
)
