"""Dumps of true tables in Dumpling's own form."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.arrow_types import BINARY_KINDS, bit_width
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.truth import truth_types

METADATA = """Started dump at: 2026-11-23 16:04:57
SHOW MASTER STATUS:
	Log: tidb-binlog
	Pos: {}
	GTID:

Finished dump at: 2026-11-23 16:04:57
"""
_HEAD = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
_NUMBERS = {
    Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL,
}  # fmt: skip
_SQL = {0: b"\\0", 10: b"\\n", 13: b"\\r", 92: b"\\\\", 39: b"\\'", 34: b'\\"', 26: b"\\Z"}
_CSV = {0: b"\\0", 10: b"\\n", 13: b"\\r", 92: b"\\\\", 34: b'\\"'}


def write_dump(folder: Path, entries: Iterable[Mapping[str, Any]], ts: int, kind: str = "sql", rows: int = 40) -> Path:
    """A dump of these tables of a truth file, with so many rows in each file; CSV is compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(METADATA.format(ts))
    for entry in entries:
        name = f"{_escaped(entry['schema'])}.{_escaped(entry['table'])}"
        (folder / f"{_escaped(entry['schema'])}-schema-create.sql").write_text(
            f"{_HEAD}CREATE DATABASE `{entry['schema']}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n"
        )
        (folder / f"{name}-schema.sql").write_text(f"{_HEAD}{entry['create']};\n")
        types = truth_types(entry)
        for number, first in enumerate(range(0, len(entry["rows"]), rows)):
            some = [[row.get(column) for column in types] for row in entry["rows"][first : first + rows]]
            if kind == "sql":
                (folder / f"{name}.{number:09d}.sql").write_bytes(_inserts(entry["table"], types, some))
            else:
                (folder / f"{name}.{number:09d}.csv.gz").write_bytes(gzip.compress(_csv(types, some)))
    return folder


def _escaped(name: str) -> str:
    return re.sub(r'[\x00-\x1f%"*./:<>?\\|]|-(?=(?i:schema))', lambda found: f"%{ord(found[0]):02X}", name)


def _inserts(table: str, types: Mapping[str, MySqlType], rows: list[list[Any]]) -> bytes:
    columns = ",".join(f"`{name.replace('`', '``')}`" for name in types)
    lines = [
        b"(" + b",".join(_literal(t, cell) for t, cell in zip(types.values(), row, strict=True)) + b")" for row in rows
    ]
    return _HEAD.encode() + f"INSERT INTO `{table}` ({columns}) VALUES\n".encode() + b",\n".join(lines) + b";\n"


def _literal(of: MySqlType, cell: Any) -> bytes:
    if cell is None:
        return b"NULL"
    text = _bytes(of, cell)
    if of.kind in BINARY_KINDS or of.kind is Kind.BIT:
        return b"x'" + text.hex().encode() + b"'"
    return text if of.kind in _NUMBERS else b"'" + b"".join(_SQL.get(byte, bytes([byte])) for byte in text) + b"'"


def _csv(types: Mapping[str, MySqlType], rows: list[list[Any]]) -> bytes:
    lines = [b",".join(_quoted(name.encode()) for name in types)]
    lines += [b",".join(_field(t, cell) for t, cell in zip(types.values(), row, strict=True)) for row in rows]
    return b"".join(line + b"\r\n" for line in lines)


def _field(of: MySqlType, cell: Any) -> bytes:
    return b"\\N" if cell is None else _bytes(of, cell) if of.kind in _NUMBERS else _quoted(_bytes(of, cell))


def _quoted(text: bytes) -> bytes:
    return b'"' + b"".join(_CSV.get(byte, bytes([byte])) for byte in text) + b'"'


def _bytes(of: MySqlType, cell: Any) -> bytes:
    """A value of a truth file as TiDB sends it as text."""
    if isinstance(cell, dict):
        return base64.b64decode(cell["b64"])
    if of.kind is Kind.BIT:
        return int(cell).to_bytes((bit_width(of) + 7) // 8)
    if of.kind in (Kind.ENUM, Kind.SET):
        return str(value(of, str(cell), TextForms(binary="raw", enum="number"))).encode()
    return str(cell).encode()
