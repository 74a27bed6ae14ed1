"""Small encoders of message protocols, for the few types that the model's tables have.

`test_wires` holds each against what TiCDC wrote for the same changes and statements.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from ticdc_assets_tests.deliveries.database import Column, Row, RowChange, Shape, Statement, Value

Message = tuple[bytes | None, bytes | None]
LOGICAL_BITS = 18


class Wire(Protocol):
    """A protocol as TiCDC writes it. `rows` are changes that go to one partition together."""

    name: ClassVar[str]
    sink_uri: ClassVar[str]
    statements_to_all: ClassVar[bool]
    has_bootstraps: ClassVar[bool]

    def rows(self, changes: Sequence[RowChange]) -> list[Message]: ...
    def statement(self, statement: Statement) -> Message: ...
    def watermark(self, ts: int) -> Message: ...
    def bootstrap(self, shape: Shape) -> Message | None: ...


def _text(value: Any) -> bytes:
    """JSON as Go writes it, which has no fraction in a negative zero."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("-0.0", "-0").encode()


def _wired(row: Row | None) -> dict[str, str | None] | None:
    """All values as text, as Canal-JSON and Simple send them."""
    return None if row is None else {name: None if cell is None else str(cell) for name, cell in row.items()}


class OpenProtocol:
    """Keys and values in frames, several rows in one message."""

    name = "open-protocol"
    sink_uri = "kafka://host/feed?protocol=open-protocol"
    statements_to_all = True
    has_bootstraps = False
    _TYPES: ClassVar = {"INT": 3, "BIGINT": 8, "VARCHAR": 15, "FLOAT": 4, "DOUBLE": 5}
    _ACTIONS: ClassVar = {"create table": 3, "drop table": 4, "truncate table": 11, "rename table": 14}

    def rows(self, changes: Sequence[RowChange]) -> list[Message]:
        heads = [{"ts": c.commit_ts, "scm": c.shape.schema, "tbl": c.shape.name, "t": 1} for c in changes]
        return [_framed(heads, [_text(self._body(change)) for change in changes])] if changes else []

    def _body(self, change: RowChange) -> dict[str, Any]:
        if change.op == "D":
            return {"d": self._columns(change.shape, change.row)}
        old = {} if change.old is None else {"p": self._columns(change.shape, change.old)}
        return {"u": self._columns(change.shape, change.row), **old}

    def _columns(self, shape: Shape, row: Row) -> dict[str, Any]:
        columns = sorted(shape.columns, key=lambda column: column.name)
        return {column.name: self._column(shape, column, row[column.name]) for column in columns}

    def _column(self, shape: Shape, column: Column, value: Value) -> dict[str, Any]:
        handle = column.name == shape.key
        flags = 0 if column.type.startswith("VARCHAR") else 1
        flags |= 2 | 8 if handle else 0
        flags |= 16 if column.name == shape.unique else 0
        flags |= 64 if column.nullable else 0
        kind = self._TYPES[column.type.partition("(")[0]]
        return {"t": kind, **({"h": True} if handle else {}), "f": flags, "v": value}

    def statement(self, statement: Statement) -> Message:
        shape = statement.after or statement.before
        assert shape is not None
        head = {"ts": statement.commit_ts, "scm": shape.schema, "tbl": shape.name, "t": 2}
        return _framed([head], [_text({"q": statement.query, "t": self._ACTIONS.get(statement.kind, 5)})])

    def watermark(self, ts: int) -> Message:
        return _framed([{"ts": ts, "t": 3}], [b""])

    def bootstrap(self, shape: Shape) -> Message | None:
        return None


def _framed(heads: Sequence[dict[str, Any]], bodies: Sequence[bytes]) -> Message:
    def frames(parts: Sequence[bytes]) -> bytes:
        return b"".join(struct.pack(">Q", len(part)) + part for part in parts)

    return struct.pack(">Q", 1) + frames([_text(head) for head in heads]), frames(bodies)


