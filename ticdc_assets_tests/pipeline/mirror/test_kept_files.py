"""A process that follows a source knows the files of its own commits: Java lists them only where another committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient

from ticdc_assets import spark
from ticdc_assets.pipeline.mirror.run import run_mirrors
from ticdc_assets.tables.iceberg import row_delta
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.row_delta import LiveDataFile
from ticdc_assets_tests.pipeline.rebuild.test_rebuild import PLAIN, shown, sql
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

pytestmark = pytest.mark.spark

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


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Follower:
    return Follower(tmp_path, monkeypatch)


def test_the_files_after_each_commit_are_those_that_java_lists(follower: Follower):
    for _ in range(ROWS):
        follower.run()
        assert follower.kept is not None
        assert set(follower.kept) == follower.as_java_lists_them()
    follower.listed = 0
    follower.run()

    assert follower.listed == 0
    assert any(file.vector is not None for file in follower.kept or ())
    names = {1: None, 2: "5", 3: "6", 4: "7", 5: "7", 6: "7", 7: "new"}
    assert shown(follower.feed, "plain") == [(key, name) for key, name in names.items() if name is not None]


def test_after_a_commit_of_another_java_lists_the_files(follower: Follower):
    for _ in range(3):
        follower.run()
    sql(follower.feed, "DELETE FROM {}.plain WHERE id = 3")
    assert follower.kept is None
    follower.listed = 0

    follower.run()

    assert follower.listed == 1
    assert set(follower.kept or ()) == follower.as_java_lists_them()
    assert (4, "new") in shown(follower.feed, "plain")


def test_a_mirror_with_many_files_takes_as_many_calls_as_one_with_few(follower: Follower):
    """Java would be asked for each file and each of its deletes otherwise."""
    calls = []
    for _ in range(ROWS):
        follower.run()
        follower.feed.lake.lake.__dict__.pop("mirror_files")  # as in a new process
        follower.calls = 0
        follower.run()
        calls.append(follower.calls)

    assert calls[-1] <= calls[1]
