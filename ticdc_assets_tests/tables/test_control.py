"""The control tables: which record is the newest, and what many runs leave behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ticdc_assets.config.model import CatalogConfig
from ticdc_assets.tables import control as control_tables
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control import Control, TableRecord, WatermarkRecord

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"{tmp_path}/warehouse"
    return Control(open_catalog(CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse)), ("ticdc_feed",))


def record(tso: int, minute: int, complete: bool = True) -> WatermarkRecord:
    table = TableRecord("1", "shop", "t", "live", "", ["id"], tso, ["shop", "t"], tso, None, None, tso)
    return WatermarkRecord(BEGIN + timedelta(minutes=minute), f"run{minute}", tso, complete, "{}", (table,))


def test_the_newest_record_has_the_largest_tso_and_among_equals_was_written_last(control: Control):
    for told in (record(20, 1, False), record(20, 2), record(10, 3)):
        control.record(told)

    assert control.newest() == record(20, 2)
    assert control.newest(complete=False) == record(20, 1, False)


def test_a_record_is_found_by_any_tso_from_its_own_to_the_next_one(control: Control):
    for told in (record(10, 1), record(20, 2), record(30, 3, False)):
        control.record(told)

    assert [control.at(tso) for tso in (9, 10, 19, 20, 99)] == [
        None,
        record(10, 1),
        record(10, 1),
        record(20, 2),
        record(20, 2),
    ]


def test_many_runs_leave_few_files_and_every_record(control: Control, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_tables, "FILES_MAX", 4)

    for number in range(6):
        control.record(record(number, number))

    table = control._catalog.load_table((*control.namespace, "watermarks"))
    assert len(list(table.scan().plan_files())) < 4
    assert sorted(table.scan().to_arrow().column("tso").to_pylist()) == list(range(6))
    assert control.newest() == record(5, 5)
