"""From when to when each row was valid."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import VALID_FROM, VALID_TO
from ticdc_assets.changes.row_versions import filled, row_versions


def changes(*rows: tuple[str, int, int, Any, str]) -> pa.Table:
    """Op, commit_ts, seq, key and value."""
    names = (layout.OP, layout.COMMIT_TS, layout.SEQ, "id", "name")
    columns = (
        dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}
    )
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string())
    table = pa.table({name: pa.array(columns[name], type_) for name, type_ in zip(names, types, strict=True)})
    return table.append_column(layout.TABLE_VERSION, pa.array([0] * len(table), pa.int64()))


def versions(table: pa.Table, *emptied: int) -> list[tuple[Any, ...]]:
    rows = row_versions(table, ["id"], emptied)
    return list(zip(*(rows[name].to_pylist() for name in ("id", "name", VALID_FROM, VALID_TO)), strict=True))


def test_a_row_is_valid_until_its_next_change():
    table = changes(
        ("D", 9, 1, 1, "b"), ("I", 5, 1, 1, "a"), ("U", 7, 1, 1, "b"), ("I", 6, 1, 2, "x"), ("I", 9, 1, 3, "y")
    )

    assert versions(table) == [(1, "a", 5, 7), (1, "b", 7, 9), (2, "x", 6, None), (3, "y", 9, None)]


def test_a_row_comes_back_after_its_delete():
    assert versions(changes(("I", 5, 1, 1, "a"), ("D", 6, 1, 1, "a"), ("I", 8, 1, 1, "b"))) == [
        (1, "a", 5, 6),
        (1, "b", 8, None),
    ]


def test_the_last_change_of_a_commit_makes_the_row():
    table = changes(
        ("I", 5, 1, 1, "a"), ("I", 7, 3, 1, "c"), ("D", 7, 2, 1, "a"), ("I", 8, 1, 2, "x"), ("D", 8, 2, 2, "x")
    )

    assert versions(table) == [(1, "a", 5, 7), (1, "c", 7, None)]


def test_a_statement_that_removes_all_rows_ends_those_up_to_its_tso():
    table = changes(
        ("I", 5, 1, 1, "a"), ("I", 6, 1, 2, "x"), ("U", 8, 1, 2, "y"), ("U", 9, 1, 1, "b"), ("I", 7, 1, 3, "z")
    )

    assert versions(table, 7, 20) == [(1, "a", 5, 7), (1, "b", 9, 20), (2, "x", 6, 7), (2, "y", 8, 20)]


def test_a_default_is_in_rows_that_existed_when_the_column_came():
    rows = row_versions(changes(("I", 5, 1, 1, "a"), ("U", 7, 1, 1, "b"), ("I", 9, 1, 2, "c")), ["id"])
    rows = rows.set_column(rows.schema.get_field_index(layout.TABLE_VERSION), layout.TABLE_VERSION, pa.array([0, 0, 8]))

    assert filled(rows, "name", 8, pa.scalar("new"))["name"].to_pylist() == ["a", "new", "c"]


def test_keys_may_have_several_columns_and_none_is_no_error():
    table = changes(("I", 5, 1, None, "a"), ("I", 6, 1, None, "a"), ("I", 7, 1, None, "b"))

    rows = row_versions(table, ["id", "name"])
    assert rows[VALID_TO].to_pylist() == [6, None, None]
    assert versions(changes()) == []
