"""The entry of the Simple protocol, whose messages are JSON or Avro."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ticdc_assets.protocols.columnar.compiled_bulk import compiled_bulk
from ticdc_assets.protocols.columnar.message_rows import in_turn
from ticdc_assets.protocols.protocol import MessageProtocol, StreamSettings
from ticdc_assets.protocols.simple import decoder
from ticdc_assets.protocols.simple.decoder import SimpleOptions
from ticdc_assets.protocols.values import native_columns


def _options(settings: StreamSettings) -> SimpleOptions:
    return SimpleOptions(settings.compression, settings.claim_check_raw_value)


_ROWS: Final = ("INSERT", "UPDATE", "DELETE")
_SCHEMAS: Final = ("BOOTSTRAP", "CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY")
_TYPES: Final = frozenset({*_ROWS, *_SCHEMAS, "WATERMARK"})


def _recognise(message: Mapping[str, Any]) -> frozenset[str] | None:
    kind = message.get("type")
    return frozenset() if message.get("version") == 1 and isinstance(kind, str) and kind in _TYPES else None


_JSON: Final = compiled_bulk("ticdc_assets.protocols.simple.json.bulk", native_columns.column)
_AVRO: Final = compiled_bulk("ticdc_assets.protocols.simple.avro.bulk", native_columns.column)
PROTOCOL: Final = MessageProtocol(
    name="simple",
    title="Simple",
    decode=decoder.decode,
    value=decoder.value,
    options=_options,
    open_claim=decoder.open_claim,
    bulk=in_turn(_JSON, _AVRO, native_columns.column),
    recognise=_recognise,
    has_one_commit=True,
)
