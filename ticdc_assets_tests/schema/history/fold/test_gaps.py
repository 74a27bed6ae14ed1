"""Gaps: what the history is after the stream was lost and began anew."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import History, SourceTable

BEGIN, END = 100, 200
USERS = "CREATE TABLE users (id INT PRIMARY KEY, v INT)"
NARROW = "CREATE TABLE users (id INT PRIMARY KEY)"


def ddl(ts: int, query: str, table: str = "users", **more) -> DdlEvent:
    return DdlEvent(ts, "shop", table, query, **more)


GAP = DdlEvent(END, "", "", "", gap_from=BEGIN)
GOES_ON = ddl(END, "", gap_from=BEGIN)
COPIED = ddl(END, USERS, copied=True)


def owner(history: History, ts: int, table: str = "users") -> str:
    found = history.as_of("shop", table, ts)
    return "none" if found is None else "contained" if found[0].is_contained else found[0].id


def followed(history: History) -> list[SourceTable]:
    return [table for table in history.source_tables if not table.is_contained]


IN_GAP = {
    "nothing": [],
    "its schema": [ddl(150, "", after=fold([ddl(10, USERS)]).source_tables[0].newest)],
    "a statement that is taken back": [ddl(150, "ALTER TABLE users ADD x INT"), ddl(160, "ALTER TABLE users DROP x")],
    "another table of its name": [ddl(150, "DROP TABLE users"), ddl(160, USERS)],
    "a statement that is not understood": [ddl(150, "ALTER TABLE users FROBNICATE")],
    "a table that comes and goes": [ddl(150, NARROW.replace("users", "x"), "x"), ddl(160, "DROP TABLE x", "x")],
}


@pytest.mark.parametrize("told", IN_GAP.values(), ids=IN_GAP)
def test_a_table_goes_on_after_a_gap_whatever_the_stream_tells_of_it(told: list[DdlEvent]):
    after = ddl(300, "ALTER TABLE users ADD w INT")

    history = fold([ddl(10, USERS), *told, GAP, GOES_ON, after])

    [users] = followed(history)
    assert (users.id, users.stop, users.dropped_ts, users.copied_ts) == ("shop.users@10", None, None, END)
    assert (users.gaps, users.absences) == (((BEGIN, END),), ())
    assert [column.name for column in users.newest.columns] == ["id", "v", "w"]
    assert [owner(history, ts) for ts in (50, BEGIN, END, 250)] == ["shop.users@10"] * 4
    assert owner(history, 120) == "contained"
    assert owner(history, 170) in ("none", "contained")
    assert [source_table.stop for source_table in followed(history)] == [None]


def test_other_tables_end_where_the_gap_begins_or_are_copied_at_its_end():
    history = fold([ddl(10, NARROW), ddl(20, NARROW.replace("users", "gone"), "gone"), GAP, COPIED])

    before, gone, copied = sorted(followed(history), key=lambda table: (table.copied_ts, table.id), reverse=False)[::1]
    assert {(table.id, table.dropped_ts) for table in (before, gone)} == {
        ("shop.users@10", BEGIN), ("shop.gone@20", BEGIN)
    }  # fmt: skip
    assert (copied.id, copied.copied_ts, owner(history, 250), owner(history, 50)) == (
        "shop.users@200", END, "shop.users@200", "shop.users@10"
    )  # fmt: skip
    assert owner(history, 250, "gone") == "none"


def test_a_second_gap_may_follow_at_once():
    second = [DdlEvent(300, "", "", "", gap_from=END), ddl(300, "", gap_from=END)]

    [users] = followed(fold([ddl(10, USERS), GAP, GOES_ON, *second, ddl(250, "DROP TABLE users")]))

    assert (users.gaps, users.copied_ts, users.dropped_ts) == (((BEGIN, END), (END, 300)), 300, None)


def test_ids_of_tables_inside_a_gap_are_no_ids_of_tables_before_it():
    made = fold([ddl(10, USERS)]).source_tables[0].newest
    seen = ddl(150, "", after=made)

    history = fold([ddl(150, "", after=made, where="older"), GAP, GOES_ON, seen])

    assert len(history.by_id()) == len(history.source_tables)
