"""Reads CSV with options as TiCDC writes them."""

from __future__ import annotations

import io

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported
from ticdc_assets.protocols.csv import bulk as csv_bulk
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols import storage_rows
from ticdc_assets_tests.protocols.storage_rows import Row


def options_of(workload: Workload) -> CsvOptions:
    sink = workload.variant["config"]["sink"]
    found = {name.replace("-", "_"): setting for name, setting in sink["csv"].items()}
    return CsvOptions(**found, terminator=sink.get("terminator", "\r\n"))


def bulk(data: bytes, options: CsvOptions, columns: tuple[str, ...], batch_bytes: int = 1 << 20) -> list[Row]:
    return storage_rows.of_bulk(csv_bulk.read_stream(io.BytesIO(data), columns, "f", None, options, batch_bytes))


def bulk_or_none(data: bytes, options: CsvOptions, columns: tuple[str, ...], batch_bytes: int) -> list[Row] | None:
    try:
        return bulk(data, options, columns, batch_bytes)
    except (BulkUnsupported, NotYetError):
        return None
