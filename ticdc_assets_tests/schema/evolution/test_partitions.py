"""Statements on partitions say exactly which rows they remove, or are refused."""

# ruff: noqa: E501 (a case a line)

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.evolution.schema_state import Change, DeletePartitions, Shape, TruncateRows
from ticdc_assets.schema.partitions.expressions import Call
from ticdc_assets.schema.partitions.hashes import HashRows, KeyRows
from ticdc_assets.schema.partitions.rows import RangeRows
from ticdc_assets_tests.schema.evolution.schema_states import altered, table


def parts(change: Change) -> list[tuple]:
    (effect,) = change.effects
    assert isinstance(effect, DeletePartitions)
    return [
        (r.partition, r.lower, r.upper) if isinstance(r, RangeRows) else (r.partition, r.values, r.others)
        for r in effect.partitions
    ]


RANGE = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION P1 VALUES LESS THAN (200), PARTITION m VALUES LESS THAN MAXVALUE)"


def ranged() -> Shape:
    return table("id INT PRIMARY KEY, v INT", RANGE)


def test_truncated_range_partitions_lose_the_rows_between_their_bounds_and_stay():
    change = altered(ranged(), "TRUNCATE PARTITION p1, M, p0")

    assert parts(change) == [("P1", ("100",), ("200",)), ("m", ("200",), None), ("p0", None, ("100",))]
    assert ranged().table.partitioning == change.table.partitioning


def test_after_a_drop_the_next_partition_reaches_down_to_the_bound_before():
    change = altered(ranged(), "DROP PARTITION p0")
    assert parts(change) == [("p0", None, ("100",))]
    assert parts(altered(change.shape, "TRUNCATE PARTITION p1")) == [("P1", None, ("200",))]

    change = altered(ranged(), "DROP PARTITION P1")
    assert parts(altered(change.shape, "DROP PARTITION m")) == [("m", ("100",), None)]


def test_dropping_partitions_together_uses_the_bounds_before_the_statement():
    assert parts(altered(ranged(), "DROP PARTITION p0, p1")) == [("p0", None, ("100",)), ("P1", ("100",), ("200",))]


def test_unknown_partitions_are_refused_unless_if_exists():
    with pytest.raises(SchemaError):
        altered(ranged(), "DROP PARTITION nope")

    assert altered(ranged(), "DROP PARTITION IF EXISTS nope").effects == ()
    assert parts(altered(ranged(), "DROP PARTITION IF EXISTS nope, p0")) == [("p0", None, ("100",))]


def test_added_and_reorganized_partitions_have_their_bounds():
    shape = altered(ranged(), "DROP PARTITION m").shape
    shape = altered(
        shape, "ADD PARTITION (PARTITION p2 VALUES LESS THAN (300), PARTITION p3 VALUES LESS THAN (400))"
    ).shape
    shape = altered(
        shape,
        "REORGANIZE PARTITION P1, p2 INTO (PARTITION a VALUES LESS THAN (150), PARTITION b VALUES LESS THAN (300))",
    ).shape
    shape = altered(shape, "ADD PARTITION IF NOT EXISTS (PARTITION A VALUES LESS THAN (500))").shape

    assert [p.name for p in shape.table.partitioning.partitions] == ["p0", "a", "b", "p3"]
    assert parts(altered(shape, "TRUNCATE PARTITION b, p3")) == [("b", ("150",), ("300",)), ("p3", ("300",), ("400",))]


def test_truncating_all_partitions_empties_a_table_however_it_is_cut():
    assert (TruncateRows(),) == altered(ranged(), "TRUNCATE PARTITION ALL").effects
    hashed = table("id INT", "PARTITION BY HASH (id) PARTITIONS 3")
    assert (TruncateRows(),) == altered(hashed, "TRUNCATE PARTITION ALL").effects


def test_hash_partitions_are_counted():
    shape = table("id INT", "PARTITION BY HASH (id) PARTITIONS 3")
    shape = altered(shape, "ADD PARTITION PARTITIONS 4").shape

    assert altered(shape, "COALESCE PARTITION 2").table.partitioning.count == 5
    assert altered(shape, "REMOVE PARTITIONING").table.partitioning is None
    assert altered(shape, "PARTITION BY KEY (id) PARTITIONS 2").table.partitioning.method == "KEY"


def place(change: Change) -> tuple[str, int, int]:
    (effect,) = change.effects
    assert isinstance(effect, DeletePartitions)
    (rows,) = effect.partitions
    assert isinstance(rows, HashRows | KeyRows)
    return rows.partition, rows.place, rows.count


