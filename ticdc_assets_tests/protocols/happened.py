"""The changes of a log, typed: what decoders must reproduce.

Reads CREATE TABLE texts and log values on its own, without the code under test.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, Partitioning, TableSchema
from ticdc_assets_tests.fixtures import Workload

_NAME = r"`((?:[^`]|``)+)`"
_COLUMN = re.compile(rf"{_NAME} ([A-Z]+)(?:\(((?:'(?:[^']|'')*'|[^')])*)\))?(.*)", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")


class Change(NamedTuple):
    """One change as a consumer must see it; images are sorted (name, typed value) pairs."""

    schema: str
    table: str
    op: str
    commit_ts: int
    new: tuple[tuple[str, Any], ...] | None
    old: tuple[tuple[str, Any], ...] | None
    partitioned: bool = False


@dataclass(frozen=True)
class Tables:
    """The shape of every table over time."""

    versions: Mapping[tuple[str, str], list[tuple[int, TableSchema]]]

    def as_of(self, schema: str, table: str, commit_ts: int) -> TableSchema:
        return [shape for since, shape in self.versions[schema, table] if since < commit_ts][-1]


def tables(events: list[dict[str, Any]]) -> Tables:
    """The tables of a log, from its CREATE TABLE texts."""
    versions: dict[tuple[str, str], list[tuple[int, TableSchema]]] = defaultdict(list)
    for event in events:
        if event["kind"] in ("ddl", "exists") and event["table"] and not event.get("replay"):
            _apply(event, versions)
    return Tables(versions)


def _apply(event: dict[str, Any], versions: dict[tuple[str, str], list[tuple[int, TableSchema]]]) -> None:
    name = (event["schema"], event["table"])
    if event["type"] == "rename table":
        new = (event.get("new_schema", name[0]), event["new_table"])
        versions[new].append((event["commit_ts"], versions[name][-1][1]))
    elif text := event.get("create_after") or (event["query"] if event["type"] == "create table" else None):
        versions[name].append((event["commit_ts"], parse_create(text, *name)))


def parse_create(text: str, schema: str, name: str) -> TableSchema:
    body = text[text.index("(") + 1 :]
    columns, indexes = [], []
    for part in _parts(body):
        if part.startswith("`"):
            columns.append(_column(part))
            if " PRIMARY KEY" in part:
                indexes.append(Index("PRIMARY", (columns[-1].name,), unique=True, primary=True))
        elif part.startswith(("PRIMARY KEY", "UNIQUE")):
            listed = part[part.index("(") :]
            names = tuple(found.replace("``", "`") for found in re.findall(_NAME, listed[: listed.index(")")]))
            indexes.append(Index(part.split("(")[0].strip(), names, unique=True, primary=part.startswith("PRIMARY")))
    primary = {n for index in indexes if index.primary for n in index.columns}
    columns = [replace(c, nullable=c.nullable and c.name not in primary) for c in columns]
    partitioning = Partitioning("any") if ") PARTITION BY " in text else None
    return TableSchema(schema, name, tuple(columns), tuple(indexes), partitioning)


def _parts(body: str) -> Iterator[str]:
    """The comma-separated parts up to the closing parenthesis, quotes and nesting respected."""
    depth, start, quote = 0, 0, ""
    for i, char in enumerate(body):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'`":
            quote = char
        elif char == "(":
            depth += 1
        elif char in ",)" and depth == 0:
            yield body[start:i].strip()
            if char == ")":
                return
            start = i + 1
        elif char == ")":
            depth -= 1


def _column(part: str) -> Column:
    found = _COLUMN.fullmatch(part)
    assert found, part
    name, kind, inside, rest = found.groups()
    binary = "CHARACTER SET BINARY" in rest
    kind = {"CHAR": "BINARY", "VARCHAR": "VARBINARY", "TEXT": "BLOB"}.get(kind, kind) if binary else kind
    numbers = [int(n) for n in re.findall(r"\d+", inside or "")] if kind not in ("ENUM", "SET") else []
    labels = tuple(x.replace("''", "'") for x in _LABEL.findall(inside or "")) if kind in ("ENUM", "SET") else None
    length = numbers[0] if numbers else {"DECIMAL": 10, "BIT": 1}.get(kind)
    scale = numbers[1] if len(numbers) > 1 else 0 if kind == "DECIMAL" else None
    column_type = MySqlType(Kind(kind), length, scale, "UNSIGNED" in rest.split(" DEFAULT ")[0], labels)
    default = Default(rest.partition(" DEFAULT ")[2]) if " DEFAULT " in rest else None
    nullable = "NOT NULL" not in rest
    return Column(name.replace("``", "`"), column_type, nullable, default, virtual=rest.endswith("VIRTUAL"))


def typed(column: Column, given: Any, zone: str) -> Any:
    """The canonical value of a log's value."""
    if given is None:
        return None
    kind = column.type.kind
    if isinstance(given, dict):
        return b64decode(given["b64"])
    if kind is Kind.FLOAT:
        return struct.unpack("f", struct.pack("f", given))[0]
    if kind is Kind.DOUBLE:
        return float(given)
    if kind is Kind.DECIMAL:
        return Decimal(given) if column.type.length <= 38 else given
    if kind is Kind.ENUM:
        return column.type.elements[given - 1] if given else ""
    if kind is Kind.SET:
        return ",".join(label for i, label in enumerate(column.type.elements) if given >> i & 1)
    if kind is Kind.VECTOR:
        return tuple(struct.unpack("f", struct.pack("f", float(x)))[0] for x in given.strip("[]").split(",") if x)
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _time(kind, given, zone)
    return given


