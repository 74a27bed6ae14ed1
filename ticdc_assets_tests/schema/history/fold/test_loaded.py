"""Tables that were loaded from a dump or copied from TiDB, and what the stream has of them up to that TSO."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.pipeline.commit_range import TableState, commit_ranges
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.fold.loaded import created, has_stored_columns
from ticdc_assets.schema.history.source_table import History, SourceTable
from ticdc_assets.schema.model import Default

T = 1000
USERS = "CREATE TABLE `users` (`id` INT PRIMARY KEY, `v` INT)"


def ddl(ts: int, table: str, query: str, **more) -> DdlEvent:
    return DdlEvent(ts, "shop", table, query, **more)


def loaded(*tables: str) -> list[DdlEvent]:
    texts = {table: USERS.replace("users", table) for table in tables}
    return [ddl(T, table, text, where=f"dump: {table}", loaded=True) for table, text in texts.items()]


def followed(history: History) -> dict[str, SourceTable]:
    return {table.id: table for table in history.source_tables if not table.is_contained}


def owner(history: History, table: str, ts: int) -> str:
    found = history.as_of("shop", table, ts)
    assert found is not None
    return "contained" if found[0].is_contained else found[0].id


NARROW = ddl(10, "users", "CREATE TABLE users (id INT PRIMARY KEY)")
PEOPLE = ddl(10, "people", USERS.replace("users", "people"))
AGAIN = [ddl(10, "users", USERS), ddl(20, "users", "DROP TABLE users"), ddl(30, "users", USERS)]


def widened(ts: int) -> DdlEvent:
    return ddl(ts, "users", "ALTER TABLE users ADD v INT")


def renamed(ts: int, old: str, new: str) -> DdlEvent:
    return ddl(ts, new, f"RENAME TABLE {old} TO {new}", hints=DdlHints(old_name=("shop", old)))


BEFORE = {
    "nothing": [],
    "its CREATE": [ddl(10, "users", USERS)],
    "other columns": [NARROW, widened(20)],
    "another name": [PEOPLE, renamed(20, "people", "users")],
    "a table of its name before": AGAIN,
    "a statement that stops it": [ddl(10, "users", USERS), ddl(20, "users", "ALTER TABLE users FROBNICATE")],
    "its CREATE at that TSO": [ddl(T, "users", USERS)],
    "columns at that TSO": [NARROW, widened(T)],
    "its name at that TSO": [PEOPLE, renamed(T, "people", "users")],
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("comes_first", [True, False])
def test_the_history_begins_at_the_dump_whatever_the_stream_has_before(before: list[DdlEvent], comes_first: bool):
    history = fold([*loaded("users"), *before] if comes_first else [*before, *loaded("users")])
    alone = fold(loaded("users"))

    assert followed(history) == followed(alone)
    [table] = followed(history).values()
    assert (table.id, [version.from_ts for version in table.versions]) == (f"shop.users@{T}", [T - 1])
    assert (table.stop, table.dropped_ts, table.marks) == (None, None, ())
    assert owner(history, "users", T + 1) == table.id
    found = history.as_of("shop", "users", T)
    assert found is None or found[0].is_contained
    for name in ("users", "people"):
        assert all(period.source_table_id != table.id or period.after_ts >= T for period in _periods(history, name))


def _periods(history: History, name: str) -> list:
    timeline = history.timelines().get(("shop", name), ())
    return [period for period in timeline if hasattr(period, "source_table_id")]


def test_statements_after_the_dump_are_done_to_its_table():
    after = [ddl(T + 1, "users", "ALTER TABLE users ADD w INT"), renamed(T + 2, "users", "u2")]
    [table] = followed(fold([ddl(10, "users", USERS), *loaded("users"), *after])).values()
    assert ([v.from_ts for v in table.versions], table.name) == ([T - 1, T + 1], ("shop", "u2"))
    assert [column.name for column in table.newest.columns] == ["id", "v", "w"]


def test_tables_that_the_dump_lacks_are_those_of_the_stream_and_ended_ones_are_contained():
    before = [ddl(10, "users", USERS), ddl(11, "other", USERS.replace("users", "other"))]
    before += [ddl(12, "gone", USERS.replace("users", "gone")), ddl(13, "gone", "DROP TABLE gone")]
    history = fold([*before, *loaded("users")])

    assert followed(history).keys() == {"shop.other@11", f"shop.users@{T}"}
    assert owner(history, "gone", 13) == "contained"
    assert followed(history)["shop.other@11"] == followed(fold(before))["shop.other@11"]


def test_a_table_created_later_has_the_collation_of_the_dumped_database():
    query = "CREATE DATABASE `shop` /*!40100 DEFAULT CHARACTER SET latin1 COLLATE latin1_bin */;"
    database = DdlEvent(T, "shop", "", query, loaded=True)
    late = ddl(T + 1, "late", "CREATE TABLE late (id INT PRIMARY KEY, v VARCHAR(9))")
    with_database, plain = (fold([*events, *loaded("users"), late]) for events in ([database], []))
    tables = [followed(history)[f"shop.late@{T + 1}"].newest for history in (with_database, plain)]
    assert tables[0].column("v") != tables[1].column("v") or tables[0].collation != tables[1].collation


def test_a_schema_file_without_a_create_table_is_refused():
    with pytest.raises(SchemaError, match="expected a CREATE TABLE statement, found none"):
        created(ddl(T, "users", "DROP TABLE users", loaded=True))


@pytest.mark.parametrize(
    ("query", "stored"),
    [
        ("CREATE TABLE users (id INT, v INT AS (id + 1) STORED)", True),
        ("SET NAMES binary; CREATE TABLE users (id INT, v INT AS (id + 1) STORED)", True),
        ("CREATE TABLE users (id INT, v INT AS (id + 1) VIRTUAL)", False),
        ("CREATE TABLE users (id INT AUTO_INCREMENT PRIMARY KEY)", False),
        ("CREATE DATABASE shop", False),
    ],
)
def test_generated_columns_that_are_stored_are_seen_in_a_schema_file(query: str, stored: bool):
    assert has_stored_columns(ddl(T, "users", query, loaded=True)) is stored


def test_backslashes_escape_in_the_texts_of_a_dump():
    query = r"CREATE TABLE users (id INT PRIMARY KEY COMMENT 'it\'s', v ENUM('a\\b', 'c') DEFAULT 'a\\b' COMMENT '\n')"
    given = ddl(T, "users", query, loaded=True)
    database = DdlEvent(T, "shop", "", r"/*!40100 SET @x = 'it\'s' */; CREATE DATABASE `shop`", loaded=True)

    [table] = followed(fold([database, given])).values()

    for columns in (table.newest.columns, created(given).table.columns):
        assert [column.comment for column in columns] == ["it's", "\n"]
        assert columns[1].type.elements == ("a\\b", "c")
        assert columns[1].default == Default("a\\b")
    assert table.stop is None
    assert not has_stored_columns(given)
    stored = query.removesuffix(")") + ", s INT AS (id) STORED)"
    assert has_stored_columns(ddl(T, "users", stored, loaded=True))


# -- tables that are copied from TiDB ----------------------------------------------------------------------------------


def copied(ts: int) -> DdlEvent:
    return ddl(ts, "users", USERS, where="upstream: shop.users", copied=True)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_copy_ends_the_table_of_its_name_and_begins_one(before: list[DdlEvent], comes_first: bool):
    other = ddl(5, "other", USERS.replace("users", "other"))
    history = fold([copied(T), other, *before] if comes_first else [other, *before, copied(T)])

    [table] = [t for t in history.source_tables if t.copied_ts]
    assert (table.id, table.copied_ts, [v.from_ts for v in table.versions]) == (f"shop.users@{T}", T, [T - 1])
    assert (table.stop, table.dropped_ts, table.is_contained) == (None, None, False)
    assert owner(history, "users", T + 1) == table.id
    assert followed(history)["shop.other@5"] == followed(fold([other]))["shop.other@5"]
    former = [t for t in history.source_tables if t.dropped_ts == T]
    assert [t.is_contained for t in former] == ([True] if not before else [False] * len(former))


def test_a_later_copy_ends_the_one_before():
    first, second = fold([ddl(10, "users", USERS), copied(T), copied(T + 5)]).source_tables[1:]
    assert (first.copied_ts, first.dropped_ts) == (T, T + 5)
    assert (second.copied_ts, second.dropped_ts) == (T + 5, None)


def test_a_copy_takes_changes_only_once_its_rows_are_there():
    [table] = [t for t in fold([ddl(10, "users", USERS), copied(T)]).source_tables if t.copied_ts]

    waiting = commit_ranges([table], {}, T + 9, {})[table.id]
    assert (waiting.low, waiting.high, waiting.state, waiting.is_open) == (0, 0, TableState.WAITING, False)
    assert waiting.hold is not None
    assert "`ticdc-assets resync shop.users`" in waiting.hold.reason(table)
    going_on = commit_ranges([table], {table.id: T}, T + 9, {})[table.id]
    assert (going_on.low, going_on.high, going_on.hold) == (T, T + 9, None)
    gone = commit_ranges([replace(table, dropped_ts=T + 1)], {}, T + 9, {})[table.id]
    assert gone.state is TableState.DROPPED
