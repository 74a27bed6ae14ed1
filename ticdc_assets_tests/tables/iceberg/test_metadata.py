"""Metadata that share snapshots are equal to those that pyiceberg computes and parses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.types import LongType, NestedField

from ticdc_assets.tables.iceberg.metadata import read, updated

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
IO = PyArrowFileIO()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("shop")
    made = catalog.create_table(("shop", "t"), ROWS.schema, properties={"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        made.append(ROWS, snapshot_properties={"ticdc.watermark": str(number)})
    return made


def snapshot(metadata: TableMetadata) -> Snapshot:
    shown = {
        "snapshot-id": 7,
        "parent-snapshot-id": metadata.current_snapshot_id,
        "sequence-number": metadata.last_sequence_number + 1,
        "timestamp-ms": metadata.last_updated_ms + 1,
        "manifest-list": "m.avro",
        "summary": {"operation": "append", "ticdc.run_id": "é"},
        "schema-id": 0,
    }
    return Snapshot.model_validate(shown)


def updates_of(metadata: TableMetadata) -> dict[str, tuple[TableUpdate, ...]]:
    wider = Schema(*metadata.schema().fields, NestedField(9, "v", LongType(), required=False))
    first, second = (s.snapshot_id for s in metadata.snapshots[:2])
    main: dict[str, Any] = {"ref-name": "main", "type": "branch", "snapshot-id": 7}
    return {
        "nothing": (),
        "no change": (SetPropertiesUpdate(updates={}),),
        "properties": (SetPropertiesUpdate(updates={"a": "b"}), RemovePropertiesUpdate(removals=["a"])),
        "schema": (AddSchemaUpdate(schema=wider), SetCurrentSchemaUpdate(**{"schema-id": -1})),
        "snapshot": (AddSnapshotUpdate(snapshot=snapshot(metadata)), SetSnapshotRefUpdate(**main)),
        "expiry": (RemoveSnapshotsUpdate(**{"snapshot-ids": [first, second]}),),
    }


def undated(metadata: TableMetadata) -> dict[str, Any]:
    """Without the time of the update, which is that of the clock."""
    shown = json.loads(metadata.model_dump_json())
    return {name: value for name, value in shown.items() if name != "last-updated-ms"}


@pytest.mark.parametrize("kind", ["nothing", "no change", "properties", "schema", "snapshot", "expiry"])
@pytest.mark.parametrize("uri", [None, "file:///lake/00004.metadata.json"])
def test_an_update_gives_what_pyiceberg_computes(table: Table, kind: str, uri: str | None):
    base, updates = table.metadata, updates_of(table.metadata)[kind]
    before = base.model_dump_json()

    found = updated(base, updates, uri)

    assert undated(found) == undated(update_table_metadata(base, updates, metadata_location=uri))
    assert (found.last_updated_ms > base.last_updated_ms) == (kind not in ("nothing", "no change"))
    assert base.model_dump_json() == before


def test_snapshots_are_not_copied(table: Table):
    found = updated(table.metadata, updates_of(table.metadata)["snapshot"])

    assert [id(s) for s in found.snapshots[:4]] == [id(s) for s in table.metadata.snapshots]


def test_an_update_that_pyiceberg_refuses_is_refused(table: Table):
    twice = AddSnapshotUpdate(snapshot=table.metadata.snapshots[0])

    with pytest.raises(ValueError, match="already exists"):
        updated(table.metadata, (twice,))


@pytest.mark.parametrize("name", ["5.metadata.json", "5.gz.metadata.json"])
def test_a_file_is_read_as_pyiceberg_reads_it_with_the_snapshots_of_before(table: Table, tmp_path: Path, name: str):
    file = f"{tmp_path}/{name}"
    ToOutputFile.table_metadata(updated(table.metadata, updates_of(table.metadata)["snapshot"]), IO.new_output(file))
    wanted = FromInputFile.table_metadata(IO.new_input(file))

    found = read(IO.new_input(file), table.metadata)

    assert found == wanted
    assert read(IO.new_input(file)) == wanted
    assert [id(s) for s in found.snapshots[:4]] == [id(s) for s in table.metadata.snapshots]


@pytest.mark.parametrize("changed", ["parent_snapshot_id", "timestamp_ms", "manifest_list"])
def test_a_snapshot_that_differs_is_that_of_the_file(table: Table, tmp_path: Path, changed: str):
    other = TableMetadataUtil.parse_raw(table.metadata.model_dump_json())
    newest = other.snapshots[-1]
    values = {"parent_snapshot_id": None, "timestamp_ms": newest.timestamp_ms + 5, "manifest_list": "moved.avro"}
    moved = newest.model_copy(update={changed: values[changed]})
    file = f"{tmp_path}/5.metadata.json"
    ToOutputFile.table_metadata(
        other.model_copy(update={"snapshots": [*other.snapshots[:-1], moved]}), IO.new_output(file)
    )

    assert read(IO.new_input(file), table.metadata).snapshots[-1] == moved


def test_another_table_shares_no_snapshot(table: Table, tmp_path: Path):
    other = table.metadata.model_copy(update={"table_uuid": "00000000-0000-4000-8000-000000000000"})
    file = f"{tmp_path}/5.metadata.json"
    ToOutputFile.table_metadata(table.metadata, IO.new_output(file))

    found = read(IO.new_input(file), other)

    assert found == table.metadata
    assert found.snapshots[0] is not table.metadata.snapshots[0]


def test_metadata_of_format_3_are_read_and_of_an_unknown_one_refused(table: Table, tmp_path: Path):
    shown = table.metadata.model_dump_json().replace('"last-updated-ms"', '"next-row-id":8,"last-updated-ms"')
    for version in (3, 9):
        file = tmp_path / f"{version}.metadata.json"
        file.write_text(shown.replace('"format-version":2', f'"format-version":{version}'))

    found = read(IO.new_input(f"{tmp_path}/3.metadata.json"), table.metadata)

    assert found == FromInputFile.table_metadata(IO.new_input(f"{tmp_path}/3.metadata.json"))
    assert (found.format_version, found.next_row_id) == (3, 8)
    with pytest.raises(ValidationError):
        read(IO.new_input(f"{tmp_path}/9.metadata.json"), table.metadata)


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", "{}", '{"format-version": 2}', '{"format-version": 2, "snapshots": 1}']
)
def test_a_damaged_file_is_a_fault_of_its_table(table: Table, tmp_path: Path, damaged: str):
    file = tmp_path / "6.metadata.json"
    file.write_text(damaged)

    for earlier in (None, table.metadata):
        with pytest.raises(Exception) as raised:
            read(IO.new_input(str(file)), earlier)
        assert type(raised.value).__name__ == "ValidationError"  # pyiceberg's, or pydantic's
