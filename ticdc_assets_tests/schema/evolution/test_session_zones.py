"""TIMESTAMP defaults of added columns: read in UTC where the stream sends the schema, else counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlHints
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.tables.mirror.effects import fill_value
from ticdc_assets_tests.schema.history.histories import event


def sent(columns: str, name: str = "t") -> TableSchema:
    (statement,) = parse(f"CREATE TABLE {name} ({columns})", "shop")
    assert isinstance(statement, ddl.CreateTable)
    return create(statement).table


def fills(table: SourceTable) -> list[FillColumn]:
    return [e for version in table.versions for e in version.effects if isinstance(e, FillColumn)]


def added(definition: str, after: str | None) -> SourceTable:
    first = event(10, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    shown = None if after is None else sent(f"id INT PRIMARY KEY, c {after}")
    [table] = fold([first, event(20, "t", f"ALTER TABLE t ADD COLUMN c {definition}", after=shown)]).source_tables
    return table


def values(table: SourceTable, zone: str) -> list[datetime | None]:
    return [fill_value(fill, table.versions[-1], zone) for fill in fills(table)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize(
    ("written", "stored", "expected"),
    [
        ("TIMESTAMP NULL DEFAULT '2024-07-01 12:00:00'", "2024-07-01 16:00:00", datetime(2024, 7, 1, 16)),
        ("TIMESTAMP NOT NULL DEFAULT '2024-01-01 12:00:00'", "2024-01-01 17:00:00", datetime(2024, 1, 1, 17)),
        ("TIMESTAMP(6) DEFAULT '2024-07-01 12:00:00.123456'", "2024-07-01 06:30:00.123456",
         datetime(2024, 7, 1, 6, 30, 0, 123456)),
        ("TIMESTAMP DEFAULT '2024-11-03 01:30:00'", "2024-11-03 06:30:00", datetime(2024, 11, 3, 6, 30)),
    ],
)  # fmt: skip
def test_rows_get_the_utc_default_that_the_schema_after_the_statement_has(
    zone: str, written: str, stored: str, expected: datetime
):
    table = added(written, f"{written.partition(' DEFAULT')[0]} DEFAULT '{stored}'")

    assert values(table, zone) == [expected.replace(tzinfo=UTC)]
    assert not any(fill.has_unknown_zone for fill in fills(table))


def test_a_statement_without_a_schema_is_read_in_the_zone_of_the_changefeed_and_counted():
    table = added("TIMESTAMP DEFAULT '2024-07-01 12:00:00'", None)

    assert values(table, "Asia/Shanghai") == [datetime(2024, 7, 1, 4, tzinfo=UTC)]
    assert [fill.has_unknown_zone for fill in fills(table)] == [True]


@pytest.mark.parametrize(
    "definition",
    [
        "TIMESTAMP NULL",
        "TIMESTAMP NOT NULL",
        "TIMESTAMP NULL DEFAULT '0000-00-00 00:00:00'",
        "TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
        "DATETIME DEFAULT '2024-07-01 12:00:00'",
        "VARCHAR(30) DEFAULT '2024-07-01 12:00:00'",
    ],
)
def test_a_default_without_a_zone_in_it_is_not_counted(definition: str):
    assert [fill.has_unknown_zone for fill in fills(added(definition, None))] == [False]


def test_a_datetime_default_stays_as_written_whatever_the_schema_shows():
    table = added("DATETIME DEFAULT '2024-07-01 12:00:00'", "DATETIME DEFAULT '2024-07-01 12:00:00'")

    assert values(table, "Asia/Shanghai") == [datetime(2024, 7, 1, 12)]


def test_each_column_of_one_statement_has_its_own_default():
    first = event(10, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    text = "ALTER TABLE t ADD COLUMN (`A` TIMESTAMP DEFAULT '2024-07-01 12:00:00', b TIMESTAMP NULL), RENAME TO u"
    after = sent("id INT PRIMARY KEY, a TIMESTAMP DEFAULT '2024-07-01 16:00:00', b TIMESTAMP NULL", "u")
    [table] = fold([first, event(20, "u", text, after=after)]).source_tables

    assert [fill.utc for fill in fills(table)] == ["2024-07-01 16:00:00", None]


def test_a_default_of_a_registered_schema_is_in_utc():
    stored = "TIMESTAMP DEFAULT '2024-07-01 16:00:00'"
    first = event(10, "t", "", after=replace(sent("id INT PRIMARY KEY"), inferred=True))
    second = event(20, "t", "", after=replace(sent(f"id INT PRIMARY KEY, c {stored}"), inferred=True))
    [table] = fold([replace(e, hints=DdlHints(version=n)) for n, e in enumerate((first, second))]).source_tables

    assert values(table, "Asia/Shanghai") == [datetime(2024, 7, 1, 16, tzinfo=UTC)]
