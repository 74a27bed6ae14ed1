from __future__ import annotations

# Small streams are read in bulk too once the code is loaded.
import ticdc_assets.protocols.canal_json.bulk
import ticdc_assets.protocols.open_protocol.bulk
import ticdc_assets.protocols.simple.avro.bulk
import ticdc_assets.protocols.simple.json_bulk  # noqa: F401
from ticdc_assets_tests.pipeline.faults.broken_tables import sink

__all__ = ["sink"]
