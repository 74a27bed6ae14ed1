"""The entry of the Open Protocol."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.columnar.compiled_bulk import compiled_bulk
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.open_protocol import columns, decoder
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolOptions
from ticdc_assets.protocols.protocol import MessageProtocol, StreamSettings
from ticdc_assets.schema.model import TableSchema


def _options(settings: StreamSettings) -> OpenProtocolOptions:
    return OpenProtocolOptions(settings.compression, settings.output_old_value, settings.only_output_updated_columns)


def _infer(row: RowEvent) -> TableSchema:
    return decoder.infer_table(row.schema, row.table, row.hints.columns)


PROTOCOL: Final = MessageProtocol(
    name="open-protocol",
    title="Open Protocol",
    decode=decoder.decode,
    value=decoder.value,
    options=_options,
    open_claim=decoder.open_claim,
    infer=_infer,
    bulk=compiled_bulk("ticdc_assets.protocols.open_protocol.bulk", columns.column),
)
