"""The sinks of workloads write what TiCDC wrote for the same statements and rows."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.workloads.simple import SimpleMessages
from ticdc_assets_tests.tidb.workloads.storage import StorageSink
from ticdc_assets_tests.tidb.workloads.stream import Sink, WorkloadStream
from ticdc_assets_tests.tidb.workloads.streams import FOLDERS

RECORDED = dict(zip(FOLDERS, recorded("streams"), strict=True))


def written(sink: Sink, history: History) -> None:
    stream = WorkloadStream(sink, [history])
    stream.go_on(stream.length)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_bucket_has_the_schema_files_and_rows_of_ticdc(folder: Path, tmp_path: Path):
    sink = StorageSink(tmp_path, "csv")
    written(sink, RECORDED[folder])

    ticdc = folder / "storage-csv" / "data"
    assert schema_files(sink.bucket) == schema_files(ticdc) != []
    assert rows(sink.bucket) == rows(ticdc) != []


@pytest.mark.parametrize("folder", [f for f in FOLDERS if (f / "simple-json").exists()], ids=lambda folder: folder.name)
def test_simple_has_the_schemas_and_rows_of_ticdc(folder: Path, tmp_path: Path):
    sink = SimpleMessages(tmp_path, "UTC")
    written(sink, RECORDED[folder])

    assert [*messages(sink.stream.capture)] == [*messages(folder / "simple-json")] != []


def schema_files(bucket: Path) -> list[tuple[str, str, int, Any]]:
    """Of the tables' files in the order of their versions: table, checksum, type and columns."""
    found = []
    for path in bucket.glob("*/*/meta/schema_*.json"):
        said = json.loads(path.read_text())
        found.append((said["TableVersion"], said["Table"], path.stem[-10:], said["Type"], said["TableColumns"]))
    return [file[1:] for file in sorted(found, key=lambda file: file[:2])]


def rows(bucket: Path) -> list[list[str]]:
    """The lines of all files without commit_ts."""
    lines = [line.split(",") for path in bucket.glob("**/*.csv") for line in path.read_text().splitlines()]
    return sorted([*line[:3], *line[4:]] for line in lines)


def messages(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Statements and rows without their TSOs; statements and bootstraps, which go to all partitions, once."""
    seen, said_rows = [], []
    for line in (folder / "messages.jsonl").read_text().splitlines():
        said = json.loads(b64decode(json.loads(line)["value"]))
        table = said.get("tableSchema")
        if said["type"] in ("INSERT", "UPDATE", "DELETE"):
            said_rows.append((said["table"], said["type"], said.get("data"), said.get("old")))
        elif table and (event := (said["type"], table["table"], table["columns"], table["indexes"])) not in seen:
            seen.append(event)
    for events in (seen, said_rows):
        yield from sorted(events, key=lambda event: json.dumps(event, sort_keys=True))
