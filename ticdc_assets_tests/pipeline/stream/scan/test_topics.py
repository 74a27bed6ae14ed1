"""Streams of several topics: for which of them the stream's watermark waits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.pipeline.stream.scan.state import named_in
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.deliveries.wires import WIRES, SimpleJson, Wire
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


def not_held(stream: SmallStream, tick: int, *topics: str) -> None:
    """A row of `a`, and watermarks of the topics that still get them."""
    stream.put(tick, A, tick, topic="s_a")
    stream.watermark(tick + 1, "feed", "s_a", *topics)


def test_the_topic_of_a_table_that_never_had_a_row_holds_nothing_back_once_it_is_dropped(stream: SmallStream):
    stream.drop(7, X, "s_x")
    not_held(stream, 8)
    lake = stream.lake()
    lake.publish()
    not_held(stream, 10)

    lake.publish()

    assert tso(lake) == at(11)
    assert ids(lake) == {"a": [8, 10]}
    assert states(lake) == {"a": "live", "x": "dropped"}


def test_the_topic_of_an_older_table_holds_nothing_back_once_it_is_dropped(stream: SmallStream):
    stream.watermark(5, "s_y")
    stream.drop(7, shape("y"), "s_y")
    not_held(stream, 8, "s_x")
    lake = stream.lake()

    lake.publish()

    assert tso(lake) == at(9)
    assert ids(lake) == {"a": [8]}


def test_the_topic_of_a_renamed_table_holds_nothing_back(stream: SmallStream):
    stream.rename(7, X, Y, "s_x")
    not_held(stream, 8, "s_y")
    lake = stream.lake()

    lake.publish()

    assert tso(lake) == at(9)
    assert states(lake) == {"a": "live", "y": "live"}


def test_a_renamed_table_that_keeps_to_its_topic_is_waited_for(tmp_path: Path):
    rules = {"sink": {"dispatchers": [{"matcher": ["s.a"], "topic": "s_a"}, {"matcher": ["s.*"], "topic": "rest"}]}}
    stream = SmallStream(tmp_path, config=rules)
    stream.create(1, A, "s_a")
    stream.create(1, X, "rest")
    stream.rename(4, X, Y, "rest")
    stream.watermark(5, "feed", "s_a", "rest")
    not_held(stream, 8)
    lake = stream.lake()
    lake.publish()
    assert tso(lake) == at(5)
    stream.put(7, Y, 1, topic="rest")
    stream.watermark(9, "rest")

    lake.publish()

    assert tso(lake) == at(9)
    assert ids(lake) == {"a": [8], "y": [1]}


def test_which_tables_a_topic_has_is_known_to_runs_that_see_none_of_their_messages(stream: SmallStream):
    stream.put(2, X, 1, topic="s_x")
    lake = stream.lake()
    lake.publish()
    not_held(stream, 6, "s_x")
    lake.publish()
    stream.drop(8, X, "s_x")
    not_held(stream, 9)

    lake.publish()

    assert tso(lake) == at(10)
    assert ids(lake) == {"a": [6, 9], "x": [1]}


def test_a_rename_from_an_unknown_database_says_nothing_about_the_topic_of_other_tables():
    renamed_inside = DdlEvent(1, "d2", "b", "RENAME TABLE `a` TO `b`")
    renamed_from_elsewhere = DdlEvent(1, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`")

    assert named_in("feed", renamed_inside, ()) == {("d2", "a")}
    assert named_in("feed", renamed_from_elsewhere, ()) == set()


def test_a_statement_that_cannot_be_read_or_is_of_a_database_says_of_no_table_that_it_is_in_its_topic():
    assert named_in("feed", DdlEvent(1, "s", "a", "ALTER TABLE `a` FROBNICATE"), ["feed"]) == set()
    assert named_in("feed", DdlEvent(1, "s", "", "DROP DATABASE `s`"), ["feed"]) == set()


@pytest.mark.parametrize(
    ("topic", "rules", "named"),
    [
        ("feed", ["feed"], {("s", "a"), ("s", "b")}),  # one topic for all tables: the renamed table stays in it
        ("s_b", ["{schema}_{table}"], {("s", "a"), ("s", "b")}),
        ("s_a", ["{schema}_{table}"], {("s", "a")}),
        ("feed", ["{schema}_{table}"], {("s", "a")}),
        ("s_a", ["{schema}_{table}", "s_a"], {("s", "a"), ("s", "b")}),
        ("feed", [], {("s", "a")}),
    ],
)
def test_a_renamed_table_stays_in_the_topic_of_its_statement_if_a_rule_sends_its_new_name_there(
    topic: str, rules: list[str], named: set[tuple[str, str]]
):
    assert named_in(topic, DdlEvent(1, "s", "b", "RENAME TABLE `s`.`a` TO `s`.`b`"), rules) == named
    assert named_in(topic, DdlEvent(1, "s", "a", "ALTER TABLE `a` ADD COLUMN `v` INT"), rules) == {("s", "a")}


# -- a topic that lags behind that of a table's new name --------------------------------------------------------------


KNOWN = [pytest.param(wire, True, id=wire.name) for wire in WIRES]


@pytest.mark.parametrize(("wire", "is_known"), [*KNOWN, pytest.param(SimpleJson(), False, id="older than the stream")])
def test_rows_under_a_new_name_wait_for_the_statement_in_the_topic_of_the_old_one(
    wire: Wire, is_known: bool, tmp_path: Path
):
    stream = SmallStream(tmp_path, wire, BY_TABLE)
    if is_known:
        stream.create(1, X, "s_x")
        stream.put(2, X, 1, topic="s_x")
    stream.watermark(5, "feed", "s_x")
    stream.bootstrap(Y, "s_y")
    stream.put(9, Y, 3, topic="s_y")
    stream.watermark(10, "feed", "s_y")
    lake = stream.lake()
    lake.publish()
    assert tso(lake) == at(5)
    assert ids(lake) == ({"x": [1]} if is_known else {})

    stream.bootstrap(X, "s_x")
    stream.put(6, X, 2, topic="s_x")
    stream.rename(7, X, Y, "s_x")
    stream.put(11, Y, 4, topic="s_y")
    stream.watermark(12, "feed", "s_y")
    lake.publish()

    assert tso(lake) == at(12)
    assert states(lake) == {"y": "live"}
    assert ids(lake) == {"x": [1, 2] if is_known else [2], "y": [3, 4]}
    assert len(lake.history.source_tables) == 1
    assert lake.publish() is None
