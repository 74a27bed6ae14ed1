"""Streams of several topics: which of them the watermark of the whole waits for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.pipeline.stream_topics import named_before
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.small_streams import BY_TABLE, SmallStream, at, ids, shape, states, tso

A, X = shape("a"), shape("x")
Y = replace(X, name="y")  # `x` under another name


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> SmallStream:
    """Two tables, each in a topic of its own."""
    wire: Wire = request.param
    made = SmallStream(tmp_path, wire, BY_TABLE)
    made.create(1, A, "s_a")
    made.create(1, X, "s_x")
    made.watermark(5, "feed", "s_a", "s_x")
    return made


def goes_on(stream: SmallStream, tick: int, *topics: str) -> None:
    """A row of `a`, and watermarks of the topics that still get them."""
    stream.put(tick, A, tick, topic="s_a")
    stream.watermark(tick + 1, "feed", "s_a", *topics)


def test_the_topic_of_a_table_that_never_had_a_row_holds_nothing_back_once_it_is_dropped(stream: SmallStream):
    stream.drop(7, X, "s_x")
    goes_on(stream, 8)
    lake = stream.lake()
    lake.publish()
    goes_on(stream, 10)

    lake.publish()

    assert tso(lake) == at(11)
    assert ids(lake) == {"a": [8, 10]}
    assert states(lake) == {"a": "live", "x": "dropped"}


def test_nor_that_of_one_which_is_older_than_the_stream(stream: SmallStream):
    stream.watermark(5, "s_y")
    stream.drop(7, shape("y"), "s_y")
    goes_on(stream, 8, "s_x")
    lake = stream.lake()

    lake.publish()

    assert tso(lake) == at(9)
    assert ids(lake) == {"a": [8]}


def test_nor_that_of_one_which_was_renamed_away(stream: SmallStream):
    stream.rename(7, X, Y, "s_x")
    goes_on(stream, 8, "s_y")
    lake = stream.lake()

    lake.publish()

    assert tso(lake) == at(9)
    assert states(lake) == {"a": "live", "y": "live"}


def test_which_tables_a_topic_has_is_known_to_runs_that_see_none_of_their_messages(stream: SmallStream):
    stream.put(2, X, 1, topic="s_x")
    lake = stream.lake()
    lake.publish()
    goes_on(stream, 6, "s_x")
    lake.publish()
    stream.drop(8, X, "s_x")
    goes_on(stream, 9)

    lake.publish()

    assert tso(lake) == at(10)
    assert ids(lake) == {"a": [6, 9], "x": [1]}


def test_a_rename_from_a_database_that_nobody_tells_says_of_no_other_table_that_it_is_in_its_topic():
    told = DdlEvent(1, "d2", "b", "RENAME TABLE `a` TO `b`")
    untold = DdlEvent(1, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`")

    assert named_before(told) == {("d2", "a")}
    assert named_before(untold) == set()
