"""The key of a table, the columns of its unique keys, and which collation its text has."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.model import (
    UNNAMED,
    Collation,
    Column,
    Index,
    Kind,
    MySqlType,
    TableSchema,
    TextOrder,
    is_hidden,
)

INT = MySqlType(Kind.INT)
COLUMNS = (
    Column("a", INT, nullable=False),
    Column("B", INT, nullable=False),
    Column("c", INT),
    Column("v", INT, nullable=False, virtual=True),
)


def table(*indexes: Index, named_key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema("s", "t", COLUMNS, indexes, named_key=named_key)


def unique(*columns: str) -> Index:
    return Index("_".join(columns), columns, unique=True)


PRIMARY = Index("PRIMARY", ("b", "A"), unique=True, primary=True)
KEYS = [
    ((), (), ()),
    ((PRIMARY,), ("a", "B"), ("a", "B")),
    ((unique("a"), PRIMARY), ("a", "B"), ("a", "B")),
    ((unique("b", "a"), unique("B")), ("B",), ("a", "B")),
    ((unique("b"), unique("a")), ("B",), ("a", "B")),
    ((unique("c"),), (), ("c",)),
    ((unique("c"), unique("a", "b")), ("a", "B"), ("a", "B", "c")),
    ((unique("v"),), (), ()),
    ((unique("z"),), (), ()),
    ((Index("a", ("a",)),), (), ()),
    ((Index("PRIMARY", ("c",), primary=True),), ("c",), ("c",)),
]


@pytest.mark.parametrize(("indexes", "key", "unique_columns"), KEYS)
def test_a_table_has_the_key_that_tidb_takes_for_its_handle(
    indexes: tuple[Index, ...], key: tuple[str, ...], unique_columns: tuple[str, ...]
):
    assert table(*indexes).key == key
    assert table(*indexes).unique_columns == unique_columns


def test_the_key_that_the_user_names_comes_before_all_others():
    assert table(PRIMARY, named_key=("C",)).key == ("c",)
    assert table(PRIMARY, named_key=("C",)).unique_columns == ("a", "B", "c")


@pytest.mark.parametrize(
    ("indexes", "named_key", "ordered"),
    [
        ((PRIMARY,), (), ("B", "a")),
        ((unique("b", "A"),), (), ("B", "a")),
        ((), (), ()),
        ((PRIMARY,), ("C", "a"), ("a", "c")),
        ((), ("z",), ()),
        ((Index("PRIMARY", ("z", "a"), primary=True),), (), ("a",)),
    ],
)
def test_the_columns_of_a_key_have_the_order_of_its_index_and_those_that_the_user_names_that_of_the_table(
    indexes: tuple[Index, ...], named_key: tuple[str, ...], ordered: tuple[str, ...]
):
    assert tuple(column.name for column in table(*indexes, named_key=named_key).ordered_key) == ordered


def test_columns_are_found_without_regard_to_case_and_virtual_ones_are_in_no_row():
    assert table().column("b") is COLUMNS[1]
    assert table().column("z") is None
    assert table().stored_columns == COLUMNS[:3]


def test_columns_that_tidb_makes_for_indexes_are_hidden():
    assert is_hidden("_V$_index_0")
    assert not is_hidden("v_V$_0")


@pytest.mark.parametrize(
    ("inner", "outer", "found"),
    [
        (Collation("gbk"), Collation(None, "utf8_bin"), Collation("gbk")),
        (Collation(None, "utf8_bin"), Collation("gbk"), Collation(None, "utf8_bin")),
        (UNNAMED, Collation("gbk"), Collation("gbk")),
        (UNNAMED, UNNAMED, UNNAMED),
        (UNNAMED, None, None),
    ],
)
def test_the_collation_of_the_inner_level_decides(inner: Collation, outer: Collation | None, found: Collation | None):
    assert inner.within(outer) == found


@pytest.mark.parametrize(
    ("collation", "charset", "order"),
    [
        (UNNAMED, None, TextOrder.PADDED),
        (Collation("utf8mb4"), "utf8mb4", TextOrder.PADDED),
        (Collation("utf8mb3"), "utf8mb3", TextOrder.PADDED),
        (Collation("latin1"), "latin1", TextOrder.PADDED),
        (Collation("ascii"), "ascii", TextOrder.PADDED),
        (Collation("binary"), "binary", TextOrder.EXACT),
        (Collation("gbk"), "gbk", None),
        (Collation("unheard_of"), "unheard_of", None),
        (Collation(None, "utf8mb4_0900_bin"), "utf8mb4", TextOrder.EXACT),
        (Collation("utf8mb4", "utf8mb4_general_ci"), "utf8mb4", None),
        (Collation(None, "latin1_bin"), "latin1", TextOrder.PADDED),
        (Collation("utf8", "latin1_bin"), "latin1", TextOrder.PADDED),
        (Collation(None, "gbk_bin"), "gbk", None),
    ],
)
def test_a_collation_tells_its_character_set_and_whether_text_compares_by_code_points(
    collation: Collation, charset: str | None, order: TextOrder | None
):
    assert collation.charset_of_text == charset
    assert collation.order == order
