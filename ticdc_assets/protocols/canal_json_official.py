"""Messages of Alibaba's Canal: what tells them from TiCDC's Canal-JSON, and what they say in another way.

TiCDC always writes `id` first, as 0, and its commit_ts and watermarks in `_tidb` where it has the extension. Canal's
`id` counts batches from 1, its members are sorted by name (`data` first), and newer ones have a `gtid`. Canal tells
when a statement was executed in whole seconds (`es`), sends statements as users wrote them, snapshot rows as INIT, and
messages without any row: of a transaction, or a statement of which the rows come besides.
"""

from __future__ import annotations

from typing import Any, Final

INIT: Final = "INIT"
_STATEMENTS: Final = frozenset(
    ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY", "INIT-DDL", "MINDEX", "DDL")
)
_WITHOUT_ROW: Final = frozenset(("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "HEARTBEAT", "QUERY"))


def is_official(message: dict[str, Any]) -> bool:
    """Whether no TiCDC wrote a message."""
    if message.get("_tidb") is not None:
        return False
    batch = message.get("id")
    return "gtid" in message or next(iter(message), "") == "data" or type(batch) is not int or batch != 0


def as_read(message: dict[str, Any]) -> dict[str, Any]:
    """The message with names as text, and a statement marked as one, however it came."""
    names = {name: "" for name in ("database", "table", "sql") if message.get(name) is None}
    is_statement = _is_of(message, _STATEMENTS) and bool(message.get("sql")) and not message.get("data")
    return {**message, **names, "isDdl": True if is_statement else message.get("isDdl")}


def tells_no_row(message: dict[str, Any]) -> bool:
    """Whether a message that is no statement is none of a row either."""
    return _is_of(message, _WITHOUT_ROW) and not message.get("data")


def _is_of(message: dict[str, Any], kinds: frozenset[str]) -> bool:
    kind = message.get("type")
    return isinstance(kind, str) and kind in kinds
