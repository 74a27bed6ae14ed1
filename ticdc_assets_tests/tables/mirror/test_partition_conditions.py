"""The rows of a partition, found by SQL as TiDB places them: text compares by its collation, NULL is below all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.schema.evolution.schema_state import DeletePartitions
from ticdc_assets.tables.mirror.partition_conditions import rows_condition
from ticdc_assets_tests.schema.evolution.schema_states import altered, table
from ticdc_assets_tests.tables.expressions import frame_of

TEXTS = [None, *("".join(parts) for n in range(4) for parts in product("a \t!", repeat=n))]
BOUNDS = ["a", "a ", "a!", "", " ", "a\t", "a \t", "a !"]
# What texts are compared by: only some collations count blanks at the end.
_ORDERS: dict[str, Callable[[str], str]] = {
    "utf8mb4_bin": lambda text: text.rstrip(" "),
    "utf8mb4_0900_bin": lambda text: text,
}


def condition(collation: str, partitioning: str, name: str) -> str:
    shape = table(f"d VARCHAR(9) COLLATE {collation}, e INT", f"PARTITION BY {partitioning}")
    [effect] = altered(shape, f"TRUNCATE PARTITION {name}").effects
    assert isinstance(effect, DeletePartitions)
    return rows_condition(effect.partitions, "UTC")


def cases() -> list[tuple[str, set[str | None]]]:
    """Conditions, and the texts of the rows that are meant."""
    found = []
    for (collation, key), bound in product(_ORDERS.items(), BOUNDS):
        below = {t for t in TEXTS if t is None or key(t) < key(bound)}
        same = {t for t in TEXTS if t is not None and key(t) == key(bound)}
        ranged = f"RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('{bound}'), PARTITION m VALUES LESS THAN MAXVALUE)"
        listed = f"LIST COLUMNS (d) (PARTITION p VALUES IN ('{bound}'), PARTITION m DEFAULT)"
        nulls = f"LIST COLUMNS (d) (PARTITION p VALUES IN ('{bound}', NULL), PARTITION m DEFAULT)"
        both = f"RANGE COLUMNS (d, e) (PARTITION p VALUES LESS THAN ('{bound}', 2), PARTITION q VALUES LESS THAN ('{bound}', 4))"  # noqa: E501
        found += [
            (condition(collation, ranged, "p"), below),
            (condition(collation, ranged, "m"), set(TEXTS) - below),
            (condition(collation, listed, "p"), same),
            (condition(collation, listed, "m"), set(TEXTS) - same),
            (condition(collation, nulls, "p"), same | {None}),
            (condition(collation, nulls, "m"), set(TEXTS) - same - {None}),
            (condition(collation, both, "p"), below),  # e is 3 in all rows
            (condition(collation, both, "q"), same),
        ]
    return found


@pytest.mark.spark
def test_the_rows_of_a_partition_are_those_that_its_collation_puts_there(tmp_path: Path):
    frame = frame_of(pa.table({"d": pa.array(TEXTS, pa.string()), "e": [3] * len(TEXTS)}), tmp_path)
    expected = cases()

    flags = frame.selectExpr("d", *(f"({sql}) AS c{n}" for n, (sql, _) in enumerate(expected))).toArrow().to_pydict()

    wrong = [
        (sql, texts ^ held)
        for n, (sql, texts) in enumerate(expected)
        if texts != (held := {t for t, flag in zip(flags["d"], flags[f"c{n}"], strict=True) if flag})
    ]
    assert wrong == []


MANY = 20_000


@pytest.mark.long
@pytest.mark.spark
def test_a_list_may_have_as_many_values_as_tidb_takes(tmp_path: Path):
    """A chain of conditions of this length overflows the stack of Spark."""
    numbers = ", ".join(str(number) for number in range(MANY))
    pairs = ", ".join(f"('{number}', {number})" for number in range(MANY // 10))
    conditions = [
        condition("utf8mb4_bin", f"LIST COLUMNS ({of}) (PARTITION p VALUES IN ({values}), PARTITION m DEFAULT)", name)
        for of, values in (("e", numbers), ("d, e", pairs), ("d, e", f"(NULL, 1), ('7 ', NULL), {pairs}"))
        for name in "pm"
    ]
    rows = [("1", 1), ("7 ", 7), ("7", None), (None, 1), (None, None), ("2", 3), ("x", MANY)]
    frame = frame_of(pa.table({"d": [d for d, _ in rows], "e": pa.array([e for _, e in rows], pa.int32())}), tmp_path)

    found = [[(row.d, row.e) for row in frame.where(sql).collect()] for sql in conditions]

    numbered = [rows[i] for i in (0, 1, 3, 5)]
    paired, with_nulls = rows[:2], rows[:4]
    expected = [numbered, paired, with_nulls]
    assert found == [part for these in expected for part in (these, [row for row in rows if row not in these])]
