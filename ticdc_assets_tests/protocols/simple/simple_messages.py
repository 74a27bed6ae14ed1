"""Simple messages made by tests, and their events."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple.decoder import decode

PLAIN = DecoderOptions()
TS = 459802238374641668
COLUMN_ID = {
    "name": "id",
    "dataType": {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11},
    "nullable": False,
    "default": None,
}
PRIMARY = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}
TABLE = {"schema": "shop", "table": "t", "tableID": 7, "version": TS - 4, "columns": [COLUMN_ID], "indexes": [PRIMARY]}
ROW = {
    "version": 1,
    "database": "shop",
    "table": "t",
    "tableID": 7,
    "type": "INSERT",
    "commitTs": TS,
    "buildTs": 1,
    "schemaVersion": TS - 4,
    "data": {"id": "1"},
}


def of(message: Any, options: DecoderOptions = PLAIN) -> Any:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    if options.compression is not Compression.NONE:
        body = pa.Codec(options.compression.value).compress(body, asbytes=True)
    (event,) = decode(None, body, "t[0]@1", options)
    return event
