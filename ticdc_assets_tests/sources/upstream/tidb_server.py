"""A stand-in for TiDB on the loopback interface: MySQL's protocol, SELECT by key at `tidb_snapshot`, rows of a log.

It answers as TiDB would for the rows of a log, in TiDB's text forms (labels for ENUM and SET, raw bytes for
BIT, TIMESTAMP in the session's zone), and refuses whatever is neither SET nor such a SELECT. Statements are read by
sqlglot, and not by the code under test.
"""

from __future__ import annotations

import hashlib
import re
import socketserver
import ssl
import struct
import sys
import threading
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import sqlglot
from sqlglot import exp

from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols.happened import tables

USER, PASSWORD = "reader", "tidb-pa%ss'word"
HANG, CLOSE, STEAL = (0, "hang"), (0, "close"), (0, "steal")
"""What a server may do instead of answering."""

Fault = tuple[int, str]
OnStatement = Callable[[str], Fault | None]

_CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x200000
_SSL = 0x800
_SALT = b"abcdefgh" + b"ijklmnopqrst"


class Refused(Exception):
    """Raised for a statement that is answered with an error."""


# -- what is in it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A row as a log tells it, with the shape its table had."""

    shape: TableSchema
    row: Mapping[str, Any]


@dataclass
class Snapshots:
    """The rows of a log that were written at a TSO or overwritten right after it, and the log's time zone."""

    zone: str = "UTC"
    names: set[tuple[str, str]] = field(default_factory=set)
    rows: dict[tuple[str, str, int], list[Stored]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, workload: Workload) -> Snapshots:
        found, shapes = cls(workload.time_zone), tables(workload.events)
        for event in workload.events:
            if event["kind"] == "dml":
                name = (event["schema"], event["table"])
                found.add(shapes.as_of(*name, event["commit_ts"]), event["commit_ts"], event.get("row"))
                found.add(shapes.as_of(*name, event["commit_ts"]), event["commit_ts"] - 1, event.get("pre"))
        return found

    def add(self, shape: TableSchema, ts: int, row: Mapping[str, Any] | None) -> None:
        name = (shape.schema.lower(), shape.name.lower())
        self.names.add(name)
        stored = self.rows[*name, ts]
        if row is not None and Stored(shape, row) not in stored:
            stored.append(Stored(shape, row))


# -- SQL --------------------------------------------------------------------------------------------------------------


def set_variables(statement: str) -> dict[str, str]:
    """The variables of a SET statement, in lower case."""
    parsed = sqlglot.parse_one(statement, read="mysql")
    if not isinstance(parsed, exp.Set):
        raise Refused(1064, "no SET")
    found = {}
    for item in parsed.expressions:
        if isinstance(item.this, exp.EQ):
            found[item.this.this.name.lower()] = item.this.expression.name
    return found


def selected(statement: str, snapshots: Snapshots, ts: int, zone: str) -> list[list[bytes | None]]:
    """The rows that a SELECT by key finds at a TSO."""
    parsed = sqlglot.parse_one(statement, read="mysql")
    table, where = parsed.find(exp.Table), parsed.args.get("where")
    if not isinstance(parsed, exp.Select) or table is None or where is None:
        raise Refused(1064, "no SELECT by key")
    name = (table.db.lower(), table.name.lower())
    if name not in snapshots.names:
        raise Refused(1146, f"Table '{table.db}.{table.name}' doesn't exist")
    found = [s for s in snapshots.rows.get((*name, ts), ()) if _holds(where.this, s, snapshots.zone, zone)]
    return [[_projected(p, stored, snapshots.zone, zone) for p in parsed.expressions] for stored in found]


def _holds(condition: exp.Expression, stored: Stored, log_zone: str, zone: str) -> bool:
    if isinstance(condition, exp.Paren):
        return _holds(condition.this, stored, log_zone, zone)
    if isinstance(condition, exp.Or | exp.And):
        sides = (_holds(side, stored, log_zone, zone) for side in (condition.left, condition.right))
        return any(sides) if isinstance(condition, exp.Or) else all(sides)
    assert isinstance(condition, exp.EQ)
    column = _column(condition.left, stored)
    cell = _text(column, stored.row[column.name], log_zone, zone)
    return cell is not None and _same(column, cell, condition.right)


