"""The control tables: which record is the newest, and what many runs leave behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from ticdc_assets.advice import Advice
from ticdc_assets.config.model.config import CatalogConfig
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control import tables as control_tables
from ticdc_assets.tables.control.records import (
    TABLE_FIELDS,
    WATERMARKS,
    QuarantinedRecord,
    TableRecord,
    VerifiedTable,
    WatermarkRecord,
)
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.maintenance import grown

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"{tmp_path}/warehouse"
    return Control(open_catalog(CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse)), ("ticdc_feed",))


def record(tso: int, minute: int, complete: bool = True) -> WatermarkRecord:
    table = TableRecord(
        "1", "shop", "t", "live", (Note(NoteCode.COLUMNS, "a guess"),), ["id"], tso, ["shop", "t"], tso, None, None, tso
    )
    return WatermarkRecord(BEGIN + timedelta(minutes=minute), f"run{minute}", tso, complete, "{}", (table,))


def test_the_newest_record_has_the_largest_tso_and_among_equals_was_written_last(control: Control):
    for written in (record(20, 1, False), record(20, 2), record(10, 3)):
        control.record(written)

    assert control.newest() == record(20, 2)
    assert control.newest(complete=False) == record(20, 1, False)


def test_a_record_is_found_by_any_tso_from_its_own_to_the_next_one(control: Control):
    for written in (record(10, 1), record(20, 2), record(30, 3, False)):
        control.record(written)

    assert [control.at(tso) for tso in (9, 10, 19, 20, 99)] == [
        None,
        record(10, 1),
        record(10, 1),
        record(20, 2),
        record(20, 2),
    ]


def test_columns_that_a_user_has_added_are_not_read(control: Control):
    control.record(record(10, 1))
    table = control.watermarks()
    assert table is not None
    with table.update_schema() as update:
        update.add_column(("tables", "element", "tomorrow"), StringType())

    assert control.newest() == record(10, 1)


def with_note(tso: int, note: Note) -> WatermarkRecord:
    made = record(tso, tso)
    return replace(made, tables=tuple(replace(table, notes=(note,)) for table in made.tables))


def test_notes_of_an_older_version_are_read_by_their_texts_beside_those_of_this_one(control: Control, monkeypatch):
    held = Note(NoteCode.STATEMENT, "at 5: expected a statement", (Advice.CREATE_AGAIN,))
    with monkeypatch.context() as older:
        older_note = pa.struct([pa.field("code", pa.string()), pa.field("text", pa.string())])
        notes = pa.field("notes", pa.list_(pa.field("element", older_note)))
        fields = [notes if field.name == "notes" else field for field in TABLE_FIELDS]
        tables = pa.field("tables", pa.list_(pa.field("element", pa.struct(fields))))
        columns = [tables if column.name == "tables" else column for column in WATERMARKS]
        older.setattr(control_tables, "WATERMARKS", pa.schema(columns))
        control.record(with_note(1, held))

    read = control.newest()
    control.record(with_note(2, held))

    assert read == with_note(1, Note(NoteCode.STATEMENT, f"at 5: expected a statement. {Advice.CREATE_AGAIN}"))
    assert read.tables[0].note == with_note(2, held).tables[0].note
    assert [control.newest(), control.at(1)] == [with_note(2, held), read]


def test_tables_that_did_not_change_are_not_written_again(control: Control):
    tables = record(10, 1).tables
    control.keep_tables(tables)

    control.keep_tables(tables)

    assert len(control._catalog.load_table((*control.namespace, "tables")).snapshots()) == 1


def test_many_runs_leave_few_files_and_every_record(control: Control, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_tables, "FILES_MAX", 4)

    for number in range(6):
        control.record(record(number, number))

    table = control._catalog.load_table((*control.namespace, "watermarks"))
    assert len(list(table.scan().plan_files())) < 4
    assert sorted(table.scan().to_arrow().column("tso").to_pylist()) == list(range(6))
    assert control.newest() == record(5, 5)


def test_the_newest_record_is_found_without_the_files_of_older_ones(control: Control, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        control.record(record(number, number, complete=number < 3))
    opened: list[str] = []
    read = grown._read

    def noted(tasks, table, where, names):
        opened.extend(task.file.file_path for task in tasks)
        return read(tasks, table, where, names)

    monkeypatch.setattr(grown, "_read", noted)

    assert control.newest() == record(4, 4, False)
    assert len(set(opened)) == 1
    opened.clear()
    assert control.newest(complete=True) == record(2, 2)
    assert len(set(opened)) == 1


def test_a_row_is_rewritten_once_for_each_level_and_old_snapshots_are_forgotten(
    control: Control, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_tables, "FILES_MAX", 2)
    monkeypatch.setattr(grown, "MINUTES_KEPT", 0)

    sizes = []
    for number in range(12):
        control.record(record(number, number))
        table = control.watermarks()
        assert table is not None
        sizes.append(sorted(task.file.record_count for task in table.scan().plan_files()))

    assert sizes[7:] == [[1, 1, 3, 3], [3, 3, 3], [1, 3, 3, 3], [11], [1, 11]]
    assert sorted(table.scan().to_arrow().column("tso").to_pylist()) == list(range(12))
    assert len(table.metadata.snapshots) <= 4
    assert control.newest() == record(11, 11)


class _InTwoMinutes(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + timedelta(minutes=2)


def test_snapshots_of_quick_runs_are_forgotten_after_a_minute(control: Control, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_tables, "FILES_MAX", 2)
    for number in range(5):
        control.record(record(number, number))
    young = control.watermarks()
    assert young is not None and len(young.metadata.snapshots) > 5

    monkeypatch.setattr(grown, "datetime", _InTwoMinutes)
    for number in range(5, 9):
        control.record(record(number, number))

    table = control.watermarks()
    assert table is not None
    kept = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    assert kept.isdisjoint(snapshot.snapshot_id for snapshot in young.metadata.snapshots)
    assert len(table.scan().to_arrow()) == 9


# -- quarantine -------------------------------------------------------------------------------------------------------


def bad_record(line: int) -> QuarantinedRecord:
    return QuarantinedRecord(BEGIN, "run1", "shop", "t", "shop/t/1/CDC1.csv", line, "no number", b"x\r\n", 1, 0)


def test_a_resolved_record_stays_listed_and_is_not_kept_a_second_time(control: Control):
    control.quarantine([bad_record(1), bad_record(2)])

    control.resolve({bad_record(1).position: "replayed"}, "run2")
    control.quarantine([bad_record(1), bad_record(2)])

    assert control.quarantined() == [bad_record(2)]
    listed = sorted((r.line, r.resolution, r.resolved_by) for r in control.ever_quarantined())
    assert listed == [(1, "replayed", "run2"), (2, None, None)]


def test_what_became_of_a_record_is_said_once(control: Control):
    control.quarantine([bad_record(1)])

    control.resolve({bad_record(1).position: "discarded"}, "run2")
    control.resolve({bad_record(1).position: "replayed"}, "run3")

    [listed] = control.ever_quarantined()
    assert (listed.resolution, listed.resolved_by) == ("discarded", "run2")


def test_a_quarantine_that_an_older_version_made_takes_resolutions_too(control: Control, monkeypatch):
    with monkeypatch.context() as older:
        columns = [control_tables.QUARANTINE.field(n) for n in range(8)]
        older.setattr(control_tables, "QUARANTINE", pa.schema(columns))
        control.quarantine([bad_record(1)])
    assert [r.position for r in control.quarantined()] == [bad_record(1).position]

    control.resolve({bad_record(1).position: "replayed"}, "run2")

    assert control.quarantined() == []
    assert [r.resolution for r in control.ever_quarantined()] == ["replayed"]


def test_of_each_table_the_newest_comparisons_stay_and_the_newest_one_has_ranges(
    control: Control, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_tables, "VERIFIED_KEPT", 2)
    ranges = [{"until": None, "tso": 7}]
    for tso, table in ((1, "1"), (2, "1"), (3, "2"), (4, "1")):
        time = BEGIN + timedelta(minutes=tso)
        counts = {"compared_ranges": 1, "rows": 5, "missing": 0, "extra": 0, "different": 0}
        row = VerifiedTable(table, "s", "t", tso, time, "whole", checksum="", is_equal=True, ranges=ranges, **counts)
        control.keep_verified(row)
        control.keep_verified(row)

    assert [(row.source_table, row.tso, bool(row.ranges)) for row in control.verified()] == [
        ("1", 4, True),
        ("2", 3, True),
        ("1", 2, False),
    ]
    assert [row.tso for row in control.verified("2")] == [3]
