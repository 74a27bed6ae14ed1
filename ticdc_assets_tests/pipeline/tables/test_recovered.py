"""Tables that RECOVER or FLASHBACK TABLE brings back after a DROP: they continue with the rows that they had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.pipeline.history.differences import table_differences
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.pipeline.small_streams import BY_TABLE, SmallStream, UndatedCanalJson, at, ids, shape, states
from ticdc_assets_tests.sources.storage.bucket import PHYSICAL_DAY

T, BACK, U = shape("t"), shape("t", version=30), replace(shape("t", version=30), name="u")
RECOVER, FLASHBACK = "RECOVER TABLE `t`", "FLASHBACK TABLE `t` TO `u`"


def dropped(folder: Path, wire: Wire, run_between: bool = True) -> tuple[SmallStream, FeedLake]:
    """A stream whose table `t` was dropped, with two rows, and its lake after a run."""
    stream = SmallStream(folder, wire)
    stream.create(1, T)
    stream.put(5, T, 1)
    stream.put(6, T, 2)
    stream.watermark(9)
    lake = stream.lake()
    lake.publish()
    stream.drop(20, T)
    if run_between:
        stream.watermark(25)
        lake.publish()
        assert states(lake) == {"t": "dropped"}
    return stream, lake


@pytest.mark.variants(4)
@pytest.mark.parametrize("wire", [*WIRES, UndatedCanalJson()], ids=lambda wire: type(wire).__name__)
@pytest.mark.parametrize("run_between", [True, False])
def test_a_recovered_table_continues_in_the_same_tables(wire: Wire, run_between: bool, tmp_path: Path):
    stream, lake = dropped(tmp_path, wire, run_between)
    stream.ddl(30, RECOVER, T, BACK)
    stream.put(35, BACK, 3)
    stream.watermark(39)

    lake.publish()

    assert states(lake) == {"t": "live"}
    assert ids(lake) == {"t": [1, 2, 3]}
    assert len(lake.records()) == 1


@pytest.mark.variants(4)
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_table_that_is_flashed_back_to_another_name_continues_there(wire: Wire, is_made_again: bool, tmp_path: Path):
    stream, lake = dropped(tmp_path, wire)
    if is_made_again:
        stream.create(26, shape("t", version=26))
        stream.put(27, shape("t", version=26), 9)
        stream.watermark(28)
        lake.publish()
    stream.ddl(30, FLASHBACK, T, U)
    stream.put(35, U, 3)
    stream.watermark(39)

    lake.publish()

    assert states(lake) == {"u": "live"} | ({"t": "live"} if is_made_again else {})
    changelog = tuple(lake.records()["s", "u"].changelog or ())
    assert changelog[-1] == "u"
    assert lake.lake.catalog.load_table(changelog).scan().count() == 3


def test_a_table_that_was_truncated_stops_where_it_is_flashed_back(tmp_path: Path):
    stream = SmallStream(tmp_path)
    stream.create(1, T)
    stream.put(5, T, 1)
    stream.ddl(20, "TRUNCATE TABLE `t`", T)
    stream.ddl(30, FLASHBACK, T, U)
    stream.put(35, U, 3)
    stream.watermark(39)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"t": "live", "u": "stopped"}
    assert ids(lake) == {"t": [1]}
    assert "it restores rows that the stream does not show" in lake.records()["s", "u"].note


@pytest.mark.variants(2)
@pytest.mark.parametrize("commit_ts", [True, False])
@pytest.mark.parametrize("run_at", [None, 1500, 2 * PHYSICAL_DAY], ids=["later", "next run", "folder closed"])
def test_a_recovered_table_of_a_bucket_continues(run_at: int | None, commit_ts: bool, tmp_path: Path):
    name = ("s", "t")
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    sink.table(name)
    sink.file(name, 1, [sink.insert(name, 110, 1, "one")])
    sink.feed(tmp_path / "lake").run()
    sink.alter(name, 1100, "DROP TABLE `s`.`t`")
    if run_at is not None:
        sink.bucket.checkpoint(run_at)
        sink.feed(tmp_path / "lake").run()
    back = 2 * PHYSICAL_DAY + 1000
    sink.alter(name, back, "RECOVER TABLE `t`")
    sink.file(name, 1, [sink.insert(name, back + 100, 2, "two")], version=back)
    sink.bucket.checkpoint(back + 200)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.state(name) == "live"
    assert feed.found() == feed.expected()
    assert feed.lake.complete_tso() == back + 200


def test_a_topic_that_was_not_waited_for_while_its_table_was_dropped_is_read(tmp_path: Path):
    """The statement comes after a run that has passed it."""
    stream = SmallStream(tmp_path, config=BY_TABLE)
    for name in ("t", "a"):
        stream.create(1, shape(name), f"s_{name}")
        stream.put(5, shape(name), 1, topic=f"s_{name}")
    stream.drop(20, T, "s_t")
    stream.watermark(25, "s_t", "s_a")
    lake = stream.lake()
    lake.publish()
    stream.put(35, shape("a"), 2, topic="s_a")
    stream.watermark(39, "s_a")
    lake.publish()
    assert (states(lake), lake.complete_tso()) == ({"t": "dropped", "a": "live"}, at(39))
    stream.ddl(30, RECOVER, T, BACK, topic="s_t")
    stream.put(35, BACK, 2, topic="s_t")
    stream.put(45, BACK, 3, topic="s_t")
    stream.watermark(49, "s_t", "s_a")

    lake.publish()

    assert states(lake) == {"t": "live", "a": "live"}
    assert ids(lake) == {"t": [1, 2, 3], "a": [1, 2]}


def counted(lake: FeedLake, after: int, until: int) -> list[tuple[str, int | None, int | None, int | None]]:
    found = table_differences(lake.lake, at(after), at(until), [])
    return [(table.name[1], table.added, table.changed, table.removed) for table in found]


def test_a_comparison_over_the_time_without_the_table(tmp_path: Path):
    stream, lake = dropped(tmp_path, WIRES[1])
    stream.ddl(30, FLASHBACK, T, U)
    stream.put(35, U, 3)
    stream.watermark(39)
    lake.publish()

    assert counted(lake, 8, 22) == [("t", 0, 0, 2)]
    assert counted(lake, 22, 26) == []
    assert counted(lake, 22, 32) == [("u", 2, 0, 0)]
    assert counted(lake, 22, 38) == [("u", 3, 0, 0)]
    assert counted(lake, 8, 38) == [("u", 1, 0, 0)]
    assert counted(lake, 5, 32) == [("u", 1, 0, 0)]


def test_a_row_that_is_older_than_the_stream_is_added_where_its_table_comes_back(tmp_path: Path):
    """What the stream has of it is an update, as its INSERT was sent before."""
    name = ("s", "t")
    sink = Sink(tmp_path / "bucket", old_values=True)
    sink.table(name, query="ALTER TABLE `t` COMMENT = 'x'")
    sink.file(name, 1, sink.update(name, 110, (1, "was"), (1, "is")))
    sink.alter(name, 1100, "DROP TABLE `s`.`t`")
    sink.alter(name, 2000, "RECOVER TABLE `t`")
    sink.bucket.checkpoint(3000)
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    [found] = table_differences(feed.lake.lake, 1500, 2500, [])

    assert (found.added, found.changed, found.removed) == (1, 0, 0)
