"""The entry of Canal-JSON messages. Files of the storage sink are read by `files_bulk` and `decoder`."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.canal_json import decoder, messages
from ticdc_assets.protocols.canal_json.messages import CanalJsonOptions
from ticdc_assets.protocols.columnar.compiled_bulk import compiled_bulk
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import MessageProtocol, StreamSettings
from ticdc_assets.schema.model import TableSchema


def _options(settings: StreamSettings) -> CanalJsonOptions:
    return CanalJsonOptions(settings.compression, settings.claim_check_raw_value, settings.has_commit_ts)


def _infer(row: RowEvent) -> TableSchema:
    return messages.infer_table(row.schema, row.table, row.column_hints, row.key or ())


PROTOCOL: Final = MessageProtocol(
    name="canal-json",
    title="Canal-JSON",
    decode=messages.decode,
    value=decoder.value,
    options=_options,
    open_claim=messages.open_claim,
    infer=_infer,
    bulk=compiled_bulk("ticdc_assets.protocols.canal_json.messages_bulk", messages.column),
)