def test_a_hash_of_a_negated_column_is_of_the_negated_value():
    (effect,) = altered(table("d INT", "PARTITION BY HASH (-d) PARTITIONS 3"), "TRUNCATE PARTITION p1").effects

    assert isinstance(effect, DeletePartitions)
    (rows,) = effect.partitions
    assert isinstance(rows, HashRows)
    assert isinstance(rows.expression, Call)
    assert (rows.expression.function, len(rows.expression.arguments)) == ("NEGATIVE", 1)


@pytest.mark.parametrize("method", ["HASH", "KEY"])
def test_hashed_partitions_are_found_by_their_names_however_many_there_are(method):
    shape = table("id INT", f"PARTITION BY {method} (id) PARTITIONS 3")
    assert place(altered(shape, "TRUNCATE PARTITION P2")) == ("p2", 2, 3)

    shape = altered(shape, "ADD PARTITION PARTITIONS 2").shape
    assert place(altered(shape, "TRUNCATE PARTITION p4")) == ("p4", 4, 5)

    shape = altered(shape, "ADD PARTITION (PARTITION z, PARTITION p9)").shape
    assert place(altered(shape, "TRUNCATE PARTITION p9")) == ("p9", 6, 7)
    assert place(altered(shape, "TRUNCATE PARTITION p4")) == ("p4", 4, 7)

    shape = altered(altered(shape, "COALESCE PARTITION 1").shape, "ADD PARTITION PARTITIONS 1").shape
    assert place(altered(shape, "TRUNCATE PARTITION z")) == ("z", 5, 7)
    assert place(altered(shape, "TRUNCATE PARTITION p6")) == ("p6", 6, 7)
    with pytest.raises(SchemaError):
        altered(shape, "TRUNCATE PARTITION p9")


def test_the_columns_of_a_key_partition_are_the_primary_keys_in_their_order_there():
    shape = table("a INT, b INT, PRIMARY KEY (b, a)", "PARTITION BY KEY () PARTITIONS 3")

    (effect,) = altered(shape, "TRUNCATE PARTITION p0").effects

    assert [column.name for column in effect.partitions[0].columns] == ["b", "a"]


ROWS = [
    ("d DATE", "RANGE (YEAR(d)) (PARTITION a VALUES LESS THAN (2023), PARTITION p VALUES LESS THAN (YEAR('2024-05-06')))",
     ("p", ("2023",), ("2024",))),
    ("d DATETIME", "RANGE (to_days(`d`)) (PARTITION p VALUES LESS THAN (TO_DAYS('2024-01-01')))", ("p", None, ("739251",))),
    ("d DATETIME(3)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('2024-01-01'))", ("p", None, ("2024-01-01 00:00:00.000",))),
    ("d DATE", "RANGE (MONTH(d)) (PARTITION p VALUES LESS THAN (7))", ("p", None, ("7",))),
    ("d TIMESTAMP", "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01')))",
     ("p", None, ("2024-01-01 00:00:00",))),
    ("d TIMESTAMP(6)", "RANGE (FLOOR(UNIX_TIMESTAMP(`d`))) (PARTITION p VALUES LESS THAN (1700000000))", ("p", None, ("1700000000",))),
    ("d INT", "RANGE (d) (PARTITION a VALUES LESS THAN (-5), PARTITION p VALUES LESS THAN (0))", ("p", ("-5",), ("0",))),
    ("d BIGINT UNSIGNED", "RANGE (d) (PARTITION p VALUES LESS THAN (18446744073709551615))", ("p", None, ("18446744073709551615",))),
    ("d INT, e VARCHAR(9)", "RANGE COLUMNS (d, e) (PARTITION a VALUES LESS THAN (1, MAXVALUE), PARTITION p VALUES LESS THAN (2, 'o''k'))",
     ("p", ("1", None), ("2", "o'k"))),
    ("d INT, e DATE", "LIST COLUMNS (d, e) (PARTITION p VALUES IN ((1,'2024-1-1'),(NULL,'2024-01-02')))",
     ("p", (("1", "2024-01-01"), (None, "2024-01-02")), False)),
    ("d INT", "LIST (d) (PARTITION a VALUES IN (1, 2), PARTITION b VALUES IN (NULL), PARTITION p DEFAULT)",
     ("p", (("1",), ("2",), (None,)), True)),
    ("d VARCHAR(5) COLLATE utf8mb4_bin", "LIST COLUMNS (d) (PARTITION p VALUES IN ('eu', 'US'))", ("p", (("eu",), ("US",)), False)),
]  # fmt: skip

