"""Rows whose values do not fit their columns: each is found, and all others are kept in order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.rows import bad_rows
from ticdc_assets.pipeline.rows.bad_rows import BadRow, rules_of_file, sound_changes
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.schema.history.histories import event

Cells = Sequence[str | None]
WRONG = "not a number"


def table(columns: str) -> TableSchema:
    [made] = fold([event(1, "t", f"CREATE TABLE `t` ({columns})")]).source_tables
    return made.newest


NUMBERS = table("`id` INT PRIMARY KEY, `v` INT")


def raw(names: tuple[str, ...], *rows: Cells, before: Sequence[Cells | None] | None = None) -> RawRows:
    """Updates with these new values, and old ones where given; records are numbered by tens."""
    count = len(rows)
    old = [cells if cells is not None else (None,) * len(names) for cells in before or ()]
    return RawRows(
        pa.array(["U"] * count),
        pa.array([5] * count, pa.int64()),
        pa.nulls(count, pa.int64()),
        pa.array([10 * number for number in range(count)], pa.int64()),
        names,
        tuple(pa.array([row[n] for row in rows], pa.string()) for n in range(len(names))),
        tuple(pa.array([row[n] for row in old], pa.string()) for n in range(len(names))) if before else None,
        pa.array([cells is not None for cells in before]) if before else None,
    )


def found(rows: RawRows, of: TableSchema = NUMBERS, zero_dates: bool = True) -> tuple[list[object], list[BadRow]]:
    """The records of the changes that are kept, and the others."""
    changes, bad = sound_changes(rows, rules_of_file("a file", of, TextForms("base64", "label"), zero_dates))
    return changes.line.to_pylist(), bad


@pytest.mark.parametrize("wrong", [(), (0,), (4,), (2, 3), (0, 1, 2, 3, 4), (1, 4)])
def test_each_bad_row_is_found_and_the_others_stay_in_order(wrong: tuple[int, ...]):
    rows = [(str(number), WRONG if number in wrong else "7") for number in range(5)]

    kept, bad = found(raw(("id", "v"), *rows))

    assert kept == [10 * number for number in range(5) if number not in wrong]
    assert [row.line for row in bad] == [10 * number for number in wrong]
    assert [str(row.fault).partition(":")[0] for row in bad] == [
        f"a file, record {10 * number}, column 'v'" for number in wrong
    ]
    assert not any(WRONG in str(row.fault) for row in bad)


def test_a_file_may_have_so_many_bad_rows_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bad_rows, "BAD_RECORDS_MAX", 5)
    at_most, too_many = ([(str(n), WRONG if n < count else "7") for n in range(8)] for count in (5, 6))

    assert len(found(raw(("id", "v"), *at_most))[1]) == 5
    with pytest.raises(DecodeError, match="at least 6 others"):
        found(raw(("id", "v"), *too_many))


def test_an_old_value_that_does_not_fit_makes_its_row_bad():
    rows = raw(("id", "v"), ("1", "1"), ("2", "2"), ("3", "3"), before=[None, ("2", WRONG), ("3", "0")])

    kept, bad = found(rows)

    assert kept == [0, 20]
    assert [(row.line, row.has_before) for row in bad] == [(10, True)]
    assert not found(raw(("id", "v"), ("1", WRONG)))[1][0].has_before
    assert not found(raw(("id", "v"), ("1", WRONG), before=[None]))[1][0].has_before


DATED = table("`id` INT PRIMARY KEY, `d` DATE")


def test_a_zero_date_is_a_fault_where_the_config_says_so():
    rows = raw(("id", "d"), ("1", "2025-01-01"), ("2", "0000-00-00"), ("3", None))

    assert found(rows, DATED) == ([0, 10, 20], [])
    kept, [bad] = found(rows, DATED, zero_dates=False)
    assert (kept, bad.line) == ([0, 20], 10)
    assert "column 'd'" in str(bad.fault)
    assert "a zero date" in str(bad.fault)


@pytest.mark.parametrize(
    ("rows", "before", "lines"),
    [
        ([("1", "1"), (None, "2")], None, [10]),
        ([("1", "1"), ("2", "2")], [None, (None, "2")], [10]),
        ([("1", "1"), ("2", "2")], [None, None], []),
    ],
)
def test_a_row_without_a_value_in_its_key_is_bad_whether_it_is_the_new_or_the_old_one(
    rows: list[Cells], before: list[Cells | None] | None, lines: list[int]
):
    kept, bad = found(raw(("id", "v"), *rows, before=before))

    assert [row.line for row in bad] == lines
    assert len(kept) + len(bad) == len(rows)
    assert all("column 'id'" in str(row.fault) and "it is of the key" in str(row.fault) for row in bad)


def test_a_column_without_a_key_may_be_null():
    assert found(raw(("id", "v"), ("1", None))) == ([0], [])


def test_rows_without_a_key_column_are_bad():
    kept, bad = found(raw(("v",), ("1",)))

    assert kept == []
    assert "column 'id'" in str(bad[0].fault)
