"""The Arrow form of changes: values by type, key-changing updates as two changes, system columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.changes import layout
from ticdc_assets.changes.typed import (
    Reading,
    TypedChanges,
    changelog_table,
    commit_time,
    concat,
    seq_of,
    split_key_moves,
    text_reading,
    with_types,
)
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column

FORMS = TextForms(binary="base64", enum="label")
COLUMNS = (Column("id", parse_type("INT")), Column("d", parse_type("DATE")), Column("v", parse_type("VARCHAR(9)")))


def typed(raw: RawRows, columns: Sequence[Column], unique: Sequence[str], forms: TextForms) -> TypedChanges:
    """The changes of rows of text, by the names of their columns."""
    where = {name: number for number, name in enumerate(raw.columns)}
    changes = with_types(raw, columns, [where.get(column.name) for column in columns], text_reading(forms))
    return split_key_moves(changes, unique)


Row = tuple[str, tuple[Any, ...], tuple[Any, ...] | None]
"""Op, new values and old values of a change, as text."""


def raw(rows: list[Row], names: tuple[str, ...] = ("id", "d", "v"), old_values: bool = True) -> RawRows:
    def texts(images: list[tuple[Any, ...] | None]) -> tuple[pa.Array, ...]:
        return tuple(pa.array([i and i[n] for i in images], pa.string()) for n in range(len(names)))

    count = len(rows)
    return RawRows(
        op=pa.array([op for op, _, _ in rows], pa.string()),
        commit_ts=pa.array([100 + n for n in range(count)], pa.int64()),
        commit_ms=pa.nulls(count, pa.int64()),
        line=pa.array(range(count), pa.int64()),
        columns=names,
        wire=texts([now for _, now, _ in rows]),
        before=texts([before for _, _, before in rows]) if old_values else None,
        has_before=pa.array([before is not None for _, _, before in rows], pa.bool_()) if old_values else None,
    )


def listed(changes: TypedChanges) -> list[tuple[Any, ...]]:
    """Op, line, half, new values and, where there are any, old values of each change."""
    now = list(zip(*(array.to_pylist() for array in changes.now), strict=True))
    before = list(zip(*(array.to_pylist() for array in changes.before), strict=True))
    old = [b if has else None for b, has in zip(before, changes.has_before.to_pylist(), strict=True)]
    system = (changes.op.to_pylist(), changes.line.to_pylist(), changes.half.to_pylist())
    return list(zip(*system, now, old, strict=True))


def test_an_update_that_changes_a_key_is_a_delete_and_an_insert_of_one_line():
    rows: list[Row] = [
        ("I", ("1", None, "a"), None),
        ("U", ("2", None, "a"), ("1", None, "a")),
        ("U", ("2", None, "b"), ("2", None, "a")),
        ("U", ("3", None, "c"), None),
        ("D", ("2", None, "b"), ("2", None, "b")),
    ]

    assert listed(typed(raw(rows), COLUMNS, ("id",), FORMS)) == [
        ("I", 0, 0, (1, None, "a"), None),
        ("D", 1, 0, (1, None, "a"), None),
        ("I", 1, 1, (2, None, "a"), None),
        ("U", 2, 0, (2, None, "b"), (2, None, "a")),
        ("U", 3, 0, (3, None, "c"), None),
        ("D", 4, 0, (2, None, "b"), (2, None, "b")),
    ]


@pytest.mark.parametrize(
    ("unique", "now", "before", "moves"),
    [
        (("v",), ("1", None, "a"), ("1", None, "b"), True),
        (("v",), ("1", None, "a"), ("1", None, None), True),
        (("v",), ("1", None, None), ("1", None, "a"), True),
        (("v",), ("1", None, None), ("1", None, None), False),
        (("v",), ("2", None, "a"), ("1", None, "a"), False),
        (("id", "v"), ("2", None, "a"), ("1", None, "a"), True),
        (("id", "v"), ("1", "2024-01-01", "a"), ("1", None, "a"), False),
        ((), ("2", None, "a"), ("1", None, "b"), False),
    ],
)
def test_an_update_moves_a_key_where_a_column_of_a_unique_key_differs(
    unique: tuple[str, ...], now: tuple[Any, ...], before: tuple[Any, ...], moves: bool
):
    found = typed(raw([("U", now, before)]), COLUMNS, unique, FORMS)

    assert found.op.to_pylist() == (["D", "I"] if moves else ["U"])


def test_old_values_that_were_not_sent_move_no_key():
    rows: list[Row] = [("U", ("2", None, "a"), None), ("U", ("3", None, "a"), None)]

    without = typed(raw(rows, old_values=False), COLUMNS, ("id",), FORMS)

    assert listed(without) == listed(typed(raw(rows), COLUMNS, ("id",), FORMS))
    assert without.op.to_pylist() == ["U", "U"]
    assert all(array.null_count == 2 for array in without.before)


VALUES = st.tuples(st.integers(0, 3).map(str), st.sampled_from([None, "2024-01-01"]), st.sampled_from([None, "a", "b"]))
ROWS = st.lists(
    st.one_of(st.tuples(st.sampled_from("ID"), VALUES, st.none()), st.tuples(st.just("U"), VALUES, st.none() | VALUES)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(ROWS, st.sampled_from([(), ("id",), ("v",), ("id", "v")]))
def test_changes_come_to_the_same_rows_however_many_are_typed_at_once(rows: list[Row], unique: tuple[str, ...]):
    """More rows than go through one cast, each row alone, and parts put together."""
    whole = typed(raw(rows), COLUMNS, unique, FORMS)
    many = typed(raw(rows * (1 + 1000 // len(rows))), COLUMNS, unique, FORMS)
    parts = concat([typed(raw(rows[:1]), COLUMNS, unique, FORMS), typed(raw(rows[1:]), COLUMNS, unique, FORMS)])

    def without_lines(changes: TypedChanges) -> list[tuple[Any, ...]]:
        return [(op, *rest) for op, _, *rest in listed(changes)]

    assert without_lines(many)[: len(whole)] == without_lines(whole) == without_lines(parts)
    assert len(parts) == len(whole)


def test_a_column_that_the_rows_lack_is_null():
    found = typed(raw([("I", ("7", "x"), None)], ("id", "v")), COLUMNS, (), FORMS)

    assert [array.to_pylist() for array in found.now] == [[7], [None], ["x"]]
    assert found.zero_dates == 0


def test_new_and_old_values_may_be_sent_in_different_forms():
    """As numbers and as text, for instance; the texts of both are cast together where their forms are alike."""
    rows = raw([("U", ("7", None, "x"), ("6", None, "w")), ("I", ("8", None, "y"), None)])
    mixed = replace(rows, wire=(rows.wire[0].cast(pa.int64()), *rows.wire[1:]))

    def cast(column: Column, values: pa.Array) -> pa.Array:
        return values.cast(arrow_type(column.type))

    for each in (rows, mixed):
        found = with_types(each, COLUMNS, range(3), Reading(cast, "UTC"))
        assert [array.to_pylist() for array in found.now] == [[7, 8], [None, None], ["x", "y"]]
        assert [array.to_pylist() for array in found.before] == [[6, None], [None, None], ["w", None]]


def test_a_column_that_the_rows_lack_is_null_in_the_old_values():
    rows: list[Row] = [("U", ("7", "x"), ("6", "w")), ("I", ("8", "y"), None)]

    found = typed(raw(rows, ("id", "v")), COLUMNS, (), FORMS)

    assert [array.to_pylist() for array in found.now] == [[7, 8], [None, None], ["x", "y"]]
    assert [array.to_pylist() for array in found.before] == [[6, None], [None, None], ["w", None]]


def test_dates_that_no_calendar_has_are_null_and_counted():
    rows: list[Row] = [
        ("I", (str(n), text, "0000-00-00"), None) for n, text in enumerate(["0000-00-00", None, "2024-00-01"])
    ]

    found = typed(raw(rows), COLUMNS, (), FORMS)

    assert found.now[1].null_count == 3
    assert found.zero_dates == 2
    assert concat([found, found]).zero_dates == 4
    assert concat([found]) is found


def test_a_value_that_its_column_cannot_hold_is_refused():
    for count in (1, 1001):
        rows: list[Row] = [("I", ("1", None, "a"), None)] * (count - 1) + [("I", ("x", None, "a"), None)]
        with pytest.raises(DecodeError):
            typed(raw(rows), COLUMNS, (), FORMS)


# -- system columns ----------------------------------------------------------------------------------------------------


def test_the_time_of_a_commit_is_that_of_its_ts_else_the_one_that_the_stream_tells():
    changes = typed(raw([("I", ("1", None, "a"), None)] * 3), COLUMNS, (), FORMS)
    ms = [1_700_000_000_123, 1_600_000_000_456]
    changes = replace(
        changes,
        commit_ts=pa.array([(ms[0] << 18) + 5, None, None], pa.int64()),
        commit_ms=pa.array([None, ms[1], None], pa.int64()),
    )

    assert commit_time(changes).to_pylist() == [
        datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
        datetime(2020, 9, 13, 12, 26, 40, 456000, tzinfo=UTC),
        None,
    ]


def test_changes_are_numbered_inside_their_commit_unless_one_has_none():
    rows: list[Row] = [("U", ("2", None, "a"), ("1", None, "a")), ("I", ("3", None, "a"), None)]
    changes = typed(raw(rows), COLUMNS, ("id",), FORMS)
    by_arrival = [(4 << 32) + 0, (4 << 32) + 1, (4 << 32) + 2]

    assert seq_of(changes, 4).to_pylist() == [by_arrival[0], *((1 << 62) + seq for seq in by_arrival[1:])]
    assert seq_of(changes, 4, by_arrival=True).to_pylist() == by_arrival
    untimed = replace(changes, commit_ts=pa.array([100, 100, None], pa.int64()))
    assert seq_of(untimed, 4).to_pylist() == by_arrival


def test_a_row_of_a_changelog_has_its_system_columns_old_values_and_new_values():
    changes = typed(raw([("I", ("1", None, "a"), None), ("U", ("1", None, "b"), ("1", None, "a"))]), COLUMNS, (), FORMS)
    values = [pa.field("id", pa.int64()), pa.field("d", pa.date32()), pa.field("v", pa.string())]
    system = [pa.field(name, of) for name, of in layout.SYSTEM_COLUMNS]
    schema = pa.schema([*system, pa.field(layout.BEFORE, pa.struct(values)), *values])

    table = changelog_table(changes, pa.array([8, 9]), 77, schema)

    assert table.schema == schema
    assert table.drop_columns([layout.COMMIT_TIME]).to_pylist() == [
        {layout.OP: "I", layout.COMMIT_TS: 100, layout.SEQ: 8, layout.TABLE_VERSION: 77, layout.BEFORE: None,
         "id": 1, "d": None, "v": "a"},
        {layout.OP: "U", layout.COMMIT_TS: 101, layout.SEQ: 9, layout.TABLE_VERSION: 77,
         layout.BEFORE: {"id": 1, "d": None, "v": "a"}, "id": 1, "d": None, "v": "b"},
    ]  # fmt: skip
    inserts = typed(raw([("I", ("1", None, "a"), None)] * 2), COLUMNS, (), FORMS)
    assert changelog_table(inserts, pa.array([8, 9]), 77, schema).column(layout.BEFORE).null_count == 2