RESTORED = [
    ("`d` DATE", "RANGE (TO_DAYS(`d`)) (PARTITION `p` VALUES LESS THAN (TO_DAYS(_UTF8MB4'2024-01-01')))", ("p", None, ("739251",))),
    ("`d` DATETIME", "RANGE (YEAR(`d`)) (PARTITION `p` VALUES LESS THAN (YEAR(_UTF8MB4'2024-05-06')))", ("p", None, ("2024",))),
    ("`d` DATE", "RANGE (TO_DAYS(`d`)) (PARTITION `p` VALUES LESS THAN (TO_DAYS(DATE _UTF8MB4'2024-01-01')))", ("p", None, ("739251",))),
    ("`d` DATE", "RANGE COLUMNS (`d`) (PARTITION `p` VALUES LESS THAN (DATE _UTF8MB4'2024-01-01'))", ("p", None, ("2024-01-01",))),
    ("`d` TIMESTAMP", "RANGE (UNIX_TIMESTAMP(`d`)) (PARTITION `p` VALUES LESS THAN (UNIX_TIMESTAMP(_UTF8MB4'2024-01-01 00:00:00')))",
     ("p", None, ("2024-01-01 00:00:00",))),
    ("`d` VARCHAR(9)", "LIST COLUMNS (`d`) (PARTITION `p` VALUES IN (_UTF8MB4'a\\\\b',_UTF8MB4'o''k'))", ("p", (("a\\b",), ("o'k",)), False)),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "partitioning", "expected"), [*ROWS, *RESTORED])
def test_a_partition_follows_from_the_values_of_its_columns(columns, partitioning, expected):
    assert [expected] == parts(altered(table(columns, f"PARTITION BY {partitioning}"), "TRUNCATE PARTITION p"))


def test_the_columns_of_a_partitions_rows_are_those_before_the_statement():
    (effect,) = altered(ranged(), "TRUNCATE PARTITION p0").effects

    assert [(k.column.name, k.column.uid, k.function) for k in effect.partitions[0].keys] == [("id", 1, None)]


@pytest.mark.parametrize(
    ("cut", "found"),
    [
        ("HASH (e) (PARTITION p)", "the column e"),
        ("HASH (d + 1) (PARTITION p)", "partitions by d + 1"),
        ("KEY (e) (PARTITION p)", "the column e"),
        ("KEY (d) (PARTITION p)", "the TIMESTAMP column d"),
        ("KEY (t) (PARTITION p)", "another or no known collation of the column t"),
        ("KEY () (PARTITION p)", "neither columns nor a primary key"),
        ("KEY (b) (PARTITION q)", "no partition of that name"),
    ],
)
def test_a_refusal_says_what_was_found(cut, found):
    shape = table("d TIMESTAMP, t VARCHAR(9) COLLATE utf8mb4_general_ci, b INT", f"PARTITION BY {cut}")

    with pytest.raises(SchemaError) as refused:
        altered(shape, "TRUNCATE PARTITION p")

    assert refused.value.found == found


