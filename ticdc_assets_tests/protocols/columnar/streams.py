"""Recorded messages as batches."""

from __future__ import annotations

from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol import bulk as open_protocol_bulk
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import json_bulk as simple_bulk
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols.columnar.json_agreement import Stream

FORMS: dict[str, tuple[str, Bulk]] = {
    "canal-json": ("canal-json", canal_json_bulk.BULK),
    "simple-json": ("simple", simple_bulk.BULK),
    "open": ("open-protocol", open_protocol_bulk.BULK),
}


def stream_of(workload: Workload) -> Stream:
    protocol, bulk = next(form for prefix, form in FORMS.items() if workload.name.startswith(prefix))
    sink, uri = workload.variant["config"]["sink"], workload.variant["sink_uri"]
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    compression = Compression(large.get("large-message-handle-compression") or "none")
    options = DecoderOptions(
        compression,
        bool(large.get("claim-check-raw-value")),
        output_old_value=sink.get("open", {}).get("output-old-value", True),
        only_output_updated_columns="only-output-updated-columns=true" in uri,
    )
    return Stream(protocol, bulk, options, workload.time_zone)
