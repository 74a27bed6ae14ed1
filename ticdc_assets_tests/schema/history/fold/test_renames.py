"""Renames of one commit_ts, statements as users wrote them, and statements about tables that do not exist yet."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.schema.history.fold.renames import (
    Rename,
    are_in_order,
    is_renamed,
    next_rename,
    old_names,
    rename_pairs,
)
from ticdc_assets.schema.history.fold.state import PendingStatements
from ticdc_assets.schema.history.sent_statements import WrittenStatements, subject_of
from ticdc_assets.schema.history.source_table import SourceName, Stop


def event(query: str, table: str = "b", **more: Any) -> DdlEvent:
    return DdlEvent(5, "s", table, query, **more)


def written(query: str, place: int = 1, table: str = "", commit_ms: int | None = None) -> DdlEvent:
    return event(query, table, origin=DdlOrigin(True, commit_ms, place=("t", 0, place)))


PAIRS = [
    (event("RENAME TABLE a TO b"), [(("s", "a"), ("s", "b"))]),
    (event("RENAME TABLE a TO B, c TO d"), [(("s", "a"), ("s", "B"))]),
    (event("RENAME TABLE a TO x.b"), [(("", "a"), ("x", "b"))]),
    (event("RENAME TABLE o.a TO s.b"), [(("o", "a"), ("s", "b"))]),
    (event("RENAME TABLE a TO b", hints=DdlHints(old_name=("o", "z"))), [(("o", "z"), ("s", "b"))]),
    (
        event("RENAME TABLE a TO x, c TO y", hints=DdlHints(old_name=("o", "z"))),
        [(("s", "a"), ("s", "x")), (("s", "c"), ("s", "y"))],
    ),
    (event("ALTER TABLE a ADD c INT, RENAME TO b"), [(("s", "a"), ("s", "b"))]),
    (event("ALTER TABLE a ADD c INT"), []),
    (event("DROP TABLE a"), []),
    (written("RENAME TABLE a TO b, c TO d"), [(("s", "a"), ("s", "b")), (("s", "c"), ("s", "d"))]),
]


@pytest.mark.parametrize(("given", "pairs"), PAIRS)
def test_a_statement_tells_the_names_that_its_tables_have_before_and_after(given: DdlEvent, pairs: list[Any]):
    statements = parse(given.query, "")

    assert list(rename_pairs(given, statements)) == pairs
    assert old_names(given) == [(old[0] or "s", old[1]) for old, _ in pairs]


def test_a_statement_that_cannot_be_read_takes_no_name():
    assert old_names(event("RENAME a")) == []
    assert list(rename_pairs(event("x"), None)) == []


def renames(*pairs: str, version: int | None = None) -> list[Rename]:
    """Renames such as `a>b`."""
    made = [pair.split(">") for pair in pairs]
    return [(event("", new, hints=DdlHints(version=version)), (("s", old), ("S", new))) for old, new in made]


def names(text: str) -> Container[SourceName]:
    return {("s", name) for name in text.split()}


ORDERS = [
    ("a>b", "a", True),
    ("a>b", "a b", False),
    ("a>A", "a", True),
    ("b>c a>b", "a b", True),
    ("a>b b>c", "a b", False),
    ("a>tmp b>a tmp>b", "a b", True),
    ("a>c b>c", "a b", False),
    ("a>b c>a", "a c", True),
]


@pytest.mark.parametrize(("pairs", "live", "in_order"), ORDERS)
def test_renames_can_be_done_as_they_came_where_each_new_name_is_free(pairs: str, live: str, in_order: bool):
    assert are_in_order(renames(*pairs.split()), names(live)) is in_order
    assert not are_in_order(renames(*pairs.split(), version=5), names(live))
    assert are_in_order(renames(*pairs.split(), version=4), names(live)) is in_order


NEXT = [
    ("a>b b>c", "a b", "", "b>c"),
    ("b>c a>b", "a b", "", "b>c"),
    ("a>b b>a", "a b", "", "a>b"),
    ("a>tmp b>a tmp>b", "a b", "", "a>tmp"),
    ("x>a a>b", "a", "x", "a>b"),
    ("z>y a>b", "a", "", "a>b"),
    ("z>y a>b", "a b", "", "z>y"),
]


@pytest.mark.parametrize(("pairs", "live", "before", "first"), NEXT)
def test_unordered_renames_begin_with_one_to_a_free_name(pairs: str, live: str, before: str, first: str):
    waiting = renames(*pairs.split())

    assert next_rename(waiting, names(live), names(before)) == waiting[pairs.split().index(first)]


def test_a_table_is_still_to_be_renamed_where_a_rename_takes_its_name():
    assert is_renamed(("S", "A"), renames("a>b"))
    assert not is_renamed(("s", "b"), renames("a>b"))


# -- statements as users wrote them ------------------------------------------------------------------------------------


def parts(state: WrittenStatements, given: DdlEvent, live: str = "") -> list[tuple[str, str]]:
    found = state.parts(given, parse(given.query, ""), names(live))
    return [(part.schema, part.table) for part, _ in found]


CALLED = [
    ("CREATE TABLE x (a INT)", [("s", "x")]),
    ("TRUNCATE o.x", [("o", "x")]),
    ("ALTER TABLE x ADD b INT", [("s", "x")]),
    ("ALTER TABLE x ADD b INT, RENAME TO o.y", [("o", "y")]),
    ("DROP TABLE x, y", [("s", "")]),
    ("TRUNCATE x; TRUNCATE y", [("s", "x"), ("s", "y")]),
]


@pytest.mark.parametrize(("query", "called"), CALLED)
def test_a_statement_is_called_by_the_name_that_it_leaves_its_table_with(query: str, called: list[tuple[str, str]]):
    assert parts(WrittenStatements(), written(query)) == called
    assert [part for part, _ in WrittenStatements().parts(event(query), None, ())] == [event(query)]


def test_a_table_that_is_there_is_not_made_again():
    query = "CREATE TABLE IF NOT EXISTS x (a INT)"

    assert parts(WrittenStatements(), written(query), live="x") == []
    assert parts(WrittenStatements(), written(query)) == [("s", "x")]
    assert parts(WrittenStatements(), written("CREATE TABLE x (a INT)"), live="x") == [("s", "x")]


def test_a_rename_that_is_sent_again_changes_nothing_where_its_old_name_is_gone():
    for query in ("RENAME TABLE x TO y", "ALTER TABLE x RENAME TO y"):
        state = WrittenStatements()
        assert len(parts(state, written(query, place=1), live="x")) == 1
        assert parts(state, written(query, place=2), live="y") == []
        assert len(parts(state, written(query, place=3), live="x")) == 1
        assert len(parts(state, written(query, place=4, commit_ms=9), live="y")) == 1
        assert state.is_repeat(written(query, place=2))
        assert not state.is_repeat(written(query, place=1))


SUBJECTS = [
    ("ALTER TABLE o.x WHATEVER", ("o", "x")),
    ("ALTER IGNORE TABLE x WHATEVER", ("s", "x")),
    ("CREATE TABLE IF NOT EXISTS x WHATEVER", ("s", "x")),
    ("DROP TABLE IF EXISTS x WHATEVER", ("s", "x")),
    ("TRUNCATE TABLE x y", ("s", "x")),
    ("RENAME TABLE x y", ("s", "")),
    ("ALTER DATABASE x", ("s", "")),
    ("ALTER TABLE 5", ("s", "")),
    ("", ("s", "")),
]


@pytest.mark.parametrize(("query", "subject"), SUBJECTS)
def test_a_statement_that_cannot_be_read_is_about_the_table_that_it_begins_with(query: str, subject: SourceName):
    found = subject_of(written(query))

    assert (found.schema, found.table) == subject
    assert subject_of(event(query)).table == "b"
    assert subject_of(written(query, table="c")).table == "c"


# -- tables that are not born yet --------------------------------------------------------------------------------------


def test_a_stop_of_a_name_is_taken_once():
    pending = PendingStatements()
    given = event("TRUNCATE b"), ddl.TruncateTable("s", "B")
    pending.change(*given)
    pending.stop(("S", "C"), Stop(7, "first"))
    pending.stop(("s", "c"), Stop(5, "second"))

    assert pending.called("B") == {("s", "b")}
    assert pending.inside("S") == {("s", "b"), ("s", "c")}
    assert pending.take_changes(("S", "b")) == [given]
    assert pending.take_changes(("S", "b")) == []
    assert pending.take_stop(("s", "C")) == Stop(7, "first")
    assert pending.take_stop(("s", "C")) is None


def test_the_earliest_stop_of_a_name_and_its_database_counts_until_that_is_gone():
    pending = PendingStatements()
    pending.stop_database("S", Stop(5, "database"))
    pending.stop_database("s", Stop(3, "reported later"))
    pending.stop(("s", "a"), Stop(4, "table"))
    pending.stop(("s", "b"), Stop(6, "table"))

    assert pending.take_stop(("s", "a")) == Stop(4, "table")
    assert pending.take_stop(("s", "a")) == Stop(5, "database")
    pending.forget(("s", "B"))
    pending.stop_database("", Stop(4, "all"))
    assert pending.take_stop(("s", "b")) == Stop(4, "all")
    pending.forget_database("")
    pending.forget_database("S")
    assert pending.take_stop(("s", "b")) is None
