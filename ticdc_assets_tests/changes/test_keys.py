"""A key value is a fault exactly if the lake cannot distinguish it from another one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.changes.identity import NULL, NUMBER_ZERO, ZERO_DATE, fault_in_key, key_columns, may_have_faults
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column


def column(written: str, name: str = "k") -> Column:
    return Column(name, parse_type(written))


FAULTS = [
    ("DATE", None, None, NULL),
    ("DATE", "0000-00-00", None, ZERO_DATE),
    ("DATE", "2024-01-01", date(2024, 1, 1), None),
    ("INT", "0", 0, None),
    ("ENUM('','x')", 0, "", NUMBER_ZERO),
    ("ENUM('','x')", "0", "", NUMBER_ZERO),
    ("ENUM('','x')", 1, "", None),
    ("ENUM('','x')", "1", "", None),
    ("ENUM('','x')", "", "", None),
    ("ENUM('','x')", 2, "x", None),
    ("ENUM('0','')", "0", "0", None),
    ("ENUM('x')", 0, "", None),
    ("SET('','x')", 0, "", NUMBER_ZERO),
    ("ENUM", "0", "0", None),
    ("VARCHAR(3)", "0", "", None),
]


@pytest.mark.parametrize(("written", "wire", "value", "fault"), FAULTS)
def test_a_key_value_has_the_fault_that_makes_it_read_like_another(written: str, wire: Any, value: Any, fault: Any):
    assert fault_in_key(column(written), wire, value, "UTC") == fault


def test_the_columns_of_a_key_are_found_without_regard_to_case():
    columns = [column("INT", name) for name in ("a", "B", "c")]

    assert key_columns(columns, ["C", "b"]) == [1, 2]
    assert key_columns(columns, []) == []


def changes(written: str, now: list[Any], before: list[Any], has_before: list[bool]) -> TypedChanges:
    """Changes whose key is `k`; `other` has every value that would be a fault in a key."""
    columns = (column("ENUM('','x')", "other"), column(written))
    of = arrow_type(columns[1].type)
    count = len(now)
    numbers = pa.array(np.arange(count))
    others = pa.array([None, *[""] * (count - 1)], pa.string())
    return TypedChanges(
        columns, pa.array(["U"] * count), numbers, numbers, numbers, numbers,
        (others, pa.array(now, of)), (others, pa.array(before, of)), pa.array(has_before), 0,
    )  # fmt: skip


MAY = [
    ("INT", [1, 2], [None, None], [False, False], False),
    ("INT", [1, 2], [None, 3], [False, True], False),
    ("INT", [1, None], [None, None], [False, False], True),
    ("INT", [1, 2], [3, None], [False, True], True),
    ("ENUM('','x')", ["x", "x"], [None, "x"], [False, True], False),
    ("ENUM('','x')", ["x", ""], [None, "x"], [False, True], True),
    ("ENUM('','x')", ["x", "x"], [None, ""], [False, True], True),
    ("ENUM('a','x')", ["x", ""], [None, "x"], [False, True], False),
    ("VARCHAR(3)", ["", ""], [None, ""], [False, True], False),
]


@pytest.mark.parametrize(("written", "now", "before", "has_before", "may"), MAY)
def test_changes_may_have_faults_where_a_new_or_old_key_is_null_or_reads_alike(
    written: str, now: list[Any], before: list[Any], has_before: list[bool], may: bool
):
    assert may_have_faults(changes(written, now, before, has_before), ["K"], "UTC") is may
    assert may_have_faults(changes(written, now, before, has_before), [], "UTC") is False


ONCE = datetime(2024, 11, 3, 12, tzinfo=UTC)
TWICE = datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
"""01:30 in New York, for the first time."""


@pytest.mark.parametrize(
    ("zone", "now", "before", "may"),
    [
        ("America/New_York", ONCE, ONCE, False),
        ("America/New_York", TWICE, ONCE, True),
        ("America/New_York", ONCE, TWICE, True),
        ("UTC", TWICE, TWICE, False),
        (None, ONCE, ONCE, True),  # each value names its own zone
    ],
)
def test_changes_may_have_faults_where_the_wall_time_of_a_key_occurs_twice(
    zone: str | None, now: datetime, before: datetime, may: bool
):
    assert may_have_faults(changes("TIMESTAMP", [ONCE, now], [ONCE, before], [True, True]), ["k"], zone) is may
    assert may_have_faults(changes("DATETIME", [now], [now], [True]), ["k"], zone) is False