class CanalJson:
    """One JSON object a row; statements on partition 0 only. A shape without a name stands for its whole database."""

    name = "canal-json"
    sink_uri = "kafka://host/feed?protocol=canal-json&enable-tidb-extension=true"
    statements_to_all = False
    has_bootstraps = False
    _SQL_TYPES: ClassVar = {"INT": 4, "BIGINT": -5, "VARCHAR": 12, "FLOAT": 7, "DOUBLE": 8}
    _KINDS: ClassVar = {
        "create table": "CREATE", "drop table": "ERASE", "truncate table": "TRUNCATE", "rename table": "RENAME",
        "add index": "CINDEX",
    }  # fmt: skip

    def rows(self, changes: Sequence[RowChange]) -> list[Message]:
        return [(None, _text(self.row(change))) for change in changes]

    def row(self, change: RowChange) -> dict[str, Any]:
        shape = change.shape
        kinds = {c.name: c.type.partition("(")[0] for c in shape.columns}
        kind = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[change.op]
        head = self._head(shape.schema, shape.name, kind, change.commit_ts, "")
        del head["data"]  # rows have it last: in any other order no bulk decoder reads them
        return {
            **head,
            "pkNames": [shape.key] if shape.key else [],
            "sqlType": {name: self._SQL_TYPES[kind] for name, kind in kinds.items()},
            "mysqlType": {name: kind.lower() for name, kind in kinds.items()},
            "old": [_wired(change.old)] if change.old else None,
            "data": [_wired({name: change.row[name] for name in shape.names})],
            "_tidb": {"commitTs": change.commit_ts},
        }

    def _head(self, schema: str, table: str, kind: str, ts: int, sql: str) -> dict[str, Any]:
        """The members that all messages have; rows put theirs in place of the empty ones."""
        names = {"id": 0, "database": schema, "table": table, "pkNames": None, "isDdl": bool(sql), "type": kind}
        empty = dict.fromkeys(("sqlType", "mysqlType", "data", "old"))
        return {**names, "es": ts >> LOGICAL_BITS, "ts": 0, "sql": sql, **empty}

    def statement(self, statement: Statement) -> Message:
        shape = statement.after or statement.before
        assert shape is not None
        kind = self._KINDS.get(statement.kind, "ALTER") if shape.name else "QUERY"
        head = self._head(shape.schema, shape.name, kind, statement.commit_ts, statement.query)
        return None, _text({**head, "_tidb": {"commitTs": statement.commit_ts}})

    def watermark(self, ts: int) -> Message:
        return None, _text({**self._head("", "", "TIDB_WATERMARK", ts, ""), "_tidb": {"watermarkTs": ts}})

    def bootstrap(self, shape: Shape) -> Message | None:
        return None


class SimpleJson:
    """Rows name a schema version, which statements and bootstraps bring."""

    name = "simple"
    sink_uri = "kafka://host/feed?protocol=simple"
    statements_to_all = True
    has_bootstraps = True
    _KINDS: ClassVar = {**CanalJson._KINDS}
    _LENGTHS: ClassVar = {"INT": 11, "BIGINT": 20, "FLOAT": 12, "DOUBLE": 22}

    def rows(self, changes: Sequence[RowChange]) -> list[Message]:
        return [self._message(self._row(change)) for change in changes]

    def _message(self, members: dict[str, Any]) -> Message:
        return None, _text({"version": 1, **members, "buildTs": 0})

    def _row(self, change: RowChange) -> dict[str, Any]:
        shape = change.shape
        kind = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[change.op]
        new, old = (None, change.row) if change.op == "D" else (change.row, change.old)
        images = {"data": _wired(new), "old": _wired(old)}
        return {
            "database": shape.schema,
            "table": shape.name,
            "tableID": shape.table_id,
            "type": kind,
            "commitTs": change.commit_ts,
            "buildTs": 0,
            "schemaVersion": shape.version,
            **{name: image for name, image in images.items() if image is not None},
        }

    def statement(self, statement: Statement) -> Message:
        before = statement.before or None
        after = statement.after or statement.before
        assert after is not None
        members = {
            "type": self._KINDS.get(statement.kind, "ALTER"),
            "sql": statement.query,
            "commitTs": statement.commit_ts,
            "tableSchema": self.schema(after),
        }
        return self._message({**members, **({"preTableSchema": self.schema(before)} if before else {})})

    def schema(self, shape: Shape) -> dict[str, Any]:
        """Columns by their ids: those that were added come last, wherever they stand."""
        columns = sorted(shape.columns, key=lambda column: column.name in ("a", "b", "c"))
        indexes = [("uk", False, shape.unique)] if shape.unique else []
        indexes += [("primary", True, shape.key)] if shape.key else []
        return {
            "schema": shape.schema,
            "table": shape.name,
            "tableID": shape.table_id,
            "version": shape.version,
            "columns": [self._column(column) for column in columns],
            "indexes": [
                {"name": name, "unique": True, "primary": primary, "nullable": not primary, "columns": [column]}
                for name, primary, column in indexes
            ],
        }

    def _column(self, column: Column) -> dict[str, Any]:
        kind, _, length = column.type.rstrip(")").partition("(")
        charset = "utf8mb4" if length else "binary"
        collate = "utf8mb4_bin" if length else "binary"
        data_type = {"mysqlType": kind.lower(), "charset": charset, "collate": collate}
        data_type["length"] = int(length) if length else self._LENGTHS[kind]
        default = None if column.default is None else str(column.default)
        return {"name": column.name, "dataType": data_type, "nullable": column.nullable, "default": default}

    def watermark(self, ts: int) -> Message:
        return self._message({"type": "WATERMARK", "commitTs": ts})

    def bootstrap(self, shape: Shape) -> Message | None:
        return self._message({"type": "BOOTSTRAP", "commitTs": 0, "tableSchema": self.schema(shape)})