def _time(kind: Kind, given: str, zone: str) -> Any:
    if given.startswith("0000-00-00"):
        return None
    if kind is Kind.DATE:
        return date.fromisoformat(given)
    found = datetime.fromisoformat(given)
    return found if kind is Kind.DATETIME else found.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def image(shape: TableSchema, row: Mapping[str, Any] | None, zone: str) -> tuple[tuple[str, Any], ...] | None:
    if row is None:
        return None
    return tuple(sorted((name, typed(shape.column(name), each, zone)) for name, each in row.items()))


def changes(workload: Workload) -> list[Change]:
    """Every change of a log in its order; updates that move a handle or unique key as DELETE and INSERT."""
    shapes = tables(workload.events)
    return [c for e in workload.events if e["kind"] == "dml" for c in _changes(e, shapes, workload.time_zone)]


def _changes(event: dict[str, Any], shapes: Tables, zone: str) -> Iterator[Change]:
    name = (event["schema"], event["table"])
    shape = shapes.as_of(*name, event["commit_ts"])
    old, new = (image(shape, event.get(k), zone) for k in ("pre", "row"))
    at = (event["commit_ts"],)
    partitioned = shape.partitioning is not None
    if old and new and not _moves_key(shape, event):
        yield Change(*name, "U", *at, new, old, partitioned)
        return
    if old:
        yield Change(*name, "D", *at, old, None, partitioned)
    if new:
        yield Change(*name, "I", *at, new, None, partitioned)


def _moves_key(shape: TableSchema, event: dict[str, Any]) -> bool:
    unique = {column for index in shape.indexes for column in index.columns}
    return any(event["pre"].get(column) != event["row"].get(column) for column in unique)


def statements(workload: Workload) -> list[tuple[int, str, str, str]]:
    """(commit_ts, schema, table, text) of every DDL as TiCDC sends it: new names after a rename, DROP TABLE rebuilt."""
    return [
        (e["commit_ts"], e.get("new_schema", e["schema"]), e.get("new_table", e["table"]), _query_sent(e))
        for e in workload.events
        if e["kind"] == "ddl"
    ]


def _query_sent(event: dict[str, Any]) -> str:
    dropped = f"DROP TABLE `{event['schema']}`.`{event['table']}`"
    return dropped if event["type"] == "drop table" else event["query"]


def watermarks(workload: Workload) -> list[int]:
    return [e["ts"] for e in workload.events if e["kind"] == "resolved"]
