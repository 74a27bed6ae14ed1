"""The schemas that a task infers from rows: which are reported, and which are new to the stream."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.stream.decode import row_schemas
from ticdc_assets.pipeline.stream.decode.row_schemas import Shapes, merged_schemas
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.schema.history.histories import event


def table(columns: str) -> TableSchema:
    [made] = fold([event(1, "t", f"CREATE TABLE `t` ({columns})")]).source_tables
    return made.newest


ID, ID_V = table("`id` INT PRIMARY KEY"), table("`id` INT PRIMARY KEY, `v` INT")
TEXT = table("`id` INT PRIMARY KEY, `v` VARCHAR(9)")


def inferred(ts: int, of: TableSchema, name: str = "t", query: str = "") -> DdlEvent:
    return DdlEvent(ts, "shop", name, query, after=of)


def columns(found: list[DdlEvent]) -> list[tuple[int, str, list[str]]]:
    return [(e.commit_ts, e.table, [c.name for c in e.after.columns]) for e in found if e.after is not None]


def test_schemas_of_one_table_and_time_are_one_with_the_columns_of_both():
    assert columns(merged_schemas([inferred(7, ID), inferred(5, ID), inferred(5, ID_V), inferred(5, ID, "u")], [])) == [
        (5, "t", ["id", "v"]),
        (5, "u", ["id"]),
        (7, "t", ["id"]),
    ]


def test_the_first_of_contradicting_schemas_is_taken():
    [found] = merged_schemas([inferred(5, ID_V), inferred(5, TEXT)], [])

    assert found.after == ID_V


def test_a_schema_that_the_stream_has_already_is_not_new_and_a_statement_is_no_such_schema():
    sent = [inferred(5, ID_V), inferred(6, ID)]

    assert columns(merged_schemas(sent, [inferred(5, ID)])) == [(6, "t", ["id"])]
    assert columns(merged_schemas(sent, [inferred(5, ID, query="ALTER TABLE `t` ADD COLUMN `v` INT")])) == [
        (5, "t", ["id", "v"]),
        (6, "t", ["id"]),
    ]


def test_each_set_of_columns_and_types_is_reported_once_from_its_earliest_row(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(row_schemas, "SHAPES_MAX", 2)
    shapes = Shapes()
    for ts, of in ((9, ID), (7, ID_V), (8, ID), (8, ID_V), (1, TEXT)):
        shapes.add(inferred(ts, of))

    assert [(e.commit_ts, e.after) for e in shapes.events()] == [(8, ID), (7, ID_V)]
