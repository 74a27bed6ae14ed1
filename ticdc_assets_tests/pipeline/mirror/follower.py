"""A lake whose runs stay in one process, as `--follow` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient

from ticdc_assets import spark
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.tables.iceberg import row_delta
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.row_delta import LiveDataFile
from ticdc_assets_tests.pipeline.rebuild.rebuilt import PLAIN
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

ROWS = 6


class Follower:
    """Runs of one lake, one after the other; `listed` counts the mirrors whose files Java listed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sink = Sink(folder / "bucket", checkpoint=100)
        self.sink.table(PLAIN)
        self.feed: Feed = self.sink.feed(folder)
        self.runs, self.listed, self.calls = 0, 0, 0
        listed, send = row_delta.data_files, GatewayClient.send_command

        def counted_files(*arguments: Any) -> Any:
            self.listed += 1
            return listed(*arguments)

        def counted_calls(client: GatewayClient, command: str, *arguments: Any, **named: Any) -> Any:
            self.calls += command[0] != "m"  # a command of py4j's memory management comes whenever Python collects
            return send(client, command, *arguments, **named)

        monkeypatch.setattr(row_delta, "data_files", counted_files)
        monkeypatch.setattr(GatewayClient, "send_command", counted_calls)

    def run(self) -> None:
        """A run with a new row, a new name of each row before it, and one delete."""
        self.runs += 1
        ts = 1000 * self.runs
        lines = [self.sink.insert(PLAIN, ts, self.runs, "new")]
        for key in range(max(1, self.runs - 3), self.runs):
            lines.append(self.sink.line(PLAIN, "U", ts + key, key, f"{self.runs}"))
        if self.runs == ROWS:
            lines.append(self.sink.line(PLAIN, "D", ts + 900, 1, "4"))
        self.sink.file(PLAIN, self.runs, lines)
        self.sink.bucket.checkpoint(ts + 999)
        self.again()

    def again(self) -> None:
        self.feed.lake.publish()
        run_mirrors(self.feed.lake.lake, f"run-{self.runs}", self.jvm)

    def jvm(self) -> JvmCatalog:
        return JvmCatalog(spark.session(self.feed.lake.config), self.feed.lake.catalog_name)

    @property
    def kept(self) -> tuple[LiveDataFile, ...] | None:
        lake = self.feed.lake.lake
        return lake.mirror_files.get(lake.catalog.load_table(("s", "plain")))

    def as_java_lists_them(self) -> set[LiveDataFile]:
        table = self.jvm().load(("s", "plain"))
        return set(row_delta.data_files(table, table.current_snapshot_id))
