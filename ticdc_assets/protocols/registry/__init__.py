"""The message protocols by their name in TiCDC. A new protocol needs one package and one entry here."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.avro.protocol import PROTOCOL as AVRO
from ticdc_assets.protocols.canal_json.protocol import PROTOCOL as CANAL_JSON
from ticdc_assets.protocols.debezium.protocol import PROTOCOL as DEBEZIUM
from ticdc_assets.protocols.open_protocol.protocol import PROTOCOL as OPEN_PROTOCOL
from ticdc_assets.protocols.protocol import MessageProtocol
from ticdc_assets.protocols.simple.protocol import PROTOCOL as SIMPLE

REGISTRY: Final[dict[str, MessageProtocol]] = {
    protocol.name: protocol for protocol in (OPEN_PROTOCOL, SIMPLE, CANAL_JSON, AVRO, DEBEZIUM)
}
