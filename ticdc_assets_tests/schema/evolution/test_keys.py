"""The key follows the indexes and columns of its table, and a change of it is reported."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, KeyChanged
from ticdc_assets.schema.model import Index
from ticdc_assets_tests.schema.evolution.schema_states import altered, table

KEYED = "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE u (a, b)"
KEYS = [
    ("RENAME COLUMN a TO z", ("z", "b"), ()),
    ("ADD PRIMARY KEY (b)", ("b",), (KeyChanged(("a", "b"), ("b",)),)),
    ("DROP INDEX U", (), (KeyChanged(("a", "b"), ()),)),
    ("ADD UNIQUE (c)", ("a", "b"), ()),
    ("ADD UNIQUE w (b)", ("b",), (KeyChanged(("a", "b"), ("b",)),)),
    ("MODIFY b INT NULL", (), (KeyChanged(("a", "b"), ()),)),
    ("MODIFY b INT NOT NULL FIRST", ("b", "a"), ()),
    ("DROP COLUMN b", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("DROP COLUMN a, DROP COLUMN b", (), (KeyChanged(("a", "b"), ()),)),
    ("RENAME INDEX u TO w, ADD UNIQUE u (c)", ("a", "b"), ()),
    ("DROP INDEX u, ADD UNIQUE u (a)", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("ADD UNIQUE u (a), DROP INDEX u", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("ADD UNIQUE INDEX IF NOT EXISTS U (a)", ("a", "b"), ()),
    ("DROP INDEX not_known_here", ("a", "b"), ()),
    ("DROP PRIMARY KEY", ("a", "b"), ()),
]


@pytest.mark.parametrize(("text", "key", "effects"), KEYS)
def test_the_key_follows_its_indexes_and_columns(text, key, effects):
    change = altered(table(KEYED), text)

    assert (key, effects) == (change.table.key, change.effects)


def test_a_primary_key_that_is_added_is_a_unique_index_of_its_name():
    change = altered(table("a INT NOT NULL, b INT"), "ADD PRIMARY KEY (a)")

    assert change.table.indexes == (Index("PRIMARY", ("a",), unique=True, primary=True),)


def test_columns_of_a_primary_key_stay_not_nullable_until_it_is_dropped():
    shape = altered(table("a INT, b INT, PRIMARY KEY (a)"), "MODIFY a BIGINT").shape
    assert not shape.table.column("a").nullable

    dropped = altered(shape, "DROP PRIMARY KEY")
    assert (KeyChanged(("a",), ()),) == dropped.effects
    assert not dropped.table.column("a").nullable
    assert altered(dropped.shape, "MODIFY a BIGINT").table.column("a").nullable


def test_a_key_column_of_another_lake_type_changes_the_key():
    change = altered(table("a INT PRIMARY KEY"), "MODIFY a VARCHAR(20)")

    assert KeyChanged(("a",), ("a",)) == change.effects[-1]
    assert ConvertColumn(1, 2, "a", parse_type("INT"), parse_type("VARCHAR(20)")) == change.effects[0]


def test_renames_and_drops_of_columns_reach_indexes_and_partitions():
    shape = table(
        "id INT, d DATE, x INT, KEY e ((x + `d`)), KEY i (x, d), KEY j (x)",
        "PARTITION BY HASH (YEAR(`d`)) PARTITIONS 2",
    )
    after = altered(shape, "RENAME COLUMN d TO `year`, DROP COLUMN x").table

    assert (Index("e", ("(x + `year`)",)), Index("i", ("year",))) == after.indexes
    assert after.partitioning.expression == "YEAR(`year`)"
