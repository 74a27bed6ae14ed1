"""Values sent as numbers and bytes: every form of a type is read, and anything else is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.values.native import as_text, plain, value, zone_of
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column

NEW_YORK = "America/New_York"


def column(written: str) -> Column:
    return Column("c", parse_type(written))


TEXTS = [
    ("INT", 5, "5"),
    ("INT", "5", "5"),
    ("INT", {"value": 5}, "5"),
    ("BIT(64)", b"\1\0", "256"),
    ("BIT(64)", b"\xff" * 8, str((1 << 64) - 1)),
    ("YEAR", 2024, "2024"),
    ("FLOAT", 1.5, "1.5"),
    ("DOUBLE", 5, "5"),
    ("ENUM('a')", 1, "1"),
    ("SET('a')", 1, "1"),
    ("BLOB", b"\xff", b"\xff"),
    ("VARCHAR(9) CHARSET binary", b"\xff", b"\xff"),
    ("TIMESTAMP", {"value": "2024-01-01 00:00:00", "location": "UTC"}, "2024-01-01 00:00:00"),
]


@pytest.mark.parametrize(("written", "wire", "text"), TEXTS)
def test_a_wire_value_has_its_text(written: str, wire: Any, text: str | bytes):
    assert as_text(column(written), wire) == text


UNUSUAL_VALUES = [
    ("VARCHAR(9)", 5), ("INT", True), ("INT", 5.0), ("DECIMAL", 5), ("DATE", 5), ("INT", None), ("INT", [5]),
    ("BIT(64)", b"\0" * 9), ("INT", b"\1"), ("VARCHAR(9)", b"x"),
    ("INT", {"value": "5"}), ("INT", {"value": 5, "location": "UTC"}), ("INT", {}), ("VARCHAR(9)", {"value": 5}),
    ("TIMESTAMP", {"value": "2024-01-01 00:00:00"}), ("DATETIME", {"value": "2024-01-01", "location": "UTC"}),
    ("TIMESTAMP", {"value": 5, "location": "UTC"}),
]  # fmt: skip


@pytest.mark.parametrize(("written", "wire"), UNUSUAL_VALUES)
def test_a_wire_value_of_another_form_is_refused_with_its_column(written: str, wire: Any):
    with pytest.raises(DecodeError, match="column `c`"):
        as_text(column(written), wire)


def test_null_is_null_and_nothing_else_is():
    assert value(column("INT"), None, "UTC") is None
    assert value(column("INT"), 0, "UTC") == 0
    assert value(column("BIGINT UNSIGNED"), -1, "UTC") == Decimal((1 << 64) - 1)
    assert value(column("BLOB"), "QUI=", "UTC") == b"AB"
    assert value(column("BLOB"), b"AB", "UTC") == b"AB"
    assert value(column("ENUM('a','b')"), 2, "UTC") == "b"
    assert value(column("ENUM('a','b')"), "b", "UTC", labels=True) == "b"


@pytest.mark.parametrize(
    ("wire", "zone"),
    [
        ("2024-01-01 00:00:00", "+01:00"),
        ({"value": "", "location": ""}, "+01:00"),
        ({"value": "", "location": "Local"}, "+01:00"),
        ({"value": "", "location": NEW_YORK}, NEW_YORK),
    ],
)
def test_a_timestamp_is_in_the_zone_that_it_names_else_in_the_changefeeds(wire: Any, zone: str):
    assert zone_of(column("TIMESTAMP"), wire, "+01:00") == zone


@pytest.mark.parametrize("location", ["Nowhere", 5, ["UTC"]])
def test_a_zone_that_is_none_is_refused(location: Any):
    with pytest.raises(DecodeError):
        zone_of(column("TIMESTAMP"), {"value": "", "location": location}, "UTC")


def test_the_zone_utc_is_known_in_any_case_of_its_letters():
    assert time_zone("utc") is time_zone("UTC") is UTC


TIMES = [
    ("2024-01-01 00:00:00", NEW_YORK, 0, "2024-01-01 05:00:00"),
    ("2024-01-01 00:00:00.120", NEW_YORK, 0, "2024-01-01 05:00:00.120"),
    ("2024-01-01 00:00:00.120", "UTC", 0, "2024-01-01 00:00:00.120"),
    ("2024-11-03 01:30:00", NEW_YORK, 0, "2024-11-03 05:30:00"),
    ("2024-11-03 01:30:00", NEW_YORK, 1, "2024-11-03 06:30:00"),
    ("0000-00-00 00:00:00", NEW_YORK, 0, "0000-00-00 00:00:00"),
]


@pytest.mark.parametrize(("text", "zone", "fold", "expected"), TIMES)
def test_a_checksum_has_timestamps_as_text_in_utc(text: str, zone: str, fold: int, expected: str):
    assert plain(column("TIMESTAMP(3)"), text, zone, fold=fold) == expected


def test_an_ambiguous_wall_time_is_the_first_of_two_moments_by_default():
    assert plain(column("TIMESTAMP"), "2024-11-03 01:30:00", NEW_YORK) == "2024-11-03 05:30:00"
    found = value(column("TIMESTAMP"), {"value": "2024-11-03 01:30:00", "location": NEW_YORK}, "UTC")
    assert found == datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
    with pytest.raises(DecodeError):
        plain(column("TIMESTAMP"), "0001-01-01 00:00:00", "+08:00")


PLAIN = [
    ("INT", {"value": 5}, False, 5),
    ("DOUBLE", 1.5, False, 1.5),
    ("BLOB", "QUI=", False, b"AB"),
    ("DECIMAL(5,2)", "1.50", False, "1.50"),
    ("VARCHAR(9)", "x", False, "x"),
    ("ENUM('a','b')", 2, False, 2),
    ("ENUM('a','b')", "2", False, 2),
    ("ENUM('a','b')", "-1", False, -1),
    ("ENUM('a','b')", "b", True, 2),
    ("ENUM('a','b')", "", True, 0),
    ("SET('a','b','c')", "a,c", True, 5),
    ("SET('a','b')", "", True, 0),
    ("SET('a','b')", 3, False, 3),
]


@pytest.mark.parametrize(("written", "wire", "labels", "expected"), PLAIN)
def test_a_checksum_has_values_without_wrapping_and_labels_by_number(
    written: str, wire: Any, labels: bool, expected: Any
):
    assert plain(column(written), wire, "UTC", labels=labels) == expected


@pytest.mark.parametrize(
    ("written", "wire", "labels"),
    [("ENUM('a')", "b", True), ("SET('a')", "a,b", True), ("ENUM('a')", "a", False), ("ENUM('a')", "1" * 21, False),
     ("ENUM", "a", True), ("VARCHAR(3)", b"x", False)],
)  # fmt: skip
def test_what_no_checksum_can_be_computed_over_is_refused(written: str, wire: Any, labels: bool):
    with pytest.raises(DecodeError):
        plain(column(written), wire, "UTC", labels=labels)
