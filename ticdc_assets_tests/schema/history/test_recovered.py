"""RECOVER and FLASHBACK TABLE: which dropped table continues, and where the stream does not show which one."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets_tests.schema.history.histories import event, table

CREATED = event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")
DROPPED = event(20, "t", "DROP TABLE `shop`.`t`")
RECOVERED = event(30, "t", "RECOVER TABLE `t`")


def periods(source_table: SourceTable) -> list[tuple[str, int, int | None]]:
    return [(period.table, period.after_ts, period.until_ts) for period in source_table.name_periods]


@pytest.mark.parametrize("query", ["RECOVER TABLE `t`", "FLASHBACK TABLE `t`", "FLASHBACK TABLE `T` TO `t`"])
@pytest.mark.parametrize("after", [None, table("t", "id", key=("id",))], ids=["text alone", "columns given"])
def test_a_dropped_table_that_comes_back_is_the_same_source_table(query: str, after: object):
    [found] = fold([CREATED, DROPPED, event(30, "t", query, after=after)]).source_tables  # type: ignore[arg-type]

    assert periods(found) == [("t", 10, 20), ("t", 30, None)]
    assert (found.id, found.dropped_ts, found.stop) == ("shop.t@10", None, None)
    assert [found.name_at(ts) is not None for ts in (19, 20, 29, 30)] == [True, False, False, True]


def test_a_table_comes_back_under_another_name():
    history = fold([
        CREATED, DROPPED,
        event(25, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(30, "u", "FLASHBACK TABLE `t` TO `u`"),
        event(40, "u", "ALTER TABLE `u` ADD COLUMN `n` INT"),
    ])  # fmt: skip

    back, other = history.source_tables
    assert (periods(back), periods(other)) == ([("t", 10, 20), ("u", 30, None)], [("t", 25, None)])
    assert (back.newest.name, back.stop, len(back.versions)) == ("u", None, 2)


def test_a_table_comes_back_several_times():
    [found] = fold([CREATED, DROPPED, RECOVERED, event(40, "t", "DROP TABLE `t`"),
                    event(50, "t", "FLASHBACK TABLE `t`"), event(60, "t", "DROP TABLE `t`")]).source_tables  # fmt: skip

    assert periods(found) == [("t", 10, 20), ("t", 30, 40), ("t", 50, 60)]
    assert found.dropped_ts == 60


def test_the_table_that_was_dropped_last_under_the_name_comes_back():
    history = fold([
        CREATED, DROPPED,
        event(21, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(22, "t", "DROP TABLE `t`"),
        event(23, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(24, "t", "RENAME TABLE `u` TO `t`"),
        event(25, "v", "RENAME TABLE `t` TO `v`"),
        RECOVERED,
    ])  # fmt: skip

    assert [(periods(found)[-1], found.stop) for found in history.source_tables] == [
        (("t", 10, 20), None), (("t", 30, None), None), (("v", 25, None), None)
    ]  # fmt: skip


UNDETERMINED = {
    "its rows were truncated": [CREATED, event(20, "t", "TRUNCATE TABLE `t`"),
                                event(21, "x", "RENAME TABLE `t` TO `x`"), RECOVERED],
    "another table was truncated since": [CREATED, DROPPED, event(25, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
                                          event(26, "t", "TRUNCATE TABLE `t`"),
                                          event(27, "x", "RENAME TABLE `t` TO `x`"), RECOVERED],
    "the database was dropped": [CREATED, event(20, "", "DROP DATABASE `shop`"),
                                 event(21, "", "CREATE DATABASE `shop`"), RECOVERED],
    "the database was dropped since": [CREATED, DROPPED, event(25, "", "DROP DATABASE `shop`"),
                                       event(26, "", "CREATE DATABASE `shop`"), RECOVERED],
    "the table is not known": [RECOVERED],
    "an unknown table was dropped since": [CREATED, DROPPED, event(25, "t", "DROP TABLE `t`"), RECOVERED],
    "the statement names a job": [CREATED, DROPPED, event(30, "t", "RECOVER TABLE BY JOB 1")],
    "it came back before": [CREATED, DROPPED, event(25, "u", "FLASHBACK TABLE `t` TO `u`"), RECOVERED],
    "the new name is another table's": [CREATED, DROPPED, event(25, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
                                        RECOVERED],
    "the DROP of a table is missing": [CREATED, event(25, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
                                       event(27, "x", "RENAME TABLE `t` TO `x`"), RECOVERED],
    "it has other columns": [CREATED, DROPPED, event(30, "t", "RECOVER TABLE `t`", after=table("t", "id", "n"))],
}  # fmt: skip


@pytest.mark.parametrize("events", UNDETERMINED.values(), ids=UNDETERMINED)
def test_a_table_whose_rows_the_stream_does_not_show_stops(events: list[DdlEvent]):
    after = table("t", "id", key=("id",))
    given = [*events, event(40, "t", "", after=after)]

    found = fold(given).as_of("shop", "t", 41)

    assert found is not None
    source_table, _ = found
    assert source_table.stop is not None
    assert source_table.stop.ts == 30


def test_a_table_that_stopped_before_its_drop_is_stopped_when_it_comes_back():
    [found] = fold([CREATED, event(15, "t", "ALTER TABLE `t` FROBNICATE"), DROPPED, RECOVERED]).source_tables

    assert (found.dropped_ts, found.stop is not None and found.stop.ts) == (None, 15)
