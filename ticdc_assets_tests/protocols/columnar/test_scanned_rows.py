"""Texts of a batch by their tables, and rows from what a scan found of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ticdc_assets.protocols.columnar import scanned_rows
from ticdc_assets.protocols.columnar.scanned_rows import (
    COMMIT_MS,
    COMMIT_TS,
    HAS_OLD,
    OP,
    by_table,
    number_of,
    raw_rows,
    table_names,
    with_old,
)
from ticdc_assets.protocols.formats.json.texts import ScannedTexts
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, NOT_SENT


def names_of(*names: tuple[str | None, str | None]) -> tuple[Any, Any]:
    """The bytes of these names, and where each of them is."""
    data, places = b"", []
    for name in names:
        for part in name:
            places.append((IS_NULL, 0) if part is None else (len(data), len(data) + len(part)))
            data += (part or "").encode()
    return np.frombuffer(data + b"\0", np.uint8), np.array(places, np.int64).reshape(-1, 2, 2)


def test_each_text_has_one_of_the_names_of_its_batch():
    given = [("s", "t"), ("r", "t"), ("s", "u"), ("s", "t"), ("t", "s"), ("r", "u")]

    names, number = table_names(*names_of(*given))

    assert [names[n] for n in number.tolist()] == given
    assert len(names) == len(set(given))


@pytest.mark.parametrize("versions", [None, [1, 1, 2, 1, 2, 1], [5, 4, 3, 2, 1, 0]])
def test_texts_are_grouped_by_table_and_version(versions: list[int] | None):
    given = [("s", "t"), ("r", "t"), ("s", "t"), ("s", "t"), ("r", "t"), ("s", "u")]
    wanted: dict[Any, list[int]] = {}
    for place, name in enumerate(given):
        wanted.setdefault((name, versions and versions[place]), []).append(place)

    found = list(by_table(*names_of(*given), None if versions is None else np.array(versions)))

    assert sorted((name, places.tolist()) for name, places in found) == sorted(
        (name, places) for (name, _), places in wanted.items()
    )
    assert list(by_table(*names_of())) == []


def test_of_very_many_tables_those_with_few_texts_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scanned_rows, "_TABLES_MAX", 3)
    monkeypatch.setattr(scanned_rows, "_ROWS_MIN", 2)
    three = [("s", "a"), ("s", "b"), ("s", "b"), ("s", "c"), ("s", "c"), ("s", "c")]

    assert [name for name, _ in by_table(*names_of(*three))] == [("s", "a"), ("s", "b"), ("s", "c")]
    assert [name for name, _ in by_table(*names_of(*three, ("s", "d")))] == [("s", "b"), ("s", "c")]


DATA = b"abcdef\0"


def scan_texts(*rows: tuple[str, int, list[tuple[int, int]], list[tuple[int, int]]]) -> ScannedTexts:
    """Rows of an operation, whether they have old values, and the places of their new and old values."""
    numbers = np.full((len(rows), 6), -1, np.int64)
    numbers[:, OP] = [ord(op) for op, *_ in rows]
    numbers[:, HAS_OLD] = [has_old for _, has_old, *_ in rows]
    numbers[:, COMMIT_TS] = range(len(rows))
    images = np.array([[new for *_, new, _ in rows], [old for *_, old in rows]], np.int32)
    nothing = np.zeros(0, np.int64)
    return ScannedTexts(np.arange(len(rows)), nothing, numbers, np.zeros((len(rows), 2, 2), np.int32), images, images)


A, B, C, NULL, MISSING = (0, 1), (1, 2), (2, 3), (IS_NULL, 0), (NOT_SENT, 0)
ROWS = scan_texts(
    ("I", 0, [A, B], [C, C]), ("U", 1, [B, NULL], [A, MISSING]), ("U", 0, [C, A], [A, A]), ("D", 1, [A, A], [B, B])
)


def test_only_updates_have_old_values_and_what_was_not_sent_of_them_is_as_in_the_new_row():
    rows = raw_rows(np.frombuffer(DATA, np.uint8), ROWS, ("x", "y"), np.array([7, 8, 9, 10]))

    assert with_old(ROWS).tolist() == [False, True, False, False]
    assert rows.op.to_pylist() == ["I", "U", "U", "D"]
    assert [array.to_pylist() for array in rows.wire] == [["a", "b", "c", "a"], ["b", None, "a", "a"]]
    assert rows.before is not None
    assert [array.to_pylist() for array in rows.before] == [[None, "a", None, None], [None] * 4]
    assert rows.has_before is not None
    assert rows.has_before.to_pylist() == [False, True, False, False]
    assert (rows.line.to_pylist(), rows.columns, rows.sent) == ([7, 8, 9, 10], ("x", "y"), None)


def test_a_number_that_a_row_does_not_have_is_null():
    assert number_of(ROWS, COMMIT_TS).to_pylist() == [0, 1, 2, 3]
    assert number_of(ROWS, COMMIT_MS).to_pylist() == [None] * 4


def test_columns_that_a_row_does_not_send_are_told():
    rows = raw_rows(
        np.frombuffer(DATA, np.uint8),
        scan_texts(("I", 0, [A, MISSING], [A, A]), ("I", 0, [NULL, B], [A, A])),
        ("x", "y"),
        np.array([0, 1]),
    )

    assert [array.to_pylist() for array in rows.wire] == [["a", None], [None, "b"]]
    assert rows.sent is not None
    assert [array.to_pylist() for array in rows.sent] == [[True, True], [False, True]]
