"""Statements of a session in one database on a table of another: TiCDC sends the text, not the session's database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.schema.model import Column, Index, Kind, MySqlType, TableSchema

ID = "CREATE TABLE `{}` (`id` INT PRIMARY KEY)"
CODE = "CREATE TABLE `{}` (`code` INT PRIMARY KEY)"


def with_key(schema: str, table: str, key: str = "id") -> TableSchema:
    primary = Index("PRIMARY", (key,), unique=True, primary=True)
    return TableSchema(schema, table, (Column(key, MySqlType(Kind.INT), nullable=False),), (primary,))


def event(ts: int, schema: str, table: str, query: str, after: TableSchema | None = None) -> DdlEvent:
    return DdlEvent(ts, schema, table, query.format(table), after=after, where=f"at {ts}")


def states(history: History) -> dict[str, tuple[str, int | None]]:
    """By source table, the name it has last and where it is stopped."""
    return {x.id: (".".join(x.name), x.stop.ts if x.stop else None) for x in history.source_tables}


@pytest.mark.parametrize("query", ["RENAME TABLE `a` TO `d2`.`b`", "ALTER TABLE `a` RENAME AS `d2`.`b`"])
@pytest.mark.parametrize("after", [None, with_key("d2", "b")], ids=["text alone", "columns given"])
def test_a_table_is_renamed_into_another_database_from_the_only_one_that_has_its_name(
    query: str, after: TableSchema | None
):
    history = fold([event(10, "d1", "a", ID), event(20, "d2", "b", query, after)])

    assert states(history) == {"d1.a@10": ("d2.b", None)}
    assert history.source_tables[0].newest.schema == "d2"
    assert history.as_of("d1", "a", 20) is not None
    assert history.as_of("d1", "a", 21) is None


def test_the_old_name_that_a_stream_tells_is_believed():
    """The Simple protocol."""
    renamed = event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`", with_key("d2", "b"))
    renamed = replace(renamed, hints=DdlHints(old_name=("d1", "a")), before=with_key("d1", "a"))

    history = fold([event(10, "d1", "a", ID), event(10, "d2", "a", ID), renamed])

    assert states(history) == {"d1.a@10": ("d2.b", None), "d2.a@10": ("d2.a", None)}


def test_the_columns_that_a_stream_tells_say_which_table_was_renamed():
    history = fold([
        event(10, "d1", "a", CODE),
        event(10, "d2", "a", ID),
        event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`", with_key("d2", "b", "code")),
    ])  # fmt: skip

    assert states(history) == {"d1.a@10": ("d2.b", None), "d2.a@10": ("d2.a", None)}


@pytest.mark.parametrize("after", [None, with_key("d2", "b")], ids=["text alone", "columns given"])
def test_where_several_tables_may_have_been_renamed_all_of_them_stop_and_so_does_the_new_name(
    after: TableSchema | None,
):
    history = fold([
        event(10, "d1", "a", ID),
        event(10, "d2", "a", ID),
        event(10, "d2", "c", ID),
        event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`", after),
        event(30, "d2", "b", "", with_key("d2", "b")),
    ])  # fmt: skip

    new = "d2.b@20" if after else "d2.b@30"
    assert states(history) == {
        "d1.a@10": ("d1.a", 20),
        "d2.a@10": ("d2.a", 20),
        "d2.c@10": ("d2.c", None),
        new: ("d2.b", 20),
    }


def test_a_table_with_other_columns_than_the_stream_tells_is_not_the_one_that_was_renamed():
    history = fold([
        event(10, "d2", "a", CODE),
        event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`", with_key("d2", "b")),
    ])  # fmt: skip

    assert states(history) == {"d2.a@10": ("d2.a", None), "d2.b@20": ("d2.b", None)}


def test_a_table_that_is_known_by_a_statement_alone_may_be_the_one_that_was_renamed():
    history = fold([
        event(10, "d1", "a", "TRUNCATE TABLE `a`"),
        event(10, "d3", "a", ID),
        event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`"),
    ])  # fmt: skip

    assert states(history) == {"d3.a@10": ("d3.a", 20)}


def test_a_name_without_a_schema_next_to_another_is_of_the_database_of_the_event():
    history = fold([
        event(10, "d1", "a", ID),
        event(10, "d2", "a", ID),
        event(20, "d2", "b", "RENAME TABLE `a` TO `b`"),
    ])  # fmt: skip

    assert states(history) == {"d1.a@10": ("d1.a", None), "d2.a@10": ("d2.b", None)}


def test_a_table_may_keep_its_name_in_another_database():
    history = fold([event(10, "d1", "a", ID), event(20, "d2", "a", "RENAME TABLE `a` TO `d2`.`a`")])

    assert states(history) == {"d1.a@10": ("d2.a", None)}


def test_a_table_that_only_the_user_describes_is_renamed_into_another_database():
    described = Known({("d1", "a"): with_key("d1", "a")})

    history = fold([event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`")], described)

    assert states(history) == {"d1.a@0": ("d2.b", None)}


def test_a_table_of_an_unreadable_statement_is_stopped_in_another_database_too():
    history = fold([
        event(10, "d1", "a", ID + " FROBNICATED SELECT 1"),
        event(20, "d2", "b", "RENAME TABLE `a` TO `d2`.`b`"),
        event(30, "d2", "b", "", with_key("d2", "b")),
    ])  # fmt: skip

    assert states(history) == {"d2.b@30": ("d2.b", 10)}


def columns(history: History, name: tuple[str, str]) -> list[str]:
    (source_table,) = (source_table for source_table in history.source_tables if source_table.name == name)
    return [column.name for column in source_table.newest.columns]


@pytest.mark.parametrize("after", [None, with_key("d2", "b")], ids=["text alone", "columns given"])
def test_a_table_is_made_like_one_of_another_database(after: TableSchema | None):
    history = fold([
        event(10, "d1", "a", ID),
        event(10, "d3", "a", ID),
        event(20, "d2", "b", "CREATE TABLE `d2`.`b` LIKE `a`", after),
    ])  # fmt: skip

    assert columns(history, ("d2", "b")) == ["id"]
    assert states(history)["d2.b@20"] == ("d2.b", None)


def test_a_table_made_like_one_of_two_that_differ_is_the_one_whose_columns_the_stream_tells():
    makers = [event(10, "d1", "a", ID), event(10, "d2", "a", CODE)]
    like = event(20, "d2", "b", "CREATE TABLE `d2`.`b` LIKE `a`")

    by_columns = fold([*makers, replace(like, after=with_key("d2", "b"))])
    by_text = fold([*makers, like, event(30, "d2", "b", "", with_key("d2", "b"))])

    assert columns(by_columns, ("d2", "b")) == ["id"]
    assert states(by_columns)["d2.b@20"] == ("d2.b", None)
    assert states(by_text)["d2.b@30"] == ("d2.b", 20)
    assert states(by_text)["d1.a@10"] == ("d1.a", None)


def test_a_table_made_like_one_that_is_stopped_is_stopped_where_only_texts_are_sent():
    history = fold([
        event(10, "d1", "a", ID),
        event(20, "d1", "a", "ALTER TABLE `a` FROBNICATE"),
        event(30, "d1", "b", "CREATE TABLE `b` LIKE `a`"),
        event(40, "d1", "b", "", with_key("d1", "b")),
    ])  # fmt: skip

    assert states(history) == {"d1.a@10": ("d1.a", 20), "d1.b@40": ("d1.b", 30)}


@pytest.mark.parametrize("called", [("d2", "t"), ("d1", "u")])
def test_a_partition_is_exchanged_with_the_only_table_of_another_database_that_is_meant(called: tuple[str, str]):
    partitioned = ID + " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10))"

    history = fold([
        event(10, "d2", "t", partitioned),
        event(10, "d1", "u", ID),
        event(10, "d3", "u", CODE),
        event(20, *called, "ALTER TABLE `d2`.`t` EXCHANGE PARTITION `p0` WITH TABLE `u`"),
    ])  # fmt: skip

    assert states(history) == {"d2.t@10": ("d2.t", None), "d1.u@10": ("d1.u", None), "d3.u@10": ("d3.u", None)}
    assert [x.id for x in history.source_tables if x.versions[-1].effects] == ["d2.t@10", "d1.u@10"]