def _same(column: Column, cell: bytes, literal: exp.Expression) -> bool:
    if isinstance(literal, exp.HexString):
        return cell == bytes.fromhex(literal.name)
    text = f"-{literal.this.name}" if isinstance(literal, exp.Neg) else literal.name
    kind = column.type.kind
    if kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return datetime.fromisoformat(cell.decode()) == datetime.fromisoformat(text)
    if kind is Kind.BIT:
        return int.from_bytes(cell, "big") == int(text)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return float(np.float32(cell.decode()) if kind is Kind.FLOAT else cell) == float(text)
    if literal.is_string:
        return cell == text.encode()
    return Decimal(cell.decode()) == Decimal(text)


def _column(expression: exp.Expression, stored: Stored) -> Column:
    column = stored.shape.column(expression.name)
    if not isinstance(expression, exp.Column) or column is None or column.name not in stored.row:
        raise Refused(1054, f"Unknown column '{expression.name}' in 'field list'")
    return column


def _projected(projection: exp.Expression, stored: Stored, log_zone: str, zone: str) -> bytes | None:
    if isinstance(projection, exp.Cast):
        column = _column(projection.this, stored)
        assert projection.to.this.value == "UBIGINT"
        assert column.type.kind in (Kind.ENUM, Kind.SET, Kind.BIT)
        value = stored.row[column.name]
        return None if value is None else str(value).encode()
    column = _column(projection, stored)
    return _text(column, stored.row[column.name], log_zone, zone)


def _text(column: Column, value: Any, log_zone: str, zone: str) -> bytes | None:
    """A value as TiDB writes it in an answer."""
    kind, elements = column.type.kind, column.type.elements or ()
    if value is None:
        return None
    if isinstance(value, dict):
        return b64decode(value["b64"])
    if kind is Kind.BIT:
        return int(value).to_bytes((column.type.length + 7) // 8, "big")
    if kind is Kind.ENUM:
        return (elements[value - 1] if value else "").encode()
    if kind is Kind.SET:
        return ",".join(label for bit, label in enumerate(elements) if value >> bit & 1).encode()
    if kind is Kind.FLOAT:
        return str(np.float32(value)).encode()
    if kind is Kind.YEAR:
        return f"{value:04}".encode()
    if kind is Kind.TIMESTAMP and not value.startswith("0000"):
        wall = datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(log_zone))
        fraction = value.partition(".")[2]
        moved = wall.astimezone(ZoneInfo("UTC" if zone == "+00:00" else zone)).strftime("%Y-%m-%d %H:%M:%S")
        return f"{moved}.{fraction}".encode() if fraction else moved.encode()
    return str(value).encode()