NOT_SHOWN = [
    ("d DATETIME", "HASH (YEARWEEK(d)) (PARTITION p)"),
    ("d TIME", "HASH (TIME_TO_SEC(d)) (PARTITION p)"),
    ("d TIMESTAMP(3)", "HASH (UNIX_TIMESTAMP(d)) (PARTITION p)"),
    ("d BIT(3)", "HASH (d) (PARTITION p)"),
    ("d INT AS (1) VIRTUAL", "HASH (d + 1) (PARTITION p)"),
    ("d INT", "HASH (d / 2) (PARTITION p)"),
    ("d INT", "HASH (d + 1.5) (PARTITION p)"),
    ("d INT", "HASH (e) (PARTITION p)"),
    ("d DATE", "HASH (d + 1) (PARTITION p)"),
    ("d INT", f"HASH ({'(' * 40}d + 1{')' * 40}) (PARTITION p)"),
    ("d INT", f"HASH ({'- ' * 40}d) (PARTITION p)"),
    ("d VARCHAR(9) COLLATE utf8mb4_general_ci", "KEY (d) (PARTITION p)"),
    ("d TIMESTAMP", "KEY (d) (PARTITION p)"),
    ("d DECIMAL(9,8)", "KEY (d) (PARTITION p)"),
    ("d INT NOT NULL UNIQUE", "KEY () (PARTITION p)"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01')))"),
    ("d DATE", "RANGE (YEAR(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01')))"),
    ("d TIMESTAMP", "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('not a time')))"),
    ("d DATE, e INT", "RANGE (d + e) (PARTITION p VALUES LESS THAN (7))"),
    ("d DATE", "RANGE (WEEK(d)) (PARTITION p VALUES LESS THAN (3))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (3 + 4))"),
    ("d INT", "RANGE (d) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (90)"),
    ("d INT AS (1) VIRTUAL", "RANGE (d) (PARTITION p VALUES LESS THAN (3))"),
    ("d TIME", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('10:00:00'))"),
    ("d VARBINARY(4)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN (x'41'))"),
    ("d VARCHAR(9) COLLATE utf8mb4_general_ci", "LIST COLUMNS (d) (PARTITION p VALUES IN ('a'))"),
    ("d INT, e INT", "RANGE COLUMNS (d, e) (PARTITION p VALUES LESS THAN (3))"),
    ("d BIT(8)", "RANGE (d) (PARTITION p VALUES LESS THAN (3))"),
    ("d VARCHAR(2)", "LIST COLUMNS (d) (PARTITION p VALUES IN ('abc'))"),
    ("d DATE", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('not a date'))"),
]


@pytest.mark.parametrize(("columns", "partitioning"), NOT_SHOWN)
def test_rows_of_an_unknown_partition_are_never_guessed(columns, partitioning):
    shape = table(columns, f"PARTITION BY {partitioning}")
    for text in ("TRUNCATE PARTITION p", "DROP PARTITION p"):
        with pytest.raises(SchemaError):
            altered(shape, text)


def test_partitions_added_to_ones_that_are_not_known_stay_unknown():
    shape = table(
        "d INT", "PARTITION BY RANGE (d) INTERVAL (9) FIRST PARTITION LESS THAN (9) LAST PARTITION LESS THAN (90)"
    )
    shape = altered(shape, "ADD PARTITION (PARTITION p VALUES LESS THAN (99))").shape

    with pytest.raises(SchemaError):
        altered(shape, "DROP PARTITION p")


def test_a_collation_set_later_counts():
    body, cut = "d VARCHAR(9), e INT", "PARTITION BY LIST COLUMNS (d) (PARTITION p VALUES IN ('a'))"
    for text in (
        "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "MODIFY d VARCHAR(9) COLLATE utf8mb4_unicode_ci",
    ):
        with pytest.raises(SchemaError):
            altered(altered(table(body, cut), text).shape, "TRUNCATE PARTITION p")

    kept = altered(table(body, cut), "DEFAULT COLLATE utf8mb4_general_ci, RENAME COLUMN e TO f").shape
    assert parts(altered(kept, "TRUNCATE PARTITION p")) == [("p", (("a",),), False)]


CUT = "PARTITION BY RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('m'), PARTITION q VALUES LESS THAN (MAXVALUE))"


@pytest.mark.parametrize(
    "options",
    [
        "CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
        "CHARSET=gbk",
        "CHARSET=gbk COLLATE=gbk_bin",
        "COLLATE=utf8mb4_0900_ai_ci",
        "CHARSET=unheard_of",
        "COLLATE=unheard_of_bin",
    ],
)
def test_text_under_a_collation_that_is_not_known_to_compare_as_the_lake_tells_no_rows(options):
    """`Z` is below `m` by code points and above it under utf8mb4_general_ci."""
    for text in (None, "MODIFY d VARCHAR(20)", "CHANGE d d VARCHAR(20)"):
        shape = table("d VARCHAR(9)", f"{options} {CUT}")
        if text is not None:
            shape = altered(shape, text).shape
        with pytest.raises(SchemaError):
            altered(shape, "DROP PARTITION p")


@pytest.mark.parametrize("options", ["", "CHARSET=utf8mb4", "CHARSET=latin1", "COLLATE=utf8mb4_0900_bin"])
def test_text_under_a_binary_collation_tells_the_rows(options):
    shape = table("d VARCHAR(9)", f"{options} {CUT}")

    assert [("p", None, ("m",))] == parts(altered(shape, "DROP PARTITION p"))
    assert [("p", None, ("m",))] == parts(altered(altered(shape, "MODIFY d VARCHAR(20)").shape, "DROP PARTITION p"))


def test_a_column_takes_its_own_collation_before_the_tables():
    folding, binary = "COLLATE=utf8mb4_general_ci", "COLLATE=utf8mb4_bin"

    assert parts(altered(table(f"d VARCHAR(9) {binary}", f"{folding} {CUT}"), "DROP PARTITION p"))
    assert parts(altered(table("d VARCHAR(9) CHARSET utf8mb4", f"{folding} {CUT}"), "DROP PARTITION p"))
    with pytest.raises(SchemaError):
        altered(table(f"d VARCHAR(9) {folding}", f"{binary} {CUT}"), "DROP PARTITION p")
