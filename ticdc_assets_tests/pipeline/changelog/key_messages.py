"""Messages of rows and statements of a table with a given key."""

from __future__ import annotations

import json
from typing import Any


def message(op: str, row: dict[str, Any], kind: str, ts: int, old: dict[str, Any] | None = None) -> tuple[None, bytes]:
    """A row of the table `a` in Canal-JSON, as TiCDC writes it."""
    body = {
        "id": 0, "database": "s", "table": "a", "pkNames": ["k"], "isDdl": False,
        "type": {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[op], "es": ts >> 18, "ts": 0, "sql": "",
        "sqlType": {"k": 91, "id": 4}, "mysqlType": {"k": kind.partition("(")[0].lower(), "id": "int"},
        "old": None if old is None else [old], "data": [row], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return None, json.dumps(body, separators=(",", ":")).encode()


def statement(query: str, ts: int) -> tuple[None, bytes]:
    body = {
        "id": 0, "database": "s", "table": "a", "pkNames": None, "isDdl": True, "type": "CREATE", "es": ts >> 18,
        "ts": 0, "sql": query, "sqlType": None, "mysqlType": None, "data": None, "old": None, "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return None, json.dumps(body, separators=(",", ":")).encode()
