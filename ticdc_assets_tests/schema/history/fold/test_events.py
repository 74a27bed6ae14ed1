"""The fold of statements and schemas into source tables: names, versions, stops, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.history.fold.events import Known, fold, in_order
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.schema.history.histories import event, table
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, schema_document

NAMED = Known(key_of=lambda _schema, table: ("id",) if table == "t" else None)


def ids(history: History) -> list[str]:
    return [source_table.id for source_table in history.source_tables]


@pytest.mark.parametrize("workload", workloads("canal-json-tidb", "seed*"), ids=lambda w: w.name)
def test_every_version_of_every_table_is_what_the_log_says(workload: Workload):
    """Statement texts alone lead to the columns and keys that the log tells after each of them."""
    result = [e for e in workload.events if e["kind"] in ("ddl", "exists") and not e.get("replay")]
    events = [
        DdlEvent(e["commit_ts"], e.get("new_schema", e["schema"]), e.get("new_table", e["table"]), e["query"])
        for e in result
    ]
    history = fold(events)

    for e in result:
        if "create_after" not in e:
            continue
        (statement,) = parse(e["create_after"], e["schema"])
        assert isinstance(statement, ddl.CreateTable)
        wanted = create(statement).table
        found = history.as_of(e["schema"], e["table"], e["commit_ts"] + 1)
        assert found is not None
        assert [c.name for c in found[1].table.stored_columns] == [c.name for c in wanted.stored_columns]
        assert found[1].table.key == wanted.key


def test_redelivered_statements_count_once():
    statement = event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")

    assert fold([statement, replace(statement)]) == fold([statement])


def test_one_statement_text_is_two_statements_at_two_places_or_of_two_tables():
    truncate = replace(event(10, "t", "TRUNCATE TABLE `t`"), origin=DdlOrigin(place=("topic", 0, 5)))
    again = replace(truncate, origin=DdlOrigin(place=("topic", 0, 6)))
    rename = replace(event(20, "t", "RENAME TABLE a TO t"), hints=DdlHints(old_name=("shop", "a")))
    from_another = replace(rename, hints=DdlHints(old_name=("other", "a")))

    statements = [truncate, again, rename, from_another]

    assert in_order([*statements, truncate, from_another]) == statements


def test_statements_of_one_commit_ts_lead_to_one_version_with_the_effects_of_all():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` ADD COLUMN `v` INT DEFAULT 1"),
        event(20, "t", "TRUNCATE TABLE `t`"),
        event(20, "t", "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 2"),
    ])  # fmt: skip

    [(first, second)] = [source_table.versions for source_table in history.source_tables]
    assert (first.from_ts, second.from_ts) == (10, 20)
    assert [c.name for c in second.table.columns] == ["id", "v", "w"]
    assert [getattr(effect, "name", "") for effect in second.effects] == ["v", "", "w"]


def test_a_table_made_like_one_that_is_not_known_has_the_columns_that_the_stream_sends():
    like = event(10, "u", "CREATE TABLE `u` LIKE `t`", after=table("u", "id", "v", key=("id",)))

    [made] = fold([like]).source_tables

    assert ([c.name for c in made.newest.columns], made.newest.key, made.stop) == (["id", "v"], ("id",), None)
    assert [(period.after_ts, period.until_ts) for period in made.name_periods] == [(10, None)]


def test_a_table_of_a_name_that_was_dropped_starts_afresh():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "DROP TABLE `shop`.`t`"),
        event(30, "t", "CREATE TABLE `t` (`code` VARCHAR(5) PRIMARY KEY)"),
    ])  # fmt: skip

    assert ids(history) == ["shop.t@10", "shop.t@30"]
    assert history.source_tables[0].dropped_ts == 20
    assert history.as_of("shop", "t", 25) is None
    assert history.as_of("shop", "T", 31) == (history.source_tables[1], history.source_tables[1].versions[0])


@pytest.mark.parametrize("third", ["RENAME TABLE `tmp` TO `b`", "RENAME TABLE `a` TO `b`"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_swap_in_one_statement_swaps_whatever_its_order_and_text(third: str, order: tuple[int, ...]):
    """Storage does not tell the order, and TiCDC writes the third text with the name from before the statement."""
    parts = [
        event(30, "tmp", "RENAME TABLE `a` TO `tmp`"),
        event(30, "a", "RENAME TABLE `b` TO `a`"),
        event(30, "b", third),
    ]
    creates = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*creates, *(parts[n] for n in order)])

    assert {source_table.id: source_table.name for source_table in history.source_tables} == {
        "shop.a@10": ("shop", "b"),
        "shop.b@10": ("shop", "a"),
    }


def test_a_swap_through_a_name_that_was_not_sent_swaps():
    creates = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*creates, event(30, "a", "RENAME TABLE `b` TO `a`"), event(30, "b", "RENAME TABLE `a` TO `b`")])

    assert {source_table.id: source_table.name for source_table in history.source_tables} == {
        "shop.a@10": ("shop", "b"),
        "shop.b@10": ("shop", "a"),
    }


UNHEARD = [
    [("a", "tmp"), ("b", "a"), ("a", "b")],
    [("a", "tmp"), ("b", "a"), ("tmp", "b")],
    [("b", "tmp"), ("a", "b"), ("b", "a")],
    [("b", "tmp"), ("a", "b"), ("tmp", "a")],
]
"""Swaps of `a`, which is known, with `b`, of which nothing was heard; in both forms of the third old name."""


@pytest.mark.parametrize("parts", UNHEARD, ids=str)
def test_a_swap_with_a_table_that_nothing_was_heard_of_leaves_it_the_other_name(parts: list[tuple[str, str]]):
    """Otherwise its rows would come to the table that bore the name before."""
    history = fold([
        event(10, "a", "CREATE TABLE `a` (`id` INT PRIMARY KEY)"),
        *(event(30, new, f"RENAME TABLE `{old}` TO `{new}`") for old, new in parts),
    ])  # fmt: skip

    assert [source_table.name for source_table in history.source_tables] == [("shop", "b")]
    assert history.as_of("shop", "a", 31) is None


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("parts", UNHEARD[:2], ids=str)
def test_schema_files_of_a_swap_begin_the_other_table(parts: list[tuple[str, str]], order: tuple[int, ...]):
    files = [
        replace(
            event(30, new, f"RENAME TABLE `{old}` TO `{new}`", after=table(new, "id", key=("id",))),
            hints=DdlHints(version=30),
        )
        for old, new in parts
    ]

    history = fold([event(10, "a", "CREATE TABLE `a` (`id` INT PRIMARY KEY)"), *(files[n] for n in order)])

    assert {source_table.id: source_table.name for source_table in history.source_tables} == {
        "shop.a@10": ("shop", "b"),
        "shop.a@30": ("shop", "a"),
    }


ONE_NAME_AFTER_ANOTHER = [
    [("t", "x", "t"), ("x", "t", "t")],
    [("t", "x", "x"), ("t", "t", "t")],
    [("t", "t", "t"), ("t", "t", "t")],
    [("t", "x", "y"), ("x", "y", "y")],
    [("t", "y", "y"), ("t", "y", "y")],
    [("t", "x", "t"), ("x", "y", "t"), ("y", "t", "t")],
]
"""Old name and new name in the text, and the table of the message: those of the statement, or as TiCDC replaces them
by the name from before the statement and by the final one."""


@pytest.mark.parametrize("parts", ONE_NAME_AFTER_ANOTHER, ids=str)
def test_a_table_that_one_statement_renames_twice_stays_one_table(parts: list[tuple[str, str, str]]):
    messages = [
        replace(
            event(30, of, f"RENAME TABLE `{old}` TO `{new}`", after=table(of, "id", key=("id",))),
            hints=DdlHints(version=9, table_id=7),
        )
        for old, new, of in parts
    ]

    history = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"), *messages])

    assert {source_table.id: source_table.name for source_table in history.source_tables} == {
        "shop.t@10": ("shop", parts[-1][1])
    }


def test_three_names_change_hands_though_nothing_was_heard_of_one():
    creates = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "c")]
    parts = [("a", "tmp"), ("b", "a"), ("c", "b"), ("a", "c")]

    history = fold([*creates, *(event(30, new, f"RENAME TABLE `{old}` TO `{new}`") for old, new in parts)])

    assert {source_table.id: source_table.name for source_table in history.source_tables} == {
        "shop.a@10": ("shop", "c"),
        "shop.c@10": ("shop", "b"),
    }


@pytest.mark.parametrize("source", ["a", "unknown"])
def test_a_table_whose_name_another_takes_by_a_rename_is_dropped(source: str):
    """As with `ignore-event = ["drop table"]`: the stream does not tell that the name was free."""
    creates = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*creates, event(30, "b", f"RENAME TABLE `{source}` TO `b`", after=table("b", "id", key=("id",)))])

    assert history.by_id()["shop.b@10"].dropped_ts == 30
    taken = history.as_of("shop", "b", 31)
    assert taken is not None
    assert taken[0].id == ("shop.a@10" if source == "a" else "shop.b@30")


def test_a_rename_that_is_sent_twice_drops_nothing():
    history = fold([
        event(10, "a", "CREATE TABLE `a` (`id` INT PRIMARY KEY)"),
        event(30, "b", "RENAME TABLE `a` TO `b`"),
        event(30, "b", "RENAME TABLE `shop`.`a` TO `b`"),
    ])  # fmt: skip

    assert [(source_table.name, source_table.dropped_ts) for source_table in history.source_tables] == [
        (("shop", "b"), None)
    ]


INDEXED = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`name` VARCHAR(200),INDEX `i`((LOWER(`name`))))"
PLAIN = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`name` VARCHAR(200))"
ADDED = "ALTER TABLE `t` ADD INDEX `i`((LOWER(`name`)))"


@pytest.mark.parametrize("queries", [[INDEXED], [PLAIN, ADDED], [""]])
def test_an_index_over_an_expression_is_no_column_though_schema_files_list_one_for_it(queries: list[str]):
    hidden = {"ColumnName": "_V$_i_0", "ColumnType": "VARCHAR", "ColumnPrecision": "200"}
    files = [
        schema_document("shop", "t", ts, [ID, NAME] if query == PLAIN else [ID, NAME, hidden], query)
        for ts, query in enumerate(queries, start=1)
    ]

    (source_table,) = fold(parse_schema_file(file, "here").to_ddl_event() for file in files).source_tables

    assert source_table.stop is None
    assert [c.name for c in source_table.newest.stored_columns] == ["id", "name"]


def test_a_dropped_database_drops_its_tables():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)", schema="other"),
        event(20, "", "DROP DATABASE `shop`"),
    ])  # fmt: skip

    assert [source_table.dropped_ts for source_table in history.source_tables] == [20, None]


def test_a_table_older_than_the_stream_says_what_is_not_known_of_it():
    schema = TableSchema("shop", "t", (Column("e", MySqlType(Kind.ENUM)), Column("id", MySqlType(Kind.INT))))

    history = fold([event(5, "t", "", after=schema)])

    assert any("no key is known" in mark for mark in history.source_tables[0].marks)
    assert any("labels of e" in mark for mark in history.source_tables[0].marks)


def test_a_key_that_the_user_names_is_the_key():
    history = fold([event(5, "t", "", after=table("t", "id", "n"))], Known(key_of=lambda _schema, _table: ("id",)))

    assert history.source_tables[0].newest.key == ("id",)
    assert not any("no key" in mark for mark in history.source_tables[0].marks)


@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE `t` ADD PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */",
        "ALTER TABLE `t` ADD PRIMARY KEY(`n`)",
        "ALTER TABLE `t` ADD UNIQUE INDEX `u`(`n`)",
        "ALTER TABLE `t` DROP PRIMARY KEY",
    ],
)
def test_a_key_that_the_user_names_stays_the_key_whatever_statements_do_to_others(query: str):
    primary = ",PRIMARY KEY(`n`)" if "DROP" in query else ""

    (source_table,) = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT NOT NULL,`n` INT NOT NULL{primary})"),
        event(20, "t", query),
    ], NAMED).source_tables  # fmt: skip

    assert (source_table.stop, source_table.newest.key) == (None, ("id",))
    assert [v.effects for v in source_table.versions] == [()]


def test_a_key_that_the_user_names_follows_its_column_to_another_name():
    (source_table,) = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT,`n` INT)"),
        event(20, "t", "ALTER TABLE `t` RENAME COLUMN `id` TO `code`"),
    ], NAMED).source_tables  # fmt: skip

    assert source_table.newest.key == ("code",)


def test_a_table_made_like_one_whose_key_the_user_names_has_only_the_key_it_was_made_with():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT,`n` INT NOT NULL UNIQUE)"),
        event(20, "u", "CREATE TABLE `u` LIKE `t`"),
        event(30, "v", "CREATE TABLE `v` (`id` INT,`n` INT)"),
        event(40, "w", "CREATE TABLE `w` LIKE `v`"),
    ], NAMED)  # fmt: skip

    assert [source_table.newest.key for source_table in history.source_tables] == [("id",), ("n",), (), ()]


def test_a_table_whose_key_the_user_names_stays_the_same_when_its_rows_tell_another_column():
    """The Avro protocol: a schema without a statement."""
    found = [replace(table("t", *columns), inferred=True) for columns in (("id", "n"), ("id", "n", "m"))]

    (source_table,) = fold([event(ts, "t", "", after=after) for ts, after in enumerate(found)], NAMED).source_tables

    assert ([c.name for c in source_table.newest.stored_columns], source_table.newest.key) == (
        ["id", "n", "m"],
        ("id",),
    )


def test_a_table_that_was_shown_under_its_new_name_first_had_the_old_one_until_its_rename():
    shown = replace(event(10, "new", "", after=table("new", "id", key=("id",))), hints=DdlHints(version=10))
    rename = replace(event(50, "new", "RENAME TABLE `shop`.`old` TO `shop`.`new`"), hints=DdlHints(version=10))

    [source_table] = fold([shown, rename]).source_tables

    assert source_table.id == "shop.new@10"
    assert [(t.table, t.until_ts) for t in source_table.name_periods] == [("old", 50), ("new", None)]


def test_a_table_that_the_user_describes_takes_the_statements_before_its_rename():
    described = Known({("shop", "t"): table("t", "id", key=("id",))})

    history = fold([
        event(10, "t", "ALTER TABLE `t` ADD COLUMN `n` INT"),
        event(20, "u", "RENAME TABLE `t` TO `u`"),
        event(30, "u", "ALTER TABLE `u` DROP COLUMN `n`"),
    ], described)  # fmt: skip

    (source_table,) = history.source_tables
    assert source_table.name == ("shop", "u")
    assert source_table.stop is None
    assert [[c.name for c in v.table.stored_columns] for v in source_table.versions] == [["id"], ["id", "n"], ["id"]]


def test_statements_on_a_table_that_was_dropped_are_not_of_its_successor():
    described = Known({("shop", "t"): table("t", "id", key=("id",))})

    history = fold([
        event(10, "t", "ALTER TABLE `t` ADD COLUMN `n` INT"),
        event(20, "t", "DROP TABLE `t`"),
        event(30, "v", "RENAME TABLE `t` TO `v`"),
    ], described)  # fmt: skip

    assert [[c.name for c in source_table.newest.stored_columns] for source_table in history.source_tables] == [["id"]]