class Debezium:
    """Key and value as JSON without schema blocks; types come from the statements."""

    name = "debezium"
    sink_uri = "kafka://host/feed?protocol=debezium&enable-tidb-extension=true&debezium-disable-schema=true"
    statements_to_all = True
    has_bootstraps = False

    def rows(self, changes: Sequence[RowChange]) -> list[Message]:
        return [self._row(change) for change in changes]

    def _row(self, change: RowChange) -> Message:
        shape = change.shape
        source = self._source(shape.schema, shape.name, change.commit_ts)
        new, old = (None, change.row) if change.op == "D" else (change.row, change.old)
        op = {"I": "c", "U": "u", "D": "d"}[change.op]
        key = {} if shape.key is None else {shape.key: change.row[shape.key]}
        payload = {"source": source, "ts_ms": 0, "transaction": None, "op": op, "before": old, "after": new}
        return _text({"payload": key}), _text({"payload": payload})

    def _source(self, schema: str, table: str, ts: int) -> dict[str, Any]:
        version = {"version": "2.4.0.Final", "connector": "TiCDC", "name": "default", "ts_ms": ts >> LOGICAL_BITS}
        names = {"snapshot": "false", "db": schema, "table": table, "server_id": 0, "gtid": None, "file": "", "pos": 0}
        return {**version, **names, "row": 0, "thread": 0, "query": None, "commit_ts": ts, "cluster_id": "default"}

    def statement(self, statement: Statement) -> Message:
        shape = statement.after or statement.before
        assert shape is not None
        kind = {"create table": "CREATE", "drop table": "DROP"}.get(statement.kind, "ALTER")
        table = None if statement.after is None else self._table(statement.after)
        change = {"type": kind, "id": f'"{shape.schema}"."{shape.name}"', "table": table}
        payload = {
            "source": self._source(shape.schema, shape.name, statement.commit_ts),
            "ts_ms": 0,
            "databaseName": shape.schema,
            "schemaName": None,
            "ddl": statement.query,
            "tableChanges": [change],
        }
        return _text({"payload": {"databaseName": shape.schema}}), _text({"payload": payload})

    def _table(self, shape: Shape) -> dict[str, Any]:
        columns = [self._column(column, number) for number, column in enumerate(shape.columns, start=1)]
        keys = [shape.key] if shape.key else []
        return {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": keys, "columns": columns, "comment": None}

    def _column(self, column: Column, position: int) -> dict[str, Any]:
        kind, _, length = column.type.rstrip(")").partition("(")
        default = None if column.default is None else str(column.default)
        return {
            "name": column.name, "jdbcType": CanalJson._SQL_TYPES[kind], "nativeType": None,
            "comment": None, "defaultValueExpression": default, "enumValues": None, "typeName": kind,
            "typeExpression": kind, "charsetName": "utf8mb4" if length else None,
            "length": int(length) if length else None, "scale": None, "position": position,
            "optional": column.nullable, "autoIncremented": False, "generated": False,
        }  # fmt: skip

    def watermark(self, ts: int) -> Message:
        payload = {"source": self._source("", "", ts), "ts_ms": 0, "transaction": None, "op": "m"}
        return _text({"payload": {}}), _text({"payload": payload})

    def bootstrap(self, shape: Shape) -> Message | None:
        return None


WIRES: list[Wire] = [OpenProtocol(), CanalJson(), SimpleJson(), Debezium()]
