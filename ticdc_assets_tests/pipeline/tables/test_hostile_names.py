"""Hostile names of databases, tables and columns: each is a table of its own, with its files below the warehouse."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from ticdc_assets.names import column_name
from ticdc_assets_tests.hostile_names import HOSTILE
from ticdc_assets_tests.pipeline.lakes import FeedLake

TS = 460_000_000_000_000_000
OWN = [
    "ticdc_feed",
    "watermarks",
    "quarantine",
    "shop__changes",
    "metadata",
    "meta",
    "_ticdc_op",
    "%2e%2e",
    "~",
    "$(id)",
]
TWINS = ["\u212a", "k", "ſ", "ﬁ", "fi", "ａ", "\u0430", "x\u200b", "x\u2028", "c:\\x", "//host/x", "a/../../../b", "."]


def distinct() -> list[str]:
    """As MySQL tells names apart: without regard to case. JSON carries no half of a surrogate pair."""
    names = {name.lower(): name for name in (*HOSTILE, *OWN, *TWINS) if name and "\ud800" not in name}
    return sorted(names.values())


def quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def statement(schema: str, table: str) -> dict[str, Any]:
    column = quoted(f"{table}.c")
    sql = f"CREATE TABLE {quoted(table)} (`id` INT NOT NULL,{column} VARCHAR(400),PRIMARY KEY(`id`))"
    return {"database": schema, "table": table, "isDdl": True, "type": "CREATE", "sql": sql, "_tidb": {"commitTs": TS}}


def insert(schema: str, table: str) -> dict[str, Any]:
    """One row that holds the names of its table."""
    row = {"id": "1", f"{table}.c": f"{schema} {table}"}
    message = {
        "database": schema,
        "table": table,
        "isDdl": False,
        "type": "INSERT",
        "es": 1,
        "data": [row],
        "old": None,
    }
    return message | {"pkNames": ["id"], "mysqlType": {}, "sqlType": {}, "_tidb": {"commitTs": TS + 1}}


def capture(path: Path, messages: list[dict[str, Any]]) -> None:
    messages = [*messages, {"isDdl": False, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": TS + 9}}]
    with path.open("w") as file:
        for offset, message in enumerate(messages):
            value = b64encode(json.dumps(message, ensure_ascii=False).encode()).decode()
            place = {"topic": "t", "partition": 0, "offset": offset, "key": None, "value": value, "ts_ms": 1}
            file.write(json.dumps(place) + "\n")


def tables() -> list[tuple[str, str]]:
    """Every name as a table of one database, and every third as a database of one table."""
    names = distinct()
    return [("shop", name) for name in names] + [(name, "t") for name in names[::3]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names")


@pytest.fixture(scope="module")
def feed(folder: Path) -> FeedLake:
    pairs = tables()
    path = folder / "messages.jsonl"
    capture(path, [statement(*pair) for pair in pairs] + [insert(*pair) for pair in pairs])
    variant = {"sink_uri": "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true", "config": {}}
    workload: Any = SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=folder)
    lake = FeedLake(workload, folder / "lake", path)
    lake.publish()
    return lake


def test_every_table_has_its_own_rows_below_the_warehouse(feed: FeedLake, folder: Path):
    warehouse = folder / "lake" / "warehouse"
    records = feed.records()

    assert {r.state for r in records.values()} == {"live"}, [r.note for r in records.values() if r.state != "live"]
    assert len(records) == len(tables())
    assert len({tuple(r.changelog or ()) for r in records.values()}) == len(records)
    for (schema, table), record in records.items():
        changelog = feed.lake.catalog.load_table(tuple(record.changelog or ()))
        [row] = changelog.scan().to_arrow().to_pylist()
        assert f"{schema} {table}" == row[column_name(f"{table}.c")]
        for place in (changelog.location(), changelog.metadata_location, *files_of(changelog)):
            assert (warehouse.resolve()) in Path(unquote(urlsplit(place).path)).resolve().parents


def files_of(table: Any) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


def test_nothing_is_written_outside_the_lake(feed: FeedLake, folder: Path):
    written = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    outside = {path.name for path in folder.parent.iterdir()} - {folder.name}

    assert written == {"messages.jsonl", "lake"}
    assert not outside & {"etc", "b", "x"}
    for path in (folder / "lake").rglob("*"):
        assert not path.is_symlink()
        assert path.name.isascii()
        assert path.name.isprintable()
