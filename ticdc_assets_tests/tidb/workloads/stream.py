"""Recorded workloads as one Canal-JSON stream in the order of their TSOs, and what their tables hold at each."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import TableState
from ticdc_assets_tests.tidb.streamed import Image, row_changes

Name = tuple[str, str]
_KINDS = {"CREATE TABLE": "CREATE", "DROP TABLE": "ERASE", "TRUNCATE TABLE": "TRUNCATE", "RENAME TABLE": "RENAME"}
_RENAMED = re.compile(r"ALTER TABLE `(\w+)` RENAME (?:TO |AS |= )?`(\w+)`$")
_INDEXED = re.compile(r"(?:CREATE|DROP) .*INDEX .* ON (`\w+`)")
_PAIR = re.compile(r"`(\w+)` TO `(\w+)`")


class WorkloadStream:
    """Databases of one zone, which is the changefeed's."""

    def __init__(self, stream: SmallStream, workloads: Sequence[History]) -> None:
        self.stream = stream
        self.zone = ZoneInfo(workloads[0]["zone"])
        self._steps = sorted(
            ((step["ts"], workload["id"], step) for workload in workloads for step in workload["steps"]),
            key=lambda event: event[:2],
        )
        self._at = 0
        self.ts = 0
        self.tables: dict[Name, TableState] = {}
        """The tables after the last step that was sent."""
        self.models: dict[Name, Name] = {}
        """The tables that CREATE TABLE LIKE copied, by the names of the copies; both as they are called now."""

    @property
    def length(self) -> int:
        return len(self._steps)

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._steps)

    def go_on(self, steps: int) -> None:
        """Send so many more steps, and how far the stream is."""
        for ts, database, step in self._steps[self._at : self._at + steps]:
            before = dict(self.tables)
            self._take(database, step)
            if "sql" in step:
                self._state(ts, database, step["sql"])
            else:
                self._send(ts, before)
            self.ts = ts
        self._at += steps
        self._say("TIDB_WATERMARK", ("", ""), self.ts, {}, {"watermarkTs": self.ts})

    def _take(self, database: str, step: dict[str, Any]) -> None:
        for name, state in step["tables"].items():
            if state is None:
                del self.tables[database, name]
            else:
                self.tables[database, name] = self.tables.get((database, name), TableState()).after(state)

    def _state(self, ts: int, database: str, sql: str) -> None:
        sql = _RENAMED.sub(r"RENAME TABLE `\1` TO `\2`", sql)  # as TiCDC sends it
        kind = _KINDS.get(" ".join(sql.split()[:2]), "ALTER")
        if sql.startswith("ALTER DATABASE"):
            self._ddl(ts, "QUERY", (database, ""), sql)
            return
        if kind != "RENAME":
            on = _INDEXED.match(sql)
            name, *others = (on[1] if on else sql).split("`")[1::2]
            if sql.startswith("FLASHBACK") and others:
                [name] = others  # TiCDC names the table as it comes back
            if "` LIKE `" in sql:
                self.models[database, name] = (database, others[0])
            self._ddl(ts, kind, (database, name), sql)
            return
        names: dict[str, str] = {}
        for old, new in _PAIR.findall(sql):
            was = names.pop(old, old)  # each event of a RENAME has the name from before the statement
            names[new] = was
            self._ddl(ts, kind, (database, new), f"RENAME TABLE `{database}`.`{was}` TO `{database}`.`{new}`")
        called = {(database, was): (database, new) for new, was in names.items()}
        self.models = {called.get(copy, copy): called.get(model, model) for copy, model in self.models.items()}

    def _ddl(self, ts: int, kind: str, name: Name, sql: str) -> None:
        self._say(kind, name, ts, {"isDdl": True, "sql": sql}, {"commitTs": ts})

    def _send(self, ts: int, before: dict[Name, TableState]) -> None:
        """Inside a transaction TiCDC sends a table's deletes first, then its updates, then its inserts."""
        for name, after in self.tables.items():
            if before[name] is not after:
                found = row_changes(self._in_zone(before[name]), self._in_zone(after))
                for kind, row, old in sorted(found, key=lambda change: "DUI".index(change[0][0])):
                    self._row(ts, name, after, kind, row, old)

    def _row(self, ts: int, name: Name, state: TableState, kind: str, row: Image, old: Image | None) -> None:
        types = {column: of.kind.value.lower() for column, of in state.types.items() if column in state.stored}
        has_primary = any(index == "PRIMARY" for index, _ in state.unique)
        said = {"pkNames": state.key if has_primary else [], "data": [row], "old": [old] if old else None}
        said |= {"mysqlType": types, "sqlType": dict.fromkeys(types, 12)}
        self._say(kind, name, ts, said, {"commitTs": ts})

    def _in_zone(self, state: TableState) -> TableState:
        """The rows with their TIMESTAMPs in the changefeed's time zone, as TiCDC writes them."""
        moments = [of.kind is Kind.TIMESTAMP for of in state.types.values()]
        rows = [
            [self._moved(cell) if is_moment else cell for is_moment, cell in zip(moments, row, strict=True)]
            for row in state.rows
        ]
        return replace(state, rows=rows)

    def _moved(self, text: str | None) -> str | None:
        if text is None or text.startswith("0000"):
            return text
        whole, _, fraction = text.partition(".")
        moved = datetime.fromisoformat(whole).replace(tzinfo=UTC).astimezone(self.zone)
        return f"{moved:%Y-%m-%d %H:%M:%S}" + (f".{fraction}" if fraction else "")

    def _say(self, kind: str, name: Name, ts: int, said: dict[str, Any], extension: dict[str, int]) -> None:
        head = {"id": 0, "database": name[0], "table": name[1], "pkNames": None, "isDdl": False}
        head |= {"type": kind, "es": ts >> 18, "ts": 0, "sql": "", "sqlType": None, "mysqlType": None}
        message = {**head, "data": None, "old": None, **said, "_tidb": extension}
        self.stream.send(TOPIC, 0, (None, json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()))
