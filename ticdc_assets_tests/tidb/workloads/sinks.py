"""The sinks that workloads are sent through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Final

from ticdc_assets_tests.pipeline.small_streams import SmallStream
from ticdc_assets_tests.tidb.workloads.canal_json import CanalJsonMessages
from ticdc_assets_tests.tidb.workloads.recording import ZONES
from ticdc_assets_tests.tidb.workloads.simple import SimpleMessages
from ticdc_assets_tests.tidb.workloads.simple_avro import SimpleAvroMessages
from ticdc_assets_tests.tidb.workloads.storage import StorageSink
from ticdc_assets_tests.tidb.workloads.stream import Sink

SINKS: Final[Mapping[str, Callable[[Path, str], Sink]]] = {
    "canal_json": lambda folder, _: CanalJsonMessages(SmallStream(folder)),
    "simple": SimpleMessages,
    "simple_avro": SimpleAvroMessages,
    "csv": lambda folder, _: StorageSink(folder, "csv"),
    "canal_json_files": lambda folder, _: StorageSink(folder, "json", with_ids=True),
}
"""By name, what makes one in a folder and a time zone."""

IN_ZONES: Final = tuple(zip(SINKS, cycle(ZONES), strict=False))
"""Each sink with the time zone of its workloads."""
