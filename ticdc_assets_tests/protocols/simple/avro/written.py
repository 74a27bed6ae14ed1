"""Messages of the Simple protocol in Avro, written by another library."""

from __future__ import annotations

import json
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro

from ticdc_assets.protocols import simple as simple_package
from ticdc_assets.protocols.simple import avro_message as simple_avro
from ticdc_assets_tests.protocols.columnar.bulk_agreement import (
    TS,
)

AVSC = fastavro.parse_schema(json.loads(files(simple_package).joinpath(simple_avro.SCHEMA_FILE).read_bytes()))

SPACE = "com.pingcap.simple.avro"


def simple_message(payload: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, AVSC, (f"{SPACE}.Message", {"type": "DML", "payload": (f"{SPACE}.DML", payload)}))
    return out.getvalue()


WHOLE_PAYLOAD = {
    "version": 1,
    "database": "shöp",
    "table": "t",
    "tableID": 7,
    "commitTs": TS,
    "buildTs": 1,
    "schemaVersion": TS - 4,
    "claimCheckLocation": None,
    "handleKeyOnly": False,
    "checksum": None,
}
