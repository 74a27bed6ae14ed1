"""Statements and rows of workloads in Canal-JSON: as messages, in which rows are also files of the storage sink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream
from ticdc_assets_tests.tidb.streamed import canal_image
from ticdc_assets_tests.tidb.workloads.stream import RENAME_TABLE, RowChange, Statement
from ticdc_assets_tests.tidb.workloads.table_info import TableInfo

_KINDS = {3: "CREATE", 4: "ERASE", 7: "CINDEX", 8: "DINDEX", 11: "TRUNCATE", RENAME_TABLE: "RENAME"}
_QUERIES = frozenset({1, 2, 21, 24, 25, 26, 42})
"""Databases, views, RECOVER and EXCHANGE."""


class CanalJsonMessages:
    """Messages of tiflow: each event of a RENAME has the new name, and its text the one from before the statement."""

    def __init__(self, stream: SmallStream) -> None:
        self.stream = stream
        self._renamed: tuple[int, dict[str, str]] = (0, {})

    def statement(self, statement: Statement) -> None:
        if not statement.sql:
            return
        name, sql = statement.name, statement.sql
        if statement.renamed:
            name, sql = self._rename(statement)
        self._say(document(kind_of(statement), (statement.database, name), statement.ts, {"isDdl": True, "sql": sql}))

    def _rename(self, statement: Statement) -> tuple[str, str]:
        assert statement.renamed is not None
        ts, names = self._renamed if self._renamed[0] == statement.ts else (statement.ts, {})
        old, new = statement.renamed
        names[new] = was = names.pop(old, old)
        self._renamed = ts, names
        database = statement.database
        was, now = (name.replace("`", "``") for name in (was, new))
        return new, f"RENAME TABLE `{database}`.`{was}` TO `{database}`.`{now}`"

    def rows(self, info: TableInfo, changes: Sequence[RowChange]) -> None:
        for change in changes:
            self._say(row(change))

    def reach(self, ts: int) -> None:
        self._say(document("TIDB_WATERMARK", ("", ""), ts, {"_tidb": {"watermarkTs": ts}}))

    def lake(self, **settings: Any) -> FeedLake:
        return self.stream.lake(**settings)

    def _say(self, said: dict[str, Any]) -> None:
        self.stream.send(TOPIC, 0, (None, text(said)))


def kind_of(statement: Statement) -> str:
    """The `type` of a statement's message, also in Simple."""
    return "QUERY" if statement.type in _QUERIES else _KINDS.get(statement.type, "ALTER")


def row(change: RowChange) -> dict[str, Any]:
    """The message of a row."""
    state = change.state
    types = {column: of.kind.value.lower() for column, of in state.types.items() if column in state.stored}
    has_primary = any(index == "PRIMARY" for index, _ in state.unique)
    said = {"pkNames": state.key if has_primary else [], "sqlType": dict.fromkeys(types, 12), "mysqlType": types}
    said["old"] = [canal_image(state.types, change.old)] if change.old else None
    said["data"] = [canal_image(state.types, change.row)]
    return document(change.op, change.name, change.ts, said)


def document(kind: str, name: tuple[str, str], ts: int, said: dict[str, Any]) -> dict[str, Any]:
    """A message with the members that all have."""
    head = {"id": 0, "database": name[0], "table": name[1], "pkNames": None, "isDdl": False}
    head |= {"type": kind, "es": ts >> 18, "ts": 0, "sql": "", "sqlType": None, "mysqlType": None}
    rest = {"old": None, "data": None} if "data" not in said else {}
    return {**head, **rest, **said, "_tidb": said.get("_tidb", {"commitTs": ts})}


def text(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
