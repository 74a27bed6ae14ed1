"""A protocol that has only what `protocols.protocol` requires: config, `inspect` and runs accept it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.config import load
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.protocols.events import Event, Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import json_object
from ticdc_assets.protocols.protocol import MessageProtocol
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.values import native
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.progress import progress_of

OPS = {"insert": Op.INSERT, "update": Op.UPDATE, "delete": Op.DELETE}


def decode(key: bytes | None, value: bytes | None, where: str, options: None) -> Iterator[Event]:
    """A message is `{type, database, table, ts}`, and `data` and `old` for rows, `sql` for statements."""
    found = json_object(value or b"", where)
    try:
        yield event(found, where)
    except KeyError as error:
        raise DecodeError(where, f"the field {error}", "none", "Check the protocol.") from None


def event(found: dict[str, Any], where: str) -> Event:
    kind = found["type"]
    if kind == "watermark":
        return WatermarkEvent(found["ts"])
    if kind == "ddl":
        return DdlEvent(found["ts"], found["database"], found["table"], found["sql"], where=where)
    before = None if kind != "update" else found["data"] | found["old"]
    return RowEvent(found["database"], found["table"], OPS[kind], found["ts"], found["data"], before)


def recognise(message: Mapping[str, Any]) -> frozenset[str] | None:
    return frozenset() if "database" in message and "ts" in message and "isDdl" not in message else None


PROTOCOL = MessageProtocol(name="tiny", title="Tiny", decode=decode, value=native.value, recognise=recognise)


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture of the protocol: a statement, an insert, an update and the watermark after them."""
    monkeypatch.setitem(REGISTRY, "tiny", PROTOCOL)
    create = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(9))"
    sent = [
        {"type": "ddl", "ts": ts(1), "sql": create},
        {"type": "insert", "ts": ts(2), "data": {"id": 7, "name": "Ann"}},
        {"type": "update", "ts": ts(3), "data": {"id": 7, "name": "Anna"}, "old": {"name": "Ann"}},
        {"type": "watermark", "ts": ts(4)},
    ]
    folder = tmp_path / "capture"
    folder.mkdir()
    with (folder / "messages.jsonl").open("w") as file:
        for offset, message in enumerate(sent):
            value = b64encode(json.dumps({"database": "shop", "table": "users", **message}).encode()).decode()
            line = {"topic": "t", "partition": 0, "offset": offset, "key": None, "value": value, "ts_ms": offset}
            file.write(json.dumps(line) + "\n")
    return folder


def ts(second: int) -> int:
    return second * 1000 << 18


def test_rows_of_a_registered_protocol_are_in_the_changelog(capture: Path):
    path = capture.parent / "changefeeds.yaml"
    path.write_text("changefeeds: {feed: {sink_uri: 'kafka://h/t?protocol=tiny', source: {capture: capture}}}")
    config = load(path, {})
    lake = Lake(config, config.changefeed("feed"))
    run = run_of(lake)

    report = run.publish_changelogs(run.scan(), LocalWorkers())

    [table] = lake.recorded(report.record).values()
    changelog = lake.catalog.load_table(tuple(table.changelog or ()))
    rows = changelog.scan().to_arrow().sort_by("_ticdc_commit_ts").to_pylist()
    assert [(row["_ticdc_op"], row["id"], row["name"], row["_ticdc_before"]) for row in rows] == [
        ("I", 7, "Ann", None),
        ("U", 7, "Anna", {"id": 7, "name": "Ann"}),
    ]
    assert (table.watermark, progress_of(changelog).watermark) == (ts(4), ts(4))


def test_inspect_names_a_registered_protocol(capture: Path):
    found = inspect_source(str(capture), Bounds())

    assert (found.protocol, found.read.messages, found.problems) == ("tiny", 4, {})
    assert "protocol=tiny" in found.detected.sink_uri
