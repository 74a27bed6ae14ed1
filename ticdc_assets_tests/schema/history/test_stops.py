"""A statement whose effect is unknown stops its own table and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.evolution.schema_state import ExchangedRows
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.schema.evolution.schema_states import table as made
from ticdc_assets_tests.schema.history.histories import GUESSED, event, table


def test_a_statement_that_cannot_be_read_stops_its_table_and_no_other():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` FROBNICATE COLUMN `id`"),
        event(30, "u", "ALTER TABLE `u` ADD COLUMN `n` INT"),
    ])  # fmt: skip

    stopped, free = history.source_tables
    assert stopped.stop is not None
    assert (stopped.stop.ts, free.stop, len(free.versions)) == (20, None, 2)
    assert "at 20" in stopped.stop.reason


def test_a_rename_that_cannot_be_applied_stops_the_table_of_the_old_name():
    renamed = replace(
        event(20, "u", "RENAME TABLE `t` TO `u`"), hints=DdlHints(old_name=("shop", "t")), fault="it names no order"
    )

    (table_t,) = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"), renamed]).source_tables

    assert table_t.stop is not None
    assert (table_t.name, table_t.stop.ts) == (("shop", "t"), 20)
    assert "it names no order" in table_t.stop.reason


CREATED = event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")
ADDED = event(29, "t", "ALTER TABLE `t` ADD COLUMN `Extra` INT")
FOUND = replace(event(29, "t", ""), unexplained="extra")
"""A row at 30 has a column that no statement had added when the row was read."""


@pytest.mark.parametrize("explained", [[], [event(31, "t", "ALTER TABLE `t` ADD COLUMN `extra` INT")]])
def test_a_row_with_a_column_that_no_statement_adds_stops_its_table_before_the_row(explained: list[DdlEvent]):
    (stopped, free) = fold([CREATED, replace(CREATED, table="u", query=CREATED.query.replace("`t`", "`u`")), FOUND,
                            *explained]).source_tables  # fmt: skip

    assert stopped.stop is not None
    assert (stopped.stop.ts, free.stop) == (29, None)
    assert stopped.stop.reason.startswith("at 29: expected the columns that statements give the table, found 'extra'")


@pytest.mark.parametrize("events", [[CREATED, FOUND, ADDED], [ADDED, FOUND, CREATED], [FOUND]])
def test_a_table_goes_on_when_the_statement_of_its_column_arrives(events: list[DdlEvent]):
    assert [source_table.stop for source_table in fold(events).source_tables] == [None] * (len(events) > 1)


UNREADABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY) FROBNICATED SELECT 1"


@pytest.mark.parametrize("query", [UNREADABLE, "ALTER TABLE `t` FROBNICATE", "CREATE TABLE `t` LIKE `unknown`"])
def test_a_table_that_an_unreadable_statement_created_or_changed_is_stopped_when_its_rows_come(query: str):
    (source_table,) = fold([event(10, "t", query), event(20, "t", "", after=GUESSED)]).source_tables

    assert source_table.stop is not None
    assert source_table.stop.ts == 10


@pytest.mark.parametrize(
    "between",
    [
        [event(15, "t", "DROP TABLE `shop`.`t`")],
        [event(15, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")],
        [event(15, "", "DROP DATABASE `shop`")],
        [event(15, "u", "RENAME TABLE `t` TO `u`")],
    ],
    ids=lambda events: events[0].query,
)
def test_a_name_is_free_again_when_the_table_of_an_unreadable_statement_has_left_it(between: list[DdlEvent]):
    history = fold([event(10, "t", UNREADABLE), *between, event(20, "t", "", after=GUESSED)])

    assert [(source_table.name, source_table.stop) for source_table in history.source_tables] == [(("shop", "t"), None)]


def test_a_table_of_an_unreadable_statement_is_stopped_under_its_next_name_too():
    history = fold([
        event(10, "t", UNREADABLE),
        event(15, "u", "RENAME TABLE `t` TO `u`"),
        event(20, "u", "", after=replace(GUESSED, name="u")),
    ])  # fmt: skip

    assert [source_table.stop and source_table.stop.ts for source_table in history.source_tables] == [10]


@pytest.mark.parametrize("given", [None, table("t", "id", key=("id",))], ids=["text alone", "columns given"])
@pytest.mark.parametrize("described", [Known(), Known({("shop", "t"): table("t", "id", key=("id",))})])
def test_a_table_whose_rows_are_brought_back_unseen_is_stopped(given: TableSchema | None, described: Known):
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)", after=given),
        event(20, "t", "DROP TABLE `shop`.`t`", after=given),
        event(30, "t", "RECOVER TABLE BY JOB 1", after=given),
    ], described)  # fmt: skip

    assert [(x.dropped_ts, x.stop and x.stop.ts) for x in history.source_tables] == [(20, None), (None, 30)]


def test_a_truncated_table_that_is_brought_back_under_another_name_is_stopped_before_it_has_a_row():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "TRUNCATE TABLE `t`"),
        event(30, "u", "FLASHBACK TABLE `t` TO `u`"),
    ])  # fmt: skip

    assert [(x.name[1], x.stop and x.stop.ts) for x in history.source_tables] == [("t", None), ("u", 30)]


def test_columns_other_than_the_statements_lead_to_stop_the_table():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` ADD COLUMN `n` INT", after=table("t", "id", "m", key=("id",))),
    ])  # fmt: skip

    assert history.source_tables[0].stop is not None
    assert "(id, m)" in history.source_tables[0].stop.reason


CUT = "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10))"
EXCHANGE = "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `u`"


@pytest.mark.parametrize("called", ["t", "u"])
def test_an_exchanged_partition_is_an_effect_on_both_tables(called: str):
    history = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT PRIMARY KEY) {CUT}"),
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(20, called, EXCHANGE),
    ])  # fmt: skip

    t, u = history.source_tables
    [effect] = t.versions[-1].effects
    assert (t.stop, u.stop, t.versions[-1].from_ts, u.versions[-1].from_ts) == (None, None, 20, 20)
    assert u.versions[-1].effects == (effect,)
    assert isinstance(effect, ExchangedRows)
    assert (effect.partitioned, effect.table, effect.rows.partition) == (t.id, u.id, "p0")


KEYED, OTHER_KEY = "`id` INT PRIMARY KEY", "`id` INT, `n` INT, PRIMARY KEY (`id`, `n`)"
NOT_SHOWN = [
    (KEYED, CUT, "`id` INT, `n` INT, PRIMARY KEY (`id`)", "found other columns"),
    (KEYED, CUT, "`id` BIGINT PRIMARY KEY", "found other columns"),
    ("`id` INT", CUT, "`id` INT", "found no key and no key"),
    (KEYED, CUT, "`id` INT", "found (id) and no key"),
    (OTHER_KEY, CUT, "`id` INT PRIMARY KEY, `n` INT", "found (id, n) and (id)"),
    (KEYED, CUT.replace("p0", "p1"), KEYED, "p0"),
    (KEYED, "", KEYED, "expected partitions that are known, found none"),
]


@pytest.mark.parametrize(("of_t", "cut", "of_u", "found"), NOT_SHOWN)
def test_an_exchange_of_unknown_rows_stops_both_tables(of_t: str, cut: str, of_u: str, found: str):
    create_t, create_u = f"CREATE TABLE `t` ({of_t}) {cut}", f"CREATE TABLE `u` ({of_u})"

    history = fold([event(10, "t", create_t), event(10, "u", create_u), event(20, "t", EXCHANGE)])

    stops = [source_table.stop for source_table in history.source_tables if source_table.stop]
    assert [stop.ts for stop in stops] == [20, 20]
    assert found in stops[0].reason


TOGETHER = [
    (f"{EXCHANGE}, ADD COLUMN `n` INT", "found other actions too"),
    ("ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `t`", "found one that is not known, or several of its name"),
]


@pytest.mark.parametrize(("query", "found"), TOGETHER)
def test_an_exchange_with_more_in_its_statement_or_with_itself_stops_its_table(query: str, found: str):
    create_t, create_u = f"CREATE TABLE `t` (`id` INT PRIMARY KEY) {CUT}", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"

    history = fold([event(10, "t", create_t), event(10, "u", create_u), event(20, "t", query)])

    stops = {source_table.name[1]: source_table.stop for source_table in history.source_tables}
    assert stops["t"] is not None
    assert stops["t"].ts == 20
    assert found in stops["t"].reason
    assert (stops["u"] is None) == ("`u`" not in query)


def test_the_keys_of_exchanged_tables_are_compared_without_regard_to_case_and_order():
    history = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT, `n` INT, PRIMARY KEY (`id`, `n`)) {CUT}"),
        event(10, "u", "CREATE TABLE `u` (`N` INT, `ID` INT, PRIMARY KEY (`N`, `ID`))"),
        event(20, "t", EXCHANGE),
    ])  # fmt: skip

    assert [source_table.stop for source_table in history.source_tables] == [None, None]


def test_an_exchange_with_a_table_that_has_stopped_stops_the_other_too():
    history = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT PRIMARY KEY) {CUT}"),
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(15, "u", "ALTER TABLE `u` FROBNICATE"),
        event(20, "t", EXCHANGE),
    ])  # fmt: skip

    assert {x.name[1]: x.stop and x.stop.ts for x in history.source_tables} == {"t": 20, "u": 15}
    assert (
        next(x.stop.reason for x in history.source_tables if x.stop and x.stop.ts == 20).count("found u stopped") == 1
    )


def older(name: str) -> DdlEvent:
    return event(5, name, "", after=table(name, "id", key=("id",)))


def test_only_a_table_that_takes_rows_from_before_the_stream_stops():
    known = Known(tables={("shop", "t"): replace(made("id INT PRIMARY KEY", CUT).table, schema="shop")})
    new = event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)")

    one = fold([older("t"), new, event(20, "t", EXCHANGE)], known)
    both = fold([older("t"), older("u"), event(20, "t", EXCHANGE)], known)
    emptied = fold([older("t"), event(8, "t", "TRUNCATE TABLE `t`"), new, event(20, "t", EXCHANGE)], known)

    assert {x.name[1]: x.stop and x.stop.ts for x in one.source_tables} == {"t": None, "u": 20}
    assert "older than the stream" in one.source_tables[1].stop.reason
    assert {x.name[1]: x.stop for x in both.source_tables} == {"t": None, "u": None}
    assert {x.name[1]: x.stop for x in emptied.source_tables} == {"t": None, "u": None}


def test_a_table_that_is_older_than_the_stream_and_brought_back_is_stopped_when_its_rows_come():
    history = fold([
        event(20, "t", "DROP TABLE `shop`.`t`"),
        event(30, "t", "RECOVER TABLE `t`"),
        event(40, "t", "", after=GUESSED),
    ])  # fmt: skip

    assert [source_table.stop and source_table.stop.ts for source_table in history.source_tables] == [30]


def test_a_partition_exchanged_with_a_table_that_was_not_heard_of_stops_that_one_when_its_rows_come():
    history = fold([
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `u`"),
        event(20, "v", "ALTER TABLE `w` EXCHANGE PARTITION `p0` WITH TABLE `v`"),
        *(event(30, name, "", after=table(name, "id", key=("id",))) for name in "tvw"),
    ])  # fmt: skip

    assert {x.name[1]: x.stop and x.stop.ts for x in history.source_tables} == dict.fromkeys("utvw", 20)


def test_a_statement_on_a_database_that_cannot_be_read_stops_its_tables_of_that_time():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(10, "left", "CREATE TABLE `left` (`id` INT PRIMARY KEY)"),
        event(10, "gone", "CREATE TABLE `gone` (`id` INT PRIMARY KEY)"),
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)", schema="other"),
        event(15, "gone", "DROP TABLE `gone`"),
        event(15, "left", "RENAME TABLE `shop`.`left` TO `other`.`left`", schema="other"),
        event(20, "", "FLASHBACK DATABASE `shop`", schema="Shop"),
        event(30, "made", "CREATE TABLE `made` (`id` INT PRIMARY KEY)"),
        event(30, "heard", "", after=table("heard", "id", key=("id",))),
        event(30, "gone", "", after=table("gone", "id", key=("id",))),
    ])  # fmt: skip

    assert {x.id: x.stop and x.stop.ts for x in history.source_tables} == {
        "shop.t@10": 20,
        "shop.left@10": None,
        "shop.gone@10": None,
        "other.t@10": None,
        "shop.made@30": None,
        "shop.heard@30": 20,
        "shop.gone@30": 20,
    }


def test_a_statement_that_cannot_be_read_and_tells_no_database_stops_all_tables():
    """The Simple protocol sends statements on databases as text alone."""
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "", "FLASHBACK DATABASE `x`", schema=""),
        event(30, "u", "", after=table("u", "id", key=("id",))),
    ])  # fmt: skip

    assert [x.stop and x.stop.ts for x in history.source_tables] == [20, 20]


def test_a_database_made_again_is_followed():
    history = fold([
        event(10, "", "FLASHBACK DATABASE `shop`"),
        event(20, "", "DROP DATABASE `shop`"),
        event(30, "t", "", after=table("t", "id", key=("id",))),
    ])  # fmt: skip

    assert [x.stop for x in history.source_tables] == [None]


def test_the_first_of_the_stops_of_a_table_and_of_its_database_counts():
    stops = [event(10, "", "FLASHBACK DATABASE `shop`"), event(20, "t", UNREADABLE)]

    (source_table,) = fold([*stops, event(30, "t", "", after=GUESSED)]).source_tables

    assert source_table.stop is not None
    assert source_table.stop.ts == 10