# -- the wire ---------------------------------------------------------------------------------------------------------


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        stand_in = self.server.stand_in
        try:
            if not self._login(stand_in):
                return
            self._session = {"tidb_snapshot": "0", "time_zone": "SYSTEM"}
            while (packet := self._read()) and packet[0] == 3:
                statement = packet[1:].decode()
                stand_in.asked.append(statement)
                fault = stand_in.on(statement)
                if fault == CLOSE:
                    return
                if fault == STEAL:
                    self._write(b"\xfb/etc/passwd")
                    stand_in.stolen += self._read().removeprefix(b"\x01")  # which says goodbye
                    return
                if fault == HANG:
                    stand_in.over.wait(30)
                    return
                try:
                    self._answer(stand_in, statement, fault)
                except Refused as refused:
                    self._error(*refused.args)
        except (ConnectionError, ssl.SSLError):
            return  # a client that goes away is what some tests are about

    def _answer(self, stand_in: TidbServer, statement: str, fault: Fault | None) -> None:
        if fault is not None:
            raise Refused(*fault)
        if re.match(r"(?i)set names ", statement):
            self._ok()
        elif statement.upper().startswith("SET "):
            self._session |= set_variables(statement)
            self._ok()
        else:
            ts, zone = int(self._session["tidb_snapshot"]), self._session["time_zone"]
            self._rows(selected(statement, stand_in.snapshots, ts, zone))

    def _login(self, stand_in: TidbServer) -> bool:
        capabilities = _CAPABILITIES | (_SSL if stand_in.context else 0)
        self._sequence = 0
        self._write(
            b"\x0a8.0.11-TiDB-v8.5.0\0" + struct.pack("<I", 1) + _SALT[:8] + b"\0"
            + struct.pack("<HBHHB", capabilities & 0xFFFF, 45, 2, capabilities >> 16, 21)
            + bytes(10) + _SALT[8:] + b"\0mysql_native_password\0"
        )  # fmt: skip
        packet = self._read()
        if len(packet) == 32 and stand_in.context:
            self.request = stand_in.context.wrap_socket(self.request, server_side=True)
            stand_in.encrypted += 1
            packet = self._read()
        if not packet:
            return False
        user, _, rest = packet[32:].partition(b"\0")
        scramble = rest[1 : 1 + rest[0]]
        if stand_in.clear_password:
            self._write(b"\xfemysql_clear_password\0")
            stand_in.stolen += self._read().removeprefix(b"\x01")
            return False
        if user.decode() != USER or scramble != _scramble(PASSWORD):
            self._error(1045, f"Access denied for user '{user.decode()}'")
            return False
        self._ok()
        return True

    def _ok(self) -> None:
        self._write(b"\0\0\0\x02\0\0\0")

    def _error(self, code: int, message: str) -> None:
        self._write(b"\xff" + struct.pack("<H", code) + b"#HY000" + message.encode())

    def _rows(self, rows: list[list[bytes | None]]) -> None:
        width = len(rows[0]) if rows else 1
        self._write(bytes([width]))
        for number in range(width):
            name = f"c{number}".encode()
            texts = b"".join(_lengthened(part) for part in (b"def", b"", b"", b"", name, name))
            self._write(texts + b"\x0c" + struct.pack("<HIBHB", 63, 1 << 24, 253, 0, 0) + b"\0\0")
        self._write(b"\xfe\0\0\x02\0")
        for row in rows:
            self._write(b"".join(b"\xfb" if cell is None else _lengthened(cell) for cell in row))
        self._write(b"\xfe\0\0\x02\0")

    def _write(self, payload: bytes) -> None:
        self.request.sendall(struct.pack("<I", len(payload))[:3] + bytes([self._sequence & 0xFF]) + payload)
        self._sequence += 1

    def _read(self) -> bytes:
        head = self._exactly(4)
        if not head:
            return b""
        self._sequence = head[3] + 1
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.request.recv(count - len(found))
            if not more:
                return b""
            found += more
        return found


def _lengthened(text: bytes) -> bytes:
    if len(text) < 251:
        return bytes([len(text)]) + text
    return (
        b"\xfc" + struct.pack("<H", len(text)) + text
        if len(text) < 1 << 16
        else (b"\xfd" + struct.pack("<I", len(text))[:3] + text)
    )


def _scramble(password: str) -> bytes:
    once = hashlib.sha1(password.encode()).digest()
    twice = hashlib.sha1(_SALT + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, twice, strict=True))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    stand_in: TidbServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What goes wrong in the stand-in itself is raised when it ends."""
        error = sys.exception()
        assert error is not None
        self.stand_in.own_faults.append(error)


class TidbServer:
    """A stand-in with the rows of `snapshots`; `asked` has all statements, `on` decides what goes wrong.

    With `clear_password` it wants the password as it is; `stolen` is what it got of things that it has no right to.
    """

    def __init__(self, snapshots: Snapshots, on: OnStatement | None = None, certificate: Path | None = None) -> None:
        self.snapshots = snapshots
        self.on: OnStatement = on or (lambda statement: None)
        self.asked: list[str] = []
        self.encrypted = 0
        self.clear_password = False
        self.stolen = b""
        self.own_faults: list[BaseException] = []
        self.over = threading.Event()
        self.context = None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.stand_in = self
        self.port = self._server.server_address[1]

    @property
    def config(self) -> dict[str, Any]:
        """`upstream` of a changefeed that names this server."""
        return {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD}

    @contextmanager
    def running(self) -> Iterator[TidbServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        except BaseException as error:
            raise (self.own_faults or [error])[0] from error
        finally:
            self.over.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)
        if self.own_faults:
            raise self.own_faults[0]
