"""Tables that stopped at a statement continue as their note says: they are created again at the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, shape, states

T, NEW, OLD = shape("t"), shape("new"), shape("old")
STATEMENTS = (
    "ALTER TABLE `t` FROBNICATE `name`",
    "FROBNICATE TABLE `t`",
    "RECOVER TABLE `t`",
    "ALTER TABLE `t` DROP COLUMN `x`",
    "ALTER TABLE `t` TRUNCATE PARTITION `p0`",
    "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `x`",
)


def stopped_at(statement: str, folder: Path) -> tuple[SmallStream, FeedLake]:
    """A stream whose table `t` stops at the statement, and its lake after a run."""
    stream = SmallStream(folder)
    stream.create(1, T)
    stream.put(5, T, 1)
    stream.ddl(10, statement, T)
    stream.put(15, T, 2)
    stream.watermark(19)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"t": "stopped"}
    return stream, lake


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_note_says_once_that_the_table_is_to_be_created_again(statement: str, tmp_path: Path):
    _, lake = stopped_at(statement, tmp_path)

    [record] = lake.records().values()

    assert record.note.endswith(Advice.CREATE_AGAIN)
    assert ".." not in record.note
    assert record.note.count("create the table again") == 1


@pytest.mark.parametrize(("statement", "run_between"), [(STATEMENTS[0], True), (STATEMENTS[2], False)])
def test_a_copy_that_takes_the_name_is_complete(statement: str, run_between: bool, tmp_path: Path):
    stream, lake = stopped_at(statement, tmp_path)
    stream.create(20, NEW)
    stream.put(25, NEW, 1)
    stream.put(25, NEW, 2)
    if run_between:
        stream.watermark(26)
        lake.publish()
    stream.rename(30, T, OLD)
    stream.rename(30, NEW, T)
    stream.put(35, T, 3)
    stream.watermark(39)

    lake.publish()

    assert states(lake) == {"old": "stopped", "t": "live"}
    stream.drop(40, replace(T, name="old"))
    stream.put(45, T, 4)
    stream.watermark(49)
    lake.publish()
    assert states(lake) == {"old": "dropped", "t": "live"}
    assert ids(lake) == {"new": [1, 2], "t": [1, 3, 4]}  # by the name of the time; 1 is of the table that stopped


def test_the_note_of_a_table_whose_key_came_back_says_that_it_is_to_be_created_again(tmp_path: Path):
    stream = SmallStream(tmp_path)
    stream.create(1, T)
    stream.ddl(5, "ALTER TABLE `t` DROP PRIMARY KEY", T)
    stream.ddl(10, "ALTER TABLE `t` ADD PRIMARY KEY(`id`)", T)
    stream.put(15, T, 1)
    stream.watermark(19)
    lake = stream.lake()
    lake.publish()

    lake.complete_tso()

    [record] = lake.records().values()
    assert record.state == "stopped"
    assert "expected a key at all times" in record.note
    assert record.note.endswith(Advice.CREATE_AGAIN)
