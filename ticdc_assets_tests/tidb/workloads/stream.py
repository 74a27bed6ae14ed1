"""Recorded workloads as a changefeed sends them, in the order of their TSOs, and what their tables hold at each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import TableState
from ticdc_assets_tests.tidb.streamed import Image, row_changes
from ticdc_assets_tests.tidb.workloads.table_info import TableInfo

Name = tuple[str, str]
EXCHANGE_PARTITION, RENAME_TABLE, RENAME_TABLES = 42, 14, 47
_NOT_SENT = frozenset({27, 28, 30, 31, 34, 35, 36, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 68, 69, 70})
"""Locks, TiFlash replicas, sequences, attributes, placement, caching, statistics, resource groups."""
_DROPPED = {4: "TABLE", 24: "VIEW"}
_QUOTED = r"`((?:[^`]|``)+)`"
_RENAMED = re.compile(rf"(?:{_QUOTED}\.)?{_QUOTED} TO (?:{_QUOTED}\.)?{_QUOTED}")
_LIKE = re.compile(rf"CREATE TABLE (?:IF NOT EXISTS )?{_QUOTED} LIKE {_QUOTED}")


@dataclass(frozen=True)
class Statement:
    """One event of a statement on `database`.

    `type` is TiDB's number of the action. `name` is that of `info` in events of new TiCDC, which splits a RENAME of
    several tables; a statement on the database has neither. `renamed` is how a RENAME changes one name.
    """

    ts: int
    database: str
    sql: str
    type: int
    info: TableInfo | None = None
    renamed: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.info.name if self.info else ""


@dataclass(frozen=True)
class RowChange:
    """What a transaction did to a row; images have the server's texts, with TIMESTAMPs in the changefeed's zone."""

    ts: int
    name: Name
    state: TableState
    op: str
    row: Image
    old: Image | None


class Sink(Protocol):
    """What a changefeed writes to. `reach` says that all is sent up to a TSO."""

    def statement(self, statement: Statement) -> None: ...
    def rows(self, info: TableInfo, changes: Sequence[RowChange]) -> None: ...
    def reach(self, ts: int) -> None: ...
    def lake(self, **settings: Any) -> FeedLake: ...


class WorkloadStream:
    """Databases of one zone, which is the changefeed's."""

    def __init__(self, sink: Sink, workloads: Sequence[History]) -> None:
        self.sink = sink
        self.zone = ZoneInfo(workloads[0]["zone"])
        self._steps = sorted(
            ((step["ts"], workload["id"], step) for workload in workloads for step in workload["steps"]),
            key=lambda event: event[:2],
        )
        self._begins_at = {workload["id"]: workload.get("begins_at", 0) for workload in workloads}
        self._at = 0
        self.ts = 0
        self.tables: dict[Name, TableState] = {}
        """The tables after the last step that was sent."""
        self.models: dict[Name, Name] = {}
        """The tables that CREATE TABLE LIKE copied, by the names of the copies; both as they are called now."""
        self._infos: dict[Name, TableInfo] = {}

    @property
    def length(self) -> int:
        return len(self._steps)

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._steps)

    def lake(self, **settings: Any) -> FeedLake:
        return self.sink.lake(time_zone=self.zone.key, **settings)

    def go_on(self, steps: int) -> None:
        """Send so many more steps, and how far the stream is."""
        for ts, database, step in self._steps[self._at : self._at + steps]:
            before = dict(self.tables)
            self._take(database, step)
            if "sql" in step:
                self._state(ts, database, step)
            else:
                self._send(ts, before)
            self.ts = ts
        self._at += steps
        self.sink.reach(self.ts)

    def _take(self, database: str, step: dict[str, Any]) -> None:
        for name, state in step["tables"].items():
            if state is None:
                del self.tables[database, name]
            else:
                self.tables[database, name] = self.tables.get((database, name), TableState()).after(state)

    def _state(self, ts: int, database: str, step: dict[str, Any]) -> None:
        if step["type"] in _NOT_SENT:
            return
        if ts > self._begins_at[database]:
            for statement in self._events(ts, database, step):
                self.sink.statement(statement)
        infos = [TableInfo.of(info) for info in step["infos"]]
        ids = {info.id for info in infos}
        former = {known.id: name for name, known in self._infos.items() if known.id in ids}
        self._infos = {name: info for name, info in self._infos.items() if info.id not in ids}
        self._infos |= {(database, info.name): info for info in infos}
        called = {old: (database, info.name) for info in infos if (old := former.get(info.id))}
        self.models = {called.get(copy, copy): called.get(model, model) for copy, model in self.models.items()}
        if copied := _LIKE.match(step["sql"]):
            self.models[database, copied[1]] = (database, copied[2])

    def _events(self, ts: int, database: str, step: dict[str, Any]) -> Iterator[Statement]:
        sql, type_, infos = step["sql"], step["type"], [TableInfo.of(info) for info in step["infos"]]
        if not infos:
            yield Statement(ts, database, sql, type_)
        elif type_ in _DROPPED:
            for info in infos:
                dropped = f"DROP {_DROPPED[type_]} `{database}`.`{_escaped(info.name)}`"
                yield Statement(ts, database, dropped, type_, info)
        elif type_ == RENAME_TABLE:
            [old] = [name for (_, name), info in self._infos.items() if info.id == infos[0].id]
            renamed = f"RENAME TABLE `{database}`.`{_escaped(old)}` TO `{database}`.`{_escaped(infos[0].name)}`"
            yield Statement(ts, database, renamed, type_, infos[0], (old, infos[0].name))
        elif type_ == RENAME_TABLES:
            pairs = [(found[1].replace("``", "`"), found[3].replace("``", "`")) for found in _RENAMED.findall(sql)]
            for info, (old, new) in zip(infos, pairs, strict=True):
                one = f"RENAME TABLE `{database}`.`{_escaped(old)}` TO `{database}`.`{_escaped(new)}`;"
                yield Statement(ts, database, one, RENAME_TABLE, info, (old, new))
        elif type_ == EXCHANGE_PARTITION:
            _, *_, plain = (self._infos.get((database, name)) for name in re.findall(_QUOTED, sql))
            yield Statement(ts, database, sql, type_, plain)
            yield Statement(ts, database, "", 0, infos[0])
        else:
            yield from (Statement(ts, database, sql, type_, info) for info in infos)

    def _send(self, ts: int, before: dict[Name, TableState]) -> None:
        """Inside a transaction TiCDC sends a table's deletes first, then its updates, then its inserts."""
        for name, after in self.tables.items():
            if before[name] is not after:
                found = row_changes(self._in_zone(before[name]), self._in_zone(after))
                ordered = sorted(found, key=lambda change: "DUI".index(change[0][0]))
                self.sink.rows(self._infos[name], [RowChange(ts, name, after, *change) for change in ordered])

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


def _escaped(name: str) -> str:
    return name.replace("`", "``")
