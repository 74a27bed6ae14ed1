"""The difference of a table between two TSOs is that of its rows at both, however its changes are added."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.changes import layout
from ticdc_assets.changes.differences import (
    ADDED,
    CHANGE,
    CHANGED,
    CONVERTED,
    REMOVED,
    SENT,
    Changes,
    ComparedColumn,
    TsoRange,
    counts,
)

Change = tuple[int, str, int, int | None, int | None]  # commit_ts, operation, key, new and old value
COLUMNS = (ComparedColumn(1, "id", pa.int64()), ComparedColumn(2, "v", pa.int64()))
TIMES = 12
TYPES = pa.schema({
    layout.COMMIT_TS: pa.int64(), layout.OP: pa.string(), layout.SEQ: pa.int64(), layout.TABLE_VERSION: pa.int64(),
    SENT: pa.bool_(), **dict.fromkeys(("now.1", "now.2", "old.1", "old.2"), pa.int64()),
})  # fmt: skip


def batch(changes: list[Change], sent: bool, version: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                layout.COMMIT_TS: ts, layout.OP: op, layout.SEQ: number, layout.TABLE_VERSION: version,
                SENT: sent and op == "U", "now.1": key, "now.2": now,
                "old.1": key if sent and op == "U" else None, "old.2": old if sent and op == "U" else None,
            }
            for number, (ts, op, key, now, old) in enumerate(changes)
        ],
        TYPES,
    )  # fmt: skip


def added(
    of: TsoRange, batches: list[pa.Table], columns: tuple[ComparedColumn, ...] = COLUMNS, rows: int = 4
) -> Changes:
    changes = Changes(of, (1,), columns, fold_rows=rows)
    for each in batches:
        changes.add(each)
    return changes


def found(changes: Changes) -> list[tuple[str, int, Any, Any]]:
    """What differs by key: the old and the new value."""
    rows = changes.differences().to_pylist()
    return [(r[CHANGE], r["now.1"], r["old"] and r["old"]["v"], r["new"] and r["new"]["v"]) for r in rows]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], tuple[int, ...]]:
    """Changes of three keys in order, and the times at which all rows are removed."""
    emptied = tuple(sorted(draw(st.sets(st.integers(1, TIMES), max_size=2))))
    rows: dict[int, int | None] = {}
    changes: list[Change] = []
    for ts in range(1, TIMES + 1):
        rows = {} if ts - 1 in emptied else rows
        for key in draw(st.sets(st.integers(1, 3), max_size=2)):
            op = "I" if key not in rows else draw(st.sampled_from("UD"))
            now = rows[key] if op == "D" else draw(st.sampled_from([1, 2, None]))
            changes.append((ts, op, key, now, rows.get(key)))
            rows.pop(key, None)
            if op != "D":
                rows[key] = now
    return changes, emptied


def rows_at(changes: list[Change], emptied: tuple[int, ...], at: int) -> dict[int, int | None]:
    begin = max((ts for ts in emptied if ts <= at), default=0)
    rows: dict[int, int | None] = {}
    for ts, op, key, now, _ in changes:
        if begin < ts <= at:
            rows[key] = now
            if op == "D":
                del rows[key]
    return rows


@settings(deadline=None, max_examples=50)
@given(histories(), st.integers(0, TIMES), st.integers(0, TIMES), st.booleans(), st.integers(1, 7))
def test_differences_are_those_of_the_rows_at_both_times(
    history: tuple[list[Change], tuple[int, ...]], one: int, other: int, sent: bool, size: int
):
    """Of the changes up to the first time, those of keys that changed since are added."""
    (changes, emptied), after, until = history, min(one, other), max(one, other) + 1
    before, now = rows_at(changes, emptied, after), rows_at(changes, emptied, until)
    inside = tuple(ts for ts in emptied if after < ts <= until)
    since = max((ts for ts in emptied if ts <= after), default=0)
    touched = {key for ts, _, key, _, _ in changes if after < ts <= until}
    kept = [change for change in changes if change[0] > since and change[2] in touched]

    parts = [batch(kept[n : n + size], sent) for n in range(0, len(kept), size)]
    changed = added(TsoRange(after, until, inside), parts)

    wanted = [
        *((ADDED, key, None, now[key]) for key in now.keys() - before.keys()),
        *((REMOVED, key, before[key], None) for key in before.keys() - now.keys()),
        *((CHANGED, key, before[key], now[key]) for key in before.keys() & now.keys() if before[key] != now[key]),
    ]
    assert found(changed) == sorted((row for row in wanted if row[1] in touched), key=lambda row: row[1])


def test_after_a_drop_all_rows_with_changes_are_removed():
    sent = [(1, "I", 1, 5, None), (3, "U", 1, 6, 5), (4, "I", 2, 7, None)]

    changes = added(TsoRange(2, 9, is_over=True), [batch(sent, True)])

    assert found(changes) == [(REMOVED, 1, 5, None)]
    assert counts(changes.differences()) == {REMOVED: 1}


def test_without_changes_nothing_differs():
    changes = added(TsoRange(2, 9), [])

    assert (changes.keys_without_old_values(), changes.differences().num_rows, changes.held_bytes) == ([], 0, 0)


@pytest.mark.parametrize(
    ("is_upsert", "sent", "keys"), [(False, False, [2]), (False, True, []), (True, False, [1, 2]), (True, True, [1])]
)
def test_old_values_are_looked_for_where_the_first_change_may_be_an_update(is_upsert: bool, sent: bool, keys: list):
    changes = [(3, "I", 1, 5, None), (3, "U", 2, 5, 4), (3, "D", 3, 5, None), (4, "U", 1, 6, 5)]

    missing = added(TsoRange(2, 9, is_upsert=is_upsert), [batch(changes, sent)]).keys_without_old_values()

    assert [key for column in missing for key in column.to_pylist()] == keys


def test_older_rows_have_the_value_of_a_statement_and_none_after_a_conversion():
    older, newer = batch([(1, "I", 1, None, None), (1, "I", 2, 4, None)], True), [(6, "U", 1, 8, 8), (6, "U", 2, 8, 4)]
    filled = ComparedColumn(2, "v", pa.int64(), ((5, 8),))
    converted = ComparedColumn(2, "v", pa.int64(), ((5, CONVERTED),))

    unsent = [older, batch(newer, False, 5)]
    with_default = found(added(TsoRange(2, 9), unsent, (COLUMNS[0], filled)))
    unknown = found(added(TsoRange(2, 9), unsent, (COLUMNS[0], converted)))

    assert with_default == []
    assert unknown == [(CHANGED, 1, None, 8), (CHANGED, 2, None, 8)]


@pytest.mark.parametrize(
    ("was", "now", "differs"),
    [
        ([1.5, 2.0], [1.5, 2.0], False),
        ([1.5, 2.0], [2.0, 1.5], True),
        ([], None, True),
        (None, [], True),
        (None, None, False),
    ],
)
def test_lists_differ_by_their_items(was: list[float] | None, now: list[float] | None, differs: bool):
    of = pa.list_(pa.float32())
    rows = batch([(1, "I", 1, None, None), (3, "U", 1, None, None)], False)
    values = [pa.array([was, now], of), pa.nulls(2, of)]
    for name, array in zip(("now.2", "old.2"), values, strict=True):
        rows = rows.set_column(rows.schema.get_field_index(name), name, array)

    changed = added(TsoRange(2, 9), [rows], (COLUMNS[0], ComparedColumn(2, "v", of)))

    assert [kind for kind, *_ in found(changed)] == [CHANGED] * differs


def test_of_many_changes_of_a_key_few_are_held():
    ones = [batch([(ts, "I" if ts == 3 else "U", 1, 5, 5)], True) for ts in range(3, 103)]
    changes = added(TsoRange(2, 999), [], rows=8)
    held = []

    for one in ones:
        changes.add(one)
        held.append(changes.held_bytes)

    assert held[1] > ones[0].nbytes
    assert max(held) < 12 * ones[0].nbytes
