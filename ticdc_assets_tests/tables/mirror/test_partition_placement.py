"""Rows are found in the partition that a real TiDB put them into (`record_partitions` asked it)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution.schema_state import DeletePartitions, Shape
from ticdc_assets.tables.conversion.literals import typed_literal
from ticdc_assets.tables.mirror.partition_conditions import doubt_condition, rows_condition
from ticdc_assets_tests.schema.evolution.schema_states import altered, table
from ticdc_assets_tests.tables.expressions import frame_of

ZONE: Final = "Asia/Shanghai"  # the session that made the tables was in
RECORDED: Final = json.loads((Path(__file__).parent / "placed_rows.json").read_text())


def named(text: str, number: int) -> str:
    """The text with columns that no other table has."""
    return re.sub(r"\b([ab])\b", rf"\g<1>{number}", text)


def shape_of(number: int, recorded: dict[str, Any]) -> Shape:
    return table(named(recorded["columns"], number), f"PARTITION BY {named(recorded['cut'], number)}")


def condition(shape: Shape, partition: str) -> str:
    [effect] = altered(shape, f"TRUNCATE PARTITION {partition}").effects
    assert isinstance(effect, DeletePartitions)
    return rows_condition(effect.partitions, ZONE)


@pytest.mark.spark
def test_rows_are_in_the_partition_where_tidb_has_them(tmp_path: Path) -> None:
    shapes = [shape_of(n, recorded) for n, recorded in enumerate(RECORDED)]
    columns = {}
    for shape, recorded in zip(shapes, RECORDED, strict=True):
        for place, column in enumerate(shape.table.columns):
            texts = [row[place] for row in recorded["rows"]]
            values = [None if t is None else typed_literal(column.name, column.type, t, ZONE) for t in texts]
            columns[column.name] = pa.array(values, arrow_type(column.type))
    cases = [
        (recorded["columns"], recorded["cut"], name, set(rows), condition(shape, name))
        for shape, recorded in zip(shapes, RECORDED, strict=True)
        for name, rows in recorded["partitions"].items()
    ]
    frame = frame_of(pa.table(columns), tmp_path)

    flags = frame.selectExpr(*(f"({sql}) AS c{n}" for n, (*_, sql) in enumerate(cases))).toArrow()

    found = [{n for n, flag in enumerate(flags.column(f"c{c}").to_pylist()) if flag} for c in range(len(cases))]
    wrong = [(*case[:3], case[3] ^ held) for case, held in zip(cases, found, strict=True) if held != case[3]]
    assert wrong == []
    assert len(cases) > 200


DATES: Final = [
    ("d DATE", "HASH (YEAR(d)) PARTITIONS 3", False),
    ("d DATE", "HASH (YEAR(d) + 1) PARTITIONS 3", True),
    ("d DATE, e INT", "HASH (e) PARTITIONS 3", False),
    ("d DATE", "KEY (d) PARTITIONS 3", True),
    ("d DATE", "RANGE (YEAR(d) * 2) (PARTITION p0 VALUES LESS THAN (4048))", True),
]


@pytest.mark.parametrize(("columns", "cut", "doubtful"), DATES)
def test_a_date_that_became_null_is_not_looked_for_where_null_is(columns: str, cut: str, doubtful: bool) -> None:
    [effect] = altered(table(columns, f"PARTITION BY {cut}"), "TRUNCATE PARTITION p0").effects

    assert isinstance(effect, DeletePartitions)
    assert doubt_condition(effect.partitions) == ("`d` IS NULL" if doubtful else None)
