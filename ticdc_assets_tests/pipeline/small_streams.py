"""Streams of Kafka messages that a test sends one by one, and the lakes that are made of them."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.protocols.columnar import message_rows
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.deliveries.database import MS, START_TS, Column, RowChange, Shape, Statement, Value
from ticdc_assets_tests.deliveries.wires import CanalJson, Message, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake

ID, NAME = Column("id", "INT", nullable=False), Column("name", "VARCHAR(20)")
TOPIC = "feed"
BY_TABLE = {"sink": {"dispatchers": [{"matcher": ["*.*"], "topic": "{schema}_{table}"}]}}


def at(tick: int) -> int:
    """A commit_ts."""
    return START_TS + tick * MS


def shape(name: str, *more: Column, version: int = 0) -> Shape:
    """A table of the schema `s` with the key `id`, a name and more columns."""
    table_id = zlib.crc32(name.encode())
    return Shape(table_id, table_id, "s", name, (ID, NAME, *more), "id", None, at(version))


class UndatedCanalJson(CanalJson):
    """Canal-JSON without the TiDB extension: no commit_ts and no watermarks."""

    sink_uri = "kafka://host/feed?protocol=canal-json"

    def rows(self, changes: Any) -> list[Message]:
        return [_undated(message) for message in super().rows(changes)]

    def statement(self, statement: Statement) -> Message:
        return _undated(super().statement(statement))

    def watermark(self, ts: int) -> None:  # type: ignore[override]
        """Nothing: the newest commit is how far such a stream is."""


def in_bulk_or_one_by_one(patch: pytest.MonkeyPatch, in_bulk: bool) -> None:
    """Rows are decoded in bulk, also in batches that are too small for it, or by the reference alone."""
    patch.setattr(message_rows, "_MESSAGES_MIN", 0)
    for name, protocol in () if in_bulk else tuple(REGISTRY.items()):
        patch.setitem(REGISTRY, name, replace(protocol, bulk=None))


def _undated(message: Message) -> Message:
    body = json.loads(message[1] or b"")
    del body["_tidb"]
    return message[0], json.dumps(body, separators=(",", ":")).encode()


@dataclass
class SmallStream:
    """What a changefeed sends, and its capture; `binary` where each partition has a file of its own.

    Otherwise all is in `messages.jsonl`, and the first message of each partition has the offset `begins_at`.
    """

    folder: Path
    wire: Wire = field(default_factory=CanalJson)
    config: dict[str, Any] = field(default_factory=dict)
    binary: bool = False
    begins_at: int = 0
    _sent: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.capture = self.folder / "capture"
        self.capture.mkdir(parents=True)

    # -- what is sent -------------------------------------------------------------------------------------------------

    def create(self, tick: int, made: Shape, topic: str = TOPIC) -> None:
        self._state(Statement(at(tick), "create table", made.create, None, made), topic)

    def rename(self, tick: int, before: Shape, after: Shape, topic: str = TOPIC) -> None:
        query = f"RENAME TABLE `{before.schema}`.`{before.name}` TO `{after.schema}`.`{after.name}`"
        self._state(Statement(at(tick), "rename table", query, before, after), topic)

    def drop(self, tick: int, gone: Shape, topic: str = TOPIC) -> None:
        query = f"DROP TABLE `{gone.schema}`.`{gone.name}`"
        self._state(Statement(at(tick), "drop table", query, gone, None), topic)

    def ddl(self, tick: int, query: str, table: Shape, after: Shape | None = None, topic: str = TOPIC) -> None:
        """Any other statement on a table, which is as before where `after` does not say how it was left.

        In Canal-JSON a table without a name stands for its whole database.
        """
        self._state(Statement(at(tick), "alter table", query, table, after or table), topic)

    def _state(self, statement: Statement, topic: str) -> None:
        self.send(topic, 0, self.wire.statement(statement))

    def put(
        self, tick: int, table: Shape, number: int, *, topic: str = TOPIC, partition: int = 0, **more: Value
    ) -> None:
        """A row that is inserted."""
        row = {**dict.fromkeys(table.names), "id": number, "name": f"name {number}", **more}
        self.send(topic, partition, *self.wire.rows([RowChange(at(tick), table, "I", row)]))

    def bootstrap(self, table: Shape, topic: str = TOPIC) -> None:
        """The table's schema, where the protocol has such messages."""
        self.send(topic, 0, self.wire.bootstrap(table))

    def watermark(self, tick: int, *topics: str) -> None:
        """How far these topics are, where the protocol has such messages."""
        for topic in topics or (TOPIC,):
            self.send(topic, 0, self.wire.watermark(at(tick)))

    def send(self, topic: str, partition: int, *messages: Message | None) -> None:
        for key, value in filter(None, messages):
            offset = self.begins_at + self._sent[topic, partition]
            self._sent[topic, partition] += 1
            if self.binary:
                self._append(f"{topic}-{partition}.bin", binary_record(key, value))
            else:
                line = {"topic": topic, "partition": partition, "offset": offset, "ts_ms": 0}
                self._append("messages.jsonl", json.dumps(line | _base64(key, value)).encode() + b"\n")

    def _append(self, name: str, data: bytes) -> None:
        with (self.capture / name).open("ab") as file:
            file.write(data)

    # -- what is made of it -------------------------------------------------------------------------------------------

    def lake(self, **settings: Any) -> FeedLake:
        """The lake of all that was and will be sent; each call may have other settings."""
        variant = {"sink_uri": self.wire.sink_uri, "config": self.config}
        workload: Any = SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=self.folder)
        settings.setdefault("source", {"capture": str(self.capture)})
        return FeedLake(workload, self.folder / "lake", self.capture, **settings)


def binary_record(key: bytes | None, value: bytes | None) -> bytes:
    """A message as the file of its partition has it."""
    return struct.pack(">q", 0) + _field(key) + _field(value)


def _field(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _base64(key: bytes | None, value: bytes | None) -> dict[str, str | None]:
    return {n: None if d is None else b64encode(d).decode() for n, d in (("key", key), ("value", value))}


# -- what came of it: tables of the schema `s` by their name alone, others as in `r.c` ---------------------------------


def ids(lake: FeedLake) -> dict[str, list[Any]]:
    """By the name that a table bore, the ids of all its changes."""
    found: dict[str, list[Any]] = {}
    for change in lake.changes().elements():
        found.setdefault(_short(change.schema, change.table), []).append(dict(change.new or ())["id"])
    return {name: sorted(of_table) for name, of_table in found.items()}


def states(lake: FeedLake) -> dict[str, str]:
    """By name, the state that was recorded; of tables that bore it one after another all, as in `dropped, live`."""
    found: dict[str, list[str]] = {}
    newest = lake.lake.control.newest()
    for record in newest.tables if newest else ():
        found.setdefault(_short(record.schema, record.table), []).append(record.state)
    return {name: ", ".join(sorted(of_name)) for name, of_name in found.items()}


def tso(lake: FeedLake) -> int:
    """The TSO on record."""
    newest = lake.lake.control.newest()
    return newest.tso if newest else 0


def _short(schema: str, table: str) -> str:
    return table if schema == "s" else f"{schema}.{table}"
