"""Messages of Alibaba's Canal: how they differ from TiCDC's Canal-JSON.

TiCDC writes `id` first, as 0, and with the extension commit_ts and watermarks in `_tidb`. Canal's `id` counts batches
from 1, its members are sorted by name (`data` first), and newer versions add `gtid`. Canal sends the execution time in
whole seconds (`es`), the user's text of statements, snapshot rows as INIT, and messages without rows: for transactions,
and for statements whose rows come in other messages.
"""

from __future__ import annotations

from typing import Any, Final

INIT: Final = "INIT"
_STATEMENTS: Final = frozenset(
    ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY", "INIT-DDL", "MINDEX", "DDL")
)
_WITHOUT_ROW: Final = frozenset(("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "HEARTBEAT", "QUERY"))


def is_official(message: dict[str, Any]) -> bool:
    """Whether Canal, not TiCDC, wrote a message."""
    if message.get("_tidb") is not None:
        return False
    batch = message.get("id")
    return "gtid" in message or next(iter(message), "") == "data" or type(batch) is not int or batch != 0


def as_read(message: dict[str, Any]) -> dict[str, Any]:
    """The message with null names as empty text, and with every statement marked as DDL."""
    names = {name: "" for name in ("database", "table", "sql") if message.get(name) is None}
    is_statement = _is_of(message, _STATEMENTS) and bool(message.get("sql")) and not message.get("data")
    return {**message, **names, "isDdl": True if is_statement else message.get("isDdl")}


def has_no_row(message: dict[str, Any]) -> bool:
    """Whether a message that is not a DDL statement has no row."""
    return _is_of(message, _WITHOUT_ROW) and not message.get("data")


def _is_of(message: dict[str, Any], kinds: frozenset[str]) -> bool:
    kind = message.get("type")
    return isinstance(kind, str) and kind in kinds
