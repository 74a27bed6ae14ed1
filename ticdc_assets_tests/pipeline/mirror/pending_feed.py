"""A small changefeed whose mirror has something pending."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from ticdc_assets.changes.layout import SYSTEM_COLUMNS
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.pending import MirrorWork, pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.iceberg.properties import BORN, SOURCE_TABLE, VERSION
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.config.config_file import loaded
from ticdc_assets_tests.schema.history.histories import event

CREATE, ADD = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY)", "ALTER TABLE `t` ADD COLUMN `v` INT"

Change = tuple[int, int, int]
"""commit_ts, position and table version of a change."""

ROW: Change = (11, 0, 10)


class Feed:
    """A lake without data files beyond its changelog, with one table and its two statements at 10 and 20."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        lake = {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
        feed = {"sink_uri": "file:///b?protocol=canal-json&enable-tidb-extension=true", "time_zone": "UTC", **keys}
        config = loaded(folder, {"catalog": lake, "changefeeds": {"feed": feed}})
        self.lake = Lake(config, config.changefeed("feed"))
        self.history = fold([event(10, "t", CREATE), event(20, "t", ADD)])

    def table(
        self, which: str, *changes: tuple[int, int, int], properties: dict[str, str], progress: Progress
    ) -> Table:
        [made] = self.history.source_tables
        identifier = getattr(self.lake.table_locations(self.history)[made.id], which)
        self.lake.catalog.create_namespace_if_not_exists(identifier[:-1])
        schema = pa.schema(SYSTEM_COLUMNS)
        table = self.lake.catalog.create_table(identifier, schema, properties={SOURCE_TABLE: made.id, **properties})
        rows = [("I", commit_ts, None, seq, version) for commit_ts, seq, version in changes]
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        schema = table.schema().as_arrow()
        content = pa.Table.from_arrays(columns, schema=schema) if rows else schema.empty_table()
        table.append(content, snapshot_properties=progress.summary("feed", Progress()))
        return table

    def changelog(
        self, *changes: tuple[int, int, int], watermark: int = 50, position: int = 0, **properties: str
    ) -> Table:
        return self.table("changelog", *changes, properties=properties, progress=Progress(watermark, position, "wrote"))

    def mirror(self, *changes: tuple[int, int, int], watermark: int = 50, position: int = 0, **given: str) -> Table:
        """One of the version at 20, unless `given` says otherwise."""
        properties = {VERSION: "20", BORN: "10", **given}
        return self.table("mirror", *changes, properties=properties, progress=Progress(watermark, position, "merged"))

    def record(self, **changes: Any) -> WatermarkRecord:
        [made] = self.history.source_tables
        table = TableRecord(made.id, "shop", "t", "live", (), ["id"], 50, None, None, None, None, None)
        return WatermarkRecord(datetime.now(UTC), "run", 50, False, "", (replace(table, **changes),))

    def work(self, record: WatermarkRecord | None = None, **given: Any) -> list[MirrorWork]:
        return pending_work(self.lake, self.plan(record), **given)

    def plan(self, record: WatermarkRecord | None = None) -> Plan:
        return Plan.of(self.lake, record or self.record(), self.history)

    @property
    def id(self) -> str:
        return self.history.source_tables[0].id


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)
