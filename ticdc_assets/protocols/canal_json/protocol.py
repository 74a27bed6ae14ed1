"""The entry of Canal-JSON messages. Files of the storage sink are read by `files_bulk` and `decoder`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ticdc_assets.protocols.canal_json import decoder, messages
from ticdc_assets.protocols.canal_json.messages import CanalJsonOptions
from ticdc_assets.protocols.columnar.compiled_bulk import compiled_bulk
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import CONTENT_COMPATIBLE, EXTENSION, MessageProtocol, StreamSettings
from ticdc_assets.schema.model import TableSchema


def _options(settings: StreamSettings) -> CanalJsonOptions:
    return CanalJsonOptions(settings.compression, settings.claim_check_raw_value, settings.has_commit_ts)


def _infer(row: RowEvent) -> TableSchema:
    return messages.infer_table(row.schema, row.table, row.hints.columns, row.hints.key or ())


def _recognise(message: Mapping[str, Any]) -> frozenset[str] | None:
    if "isDdl" in message and isinstance(message.get("type"), str):
        return frozenset(_marks(message))
    return None


def _marks(message: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(message.get("_tidb"), dict):
        yield EXTENSION
    types = message.get("mysqlType")
    if isinstance(types, dict) and any(isinstance(text, str) and "(" in text for text in types.values()):
        yield CONTENT_COMPATIBLE


PROTOCOL: Final = MessageProtocol(
    name="canal-json",
    title="Canal-JSON",
    decode=messages.decode,
    value=decoder.value,
    options=_options,
    open_claim=messages.open_claim,
    infer=_infer,
    bulk=compiled_bulk("ticdc_assets.protocols.canal_json.messages_bulk", messages.column),
    recognise=_recognise,
    has_one_commit=True,
)
