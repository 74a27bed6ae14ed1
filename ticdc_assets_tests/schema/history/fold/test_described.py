"""Tables of `schema_files` whose first event is a statement, in streams that send the columns after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.schema.model import TableSchema

BEFORE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x','y'), g VARCHAR(40) AS (concat('x', id)) VIRTUAL, b INT)"
)
SENT = "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x','y'), g VARCHAR(40), b INT)"
STATEMENTS = [
    ("ALTER TABLE `t` DROP COLUMN `a`", "id INT PRIMARY KEY, e ENUM('x','y'), g VARCHAR(40), b INT"),
    ("ALTER TABLE `t` ADD COLUMN `c` INT", "id INT PRIMARY KEY, a INT, e ENUM('x','y'), g VARCHAR(40), b INT, c INT"),
    (
        "ALTER TABLE `t` ADD COLUMN `c` INT FIRST",
        "c INT, id INT PRIMARY KEY, a INT, e ENUM('x','y'), g VARCHAR(40), b INT",
    ),
    ("ALTER TABLE `t` RENAME COLUMN `a` TO `z`", "id INT PRIMARY KEY, z INT, e ENUM('x','y'), g VARCHAR(40), b INT"),
    ("ALTER TABLE `t` MODIFY COLUMN `a` BIGINT", "id INT PRIMARY KEY, a BIGINT, e ENUM('x','y'), g VARCHAR(40), b INT"),
    (
        "ALTER TABLE `t` MODIFY COLUMN `e` ENUM('x','y','w')",
        "id INT PRIMARY KEY, a INT, e ENUM('x','y','w'), g VARCHAR(40), b INT",
    ),
]  # fmt: skip


def of(text: str) -> TableSchema:
    (statement,) = parse(text, "shop")
    assert isinstance(statement, ddl.CreateTable)
    return create(statement).table


def statement(query: str, columns: str, ts: int = 20) -> DdlEvent:
    """A schema file; it does not show which columns are virtual, nor labels."""
    after = of(f"CREATE TABLE t ({columns})")
    bare = tuple(replace(c, type=replace(c.type, elements=None)) for c in after.columns)
    return DdlEvent(ts, "shop", "t", query, after=replace(after, columns=bare), hints=DdlHints(version=ts))


def folded(*events: DdlEvent, text: str = BEFORE) -> SourceTable:
    (source_table,) = fold(events, Known({("shop", "t"): of(text)})).source_tables
    return source_table


@pytest.mark.parametrize(("query", "columns"), STATEMENTS)
def test_a_statement_is_applied_to_the_table_that_the_user_describes(query: str, columns: str):
    found = folded(statement(query, columns))

    assert found.stop is None
    assert found.marks == ()
    wanted = of(f"CREATE TABLE t ({columns})")
    assert [c.name for c in found.newest.columns] == [c.name for c in wanted.columns]
    assert [c.type.elements for c in found.newest.columns] == [c.type.elements for c in wanted.columns]
    assert [c.name for c in found.newest.columns if c.virtual] == ["g"]


@pytest.mark.parametrize(("query", "columns"), STATEMENTS)
def test_a_table_may_be_described_after_the_statement_as_well(query: str, columns: str):
    text = f"CREATE TABLE t ({columns.replace('g VARCHAR(40)', 'g VARCHAR(40) AS (1) VIRTUAL')})"
    found = folded(statement(query, columns), text=text)

    assert found.stop is None
    assert found.marks == ()
    assert [c.name for c in found.newest.columns] == [c.name for c in of(text).columns]
    assert [c.name for c in found.newest.columns if c.virtual] == ["g"]


def test_the_second_statement_is_applied_to_a_table_that_is_described_between_both():
    first = statement("ALTER TABLE `t` DROP COLUMN `a`", "id INT PRIMARY KEY, g VARCHAR(40), b INT")
    second = statement("ALTER TABLE `t` DROP COLUMN `b`", "id INT PRIMARY KEY, g VARCHAR(40)", 30)

    found = folded(first, second, text="CREATE TABLE t (id INT PRIMARY KEY, g VARCHAR(40) AS (1) VIRTUAL, b INT)")

    assert found.stop is None
    assert [c.name for c in found.newest.stored_columns] == ["id"]


def test_a_description_that_the_statement_does_not_lead_on_from_is_named():
    found = folded(statement("ALTER TABLE `t` DROP COLUMN `q`", "id INT PRIMARY KEY, g VARCHAR(40)"))

    assert "schema_files describe other columns" in found.marks


def test_a_table_that_is_renamed_first_has_the_columns_that_the_stream_sends():
    sent = of("CREATE TABLE u (id INT PRIMARY KEY, other INT)")
    rename = DdlEvent(20, "shop", "u", "RENAME TABLE `shop`.`t` TO `shop`.`u`", after=sent, hints=DdlHints(version=20))

    assert [c.name for c in folded(rename).newest.columns] == ["id", "other"]


def test_a_copy_of_a_table_that_only_the_user_describes_has_its_virtual_columns():
    like = DdlEvent(20, "shop", "u", "CREATE TABLE `u` LIKE `t`", after=of(SENT), hints=DdlHints(version=20))
    found = folded(like)

    assert found.name == ("shop", "u")
    assert [c.name for c in found.newest.columns if c.virtual] == ["g"]


@pytest.mark.parametrize("called", ["t", "u"])
def test_tables_that_only_the_user_describes_exchange_a_partition(called: str):
    cut = "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10))"
    known = {
        ("shop", "t"): of(f"CREATE TABLE t (id INT PRIMARY KEY) {cut}"),
        ("shop", "u"): of("CREATE TABLE u (id INT PRIMARY KEY)"),
    }
    exchange = DdlEvent(20, "shop", called, "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `u`")

    history = fold([exchange], Known(known))

    assert {t.name: (t.stop, len(t.versions[-1].effects)) for t in history.source_tables} == {
        ("shop", "t"): (None, 1),
        ("shop", "u"): (None, 1),
    }
