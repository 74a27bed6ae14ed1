"""The entry of the Avro protocol."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.avro import bulk, decoder
from ticdc_assets.protocols.avro.decoder import AvroOptions
from ticdc_assets.protocols.protocol import MessageProtocol, StreamSettings


def _options(settings: StreamSettings) -> AvroOptions:
    assert settings.schemas is not None, "the Avro protocol needs registered schemas"
    return AvroOptions(settings.schemas)


PROTOCOL: Final = MessageProtocol(
    name="avro",
    title="Avro",
    decode=decoder.decode,
    value=decoder.value,
    options=_options,
    bulk=bulk.BULK,
    has_one_commit=True,
)
