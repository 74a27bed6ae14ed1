"""Recorded histories as one Canal-JSON stream, one commit_ts after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ticdc_assets.schema.arrow_types import BINARY_KINDS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.deliveries.database import START_TS
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import SCHEMA, TableState

MS = 1 << 18


class Streamed:
    """Tables of many histories, which live on side by side."""

    def __init__(self, stream: SmallStream, histories: Sequence[History]) -> None:
        self.stream = stream
        self._histories = {_table_of(history): history for history in histories}
        self._at = 0
        self.tables = {table: TableState() for table in self._histories}
        self._ts = START_TS

    @property
    def is_over(self) -> bool:
        return all(self._at >= len(history["steps"]) for history in self._histories.values())

    def go_on(self, steps: int = 1) -> None:
        """Send so many more steps of each history, and how far the stream is."""
        for _ in range(steps):
            for table, history in self._histories.items():
                for step in history["steps"][self._at : self._at + 1]:
                    before, self.tables[table] = self.tables[table], self.tables[table].after(step)
                    self._send(table, step, before, self.tables[table])
            self._at += 1
        self._say("TIDB_WATERMARK", "", {}, {"watermarkTs": self._ts})

    def _send(self, table: str, step: dict[str, Any], before: TableState, after: TableState) -> None:
        self._ts += MS
        extension = {"commitTs": self._ts}
        if "sql" in step:
            kind = "CREATE" if step["sql"].startswith("CREATE") else "ALTER"
            self._say(kind, table, {"isDdl": True, "sql": step["sql"], "mysqlType": None, "data": None}, extension)
            return
        for kind, row, old in row_changes(before, after):
            row, old = canal_image(after.types, row), canal_image(after.types, old) if old else None
            types = {name: of.kind.value.lower() for name, of in after.types.items()}
            said = {"pkNames": after.key, "data": [row], "old": [old] if old else None}
            said |= {"mysqlType": types, "sqlType": dict.fromkeys(types, 12)}
            self._say(kind, table, said, extension)

    def _say(self, kind: str, table: str, said: dict[str, Any], extension: dict[str, int]) -> None:
        head = {"id": 0, "database": SCHEMA if table else "", "table": table, "pkNames": None, "isDdl": False}
        head |= {"type": kind, "es": self._ts >> 18, "ts": 0, "sql": "", "sqlType": None, "mysqlType": None}
        message = {**head, "data": None, "old": None, **said, "_tidb": extension}
        self.stream.send(TOPIC, 0, (None, json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()))


def _table_of(history: History) -> str:
    return str(history["steps"][0]["sql"]).split("`")[1]


Image = dict[str, str | None]


def row_changes(before: TableState, after: TableState) -> Iterator[tuple[str, Image, Image | None]]:
    """What was done to rows between two steps without a statement, in the server's texts.

    A key that changes is a DELETE and an INSERT.
    """
    was, now = _images(before), _images(after)
    unique = {name.lower() for _, columns in after.unique for name in columns}
    for number in {**was, **now}:
        old, new = was.get(number), now.get(number)
        moves = old and new and any(old[name] != new[name] for name in new if name.lower() in unique)
        if old and (not new or moves):
            yield "DELETE", old, None
        if new and (not old or moves):
            yield "INSERT", new, None
        elif old and new and old != new:
            yield "UPDATE", new, old


def _images(state: TableState) -> dict[str, Image]:
    names = [str(name) for name, *_ in state.columns]
    images = [dict(zip(names, row, strict=True)) for row in state.rows]
    number = "rn" if "rn" in names else names[0]
    return {str(image[number]): {name: image[name] for name in state.stored} for image in images}


def canal_image(types: Mapping[str, MySqlType], row: Image) -> Image:
    """A row as Canal-JSON sends it: labels by number, bytes as Latin-1 text."""
    return {name: _wired(types[name], cell) for name, cell in row.items()}


def _wired(of: MySqlType, text: str | None) -> str | None:
    if text is None:
        return None
    if of.kind in BINARY_KINDS:
        return bytes.fromhex(text).decode("latin-1")
    return label_number(of, text) if of.kind in (Kind.ENUM, Kind.SET) else text


def label_number(of: MySqlType, text: str) -> str:
    """The number of an ENUM's label, or the sum of a SET's."""
    labels = [label.lower() for label in of.elements or ()]
    if of.kind is Kind.ENUM:
        return str(labels.index(text.lower()) + 1 if text else 0)
    return str(sum(1 << labels.index(label.lower()) for label in text.split(",")) if text else 0)
