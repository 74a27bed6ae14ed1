"""The reference decoder of Canal-JSON messages and storage files.

It reads the forms of TiCDC and of Alibaba's Canal: one or more rows in `data`; all old columns or only the changed ones
in `old`; a deleted row in `data` or, before v5.4.0, in `old`; with or without the `_tidb` extension. Values stay text.
Numbers and nested values instead of text are refused, as is anything but one whole JSON object.

TiCDC writes `id` first, as 0, and with the extension commit_ts and watermarks in `_tidb`. Canal's `id` counts batches
from 1, its members are sorted by name (`data` first), and newer versions add `gtid`. Canal sends the execution time in
whole seconds (`es`), the user's text of statements, snapshot rows as INIT, and messages without rows: for transactions,
and for statements whose rows come in other messages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete
from ticdc_assets.protocols.events import Event, Op, RowEvent, RowHints, RowTime, WatermarkEvent
from ticdc_assets.protocols.formats.limits import MESSAGE_BYTES_MAX, ROWS_PER_MESSAGE_MAX
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.protocols.values.text import value as text_value
from ticdc_assets.schema.ddl_event import FROM_TICDC, DdlEvent, DdlOrigin
from ticdc_assets.schema.model import Column
from ticdc_assets.tso import INT64_MAX, LOGICAL_BITS

WATERMARK: Final = "TIDB_WATERMARK"
OPS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}

_INIT: Final = "INIT"
_STATEMENTS: Final = frozenset(
    ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY", "INIT-DDL", "MINDEX", "DDL")
)
_WITHOUT_ROW: Final = frozenset(("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "HEARTBEAT", "QUERY"))
_UNDATED: Final = (
    "The row is not read. Look for another writer to the topic; if the changefeed writes without the extension, set "
    "enable-tidb-extension=false here, in a changefeed of another name, with another `target`."
)
_UNDATED_DDL: Final = (
    "expected a commit_ts in _tidb.commitTs of the statement, as under enable-tidb-extension, found none: rows of its "
    "millisecond may be of before it or of after it. Look for another writer to the topic; if the changefeed writes "
    "without the extension, set enable-tidb-extension=false here, in a changefeed of another name, with another "
    "`target`."
)
_PATH_SEPARATOR: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Hint:
    """The type of a column in a message: MySQL's type name (Canal adds parameters) and Java's SQL type code."""

    mysql_type: str | None
    sql_type: int | None


def decode(value: bytes, where: str, is_dated: bool = False) -> Iterator[Event]:
    """The events of one message: one, or one per row of a message of Alibaba's Canal.

    If all rows of the stream must have a commit_ts (`is_dated`), a row without one raises DecodeError, and a statement
    without one has a fault.
    """
    message = _object(value, where)
    official = _is_official(message)
    if official:
        message = _as_read(message)
    if _flag(message, "isDdl", where):
        undated = is_dated and message.get("_tidb") is None
        yield _undated_ddl(message, where) if undated else _ddl(message, where, official)
    elif message.get("type") == WATERMARK:
        yield WatermarkEvent(_tso(_extension(message, where), "watermarkTs", where))
    elif not (official and _has_no_row(message)):
        yield from _rows(message, where, official, is_dated)


def read_file(data: bytes, where: str) -> Iterator[tuple[int, RowEvent] | BadRecord | Incomplete]:
    """The row changes of a storage file, each with the ordinal of its line; empty lines are counted and skipped."""
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines):
        if line in (b"", b"\r"):
            continue
        try:
            events = [_row_event(event, where) for event in decode(line.removesuffix(b"\r"), f"{where}, line {number}")]
        except DecodeError as error:
            yield BadRecord(number, line + b"\n", error)
        else:
            yield from ((number, event) for event in events)
    if rest:
        yield Incomplete(len(lines))


def record_bytes(data: bytes, lines: Collection[int]) -> dict[int, bytes]:
    """The bytes of the lines with these ordinals, including their line ends."""
    return {number: line + b"\n" for number, line in enumerate(data.split(b"\n")) if number in lines}


@lru_cache(maxsize=64)
def forms(zone: str) -> TextForms:
    """The form of Canal-JSON values: bytes as Latin-1 text, ENUM and SET as numbers, TIMESTAMPs in `zone`."""
    return TextForms(binary="latin1", enum="number", zone=zone)


def value(column: Column, wire: str | None, zone: str = "UTC") -> Any:
    """The canonical value of a column from its wire text."""
    return text_value(column.type, wire, forms(zone))


def _object(value: bytes, where: str) -> dict[str, Any]:
    if len(value) > MESSAGE_BYTES_MAX:
        raise _error(where, f"at most {MESSAGE_BYTES_MAX} bytes", f"{len(value)} bytes")
    try:
        message = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise _error(where, "a JSON object", f"something else from character {error.pos} on") from None
    if not isinstance(message, dict):
        raise _error(where, "a JSON object", _kind(message))
    return message


def _ddl(message: dict[str, Any], where: str, official: bool) -> DdlEvent:
    """A statement. Without the extension, its commit_ts is the last TSO of the commit's millisecond, which is after all
    its rows."""
    extension = _extension(message, where)
    commit_ms = _commit_ms(message, where) if message.get("_tidb") is None else None
    if official:
        commit_ts = 0
    elif message.get("_tidb") is not None:
        commit_ts = _tso(extension, "commitTs", where)
    elif commit_ms is not None:
        commit_ts = (commit_ms + 1 << LOGICAL_BITS) - 1
    else:
        raise _error(where, "es or _tidb.commitTs in a DDL", "neither")
    return DdlEvent(
        commit_ts=commit_ts,
        schema=_text(message, "database", where),
        table=_text(message, "table", where),
        query=_text(message, "sql", where),
        where=where,
        origin=DdlOrigin(True, commit_ms, _sent_ms(message)) if official else FROM_TICDC,
    )


def _undated_ddl(message: dict[str, Any], where: str) -> DdlEvent:
    """A statement without a commit_ts in a stream whose rows have one; its order in its millisecond is unknown."""
    event = _ddl(message, where, official=False)
    return replace(event, commit_ts=(event.commit_ts >> LOGICAL_BITS << LOGICAL_BITS) - 1, fault=_UNDATED_DDL)


def _rows(message: dict[str, Any], where: str, official: bool, is_dated: bool) -> Iterator[RowEvent]:
    kind = _text(message, "type", where)
    op = Op.INSERT if kind == _INIT else OPS.get(kind)
    if op is None:
        raise _error(where, f"type INSERT, UPDATE, DELETE or {WATERMARK}", "another type")
    data, old = _images(message, "data", where), _images(message, "old", where)
    new_images = data if data or op is not Op.DELETE else old
    if not new_images and official and message.get("sql"):
        raise DecodeError(where, "a row in data", "a statement alone", "Set binlog_format=ROW; its rows are not here.")
    if not new_images:
        raise _error(where, "a row in data", "none")
    old_images: list[dict[str, str | None]] | list[None] = old if op is Op.UPDATE and old else [None] * len(new_images)
    if len(old_images) != len(new_images):
        raise _error(where, "as many rows in old as in data", f"{len(old_images)} and {len(new_images)}")
    common = _common(message, op, where, official)
    if is_dated and common["commit_ts"] is None:
        raise DecodeError(where, "a commit_ts in _tidb.commitTs, as under enable-tidb-extension", "none", _UNDATED)
    for new, before in zip(new_images, old_images, strict=True):
        partial = before is not None and not before.keys() >= new.keys()
        yield RowEvent(**common, wire=new, before=before, before_is_partial=partial)


def _common(message: dict[str, Any], op: Op, where: str, official: bool) -> dict[str, Any]:
    extension = _extension(message, where)
    return {
        "schema": _text(message, "database", where),
        "table": _text(message, "table", where),
        "op": op,
        "commit_ts": _tso(extension, "commitTs", where) if extension else None,
        "time": RowTime(_commit_ms(message, where), _sent_ms(message) if official else None, by_position=official),
        "handle_only": _flag(extension, "onlyHandleKey", where),
        "claim": _claim(extension, where),
        "hints": RowHints(_key(message, where), columns=_hints(message, where)),
    }


def _images(message: dict[str, Any], name: str, where: str) -> list[dict[str, str | None]]:
    rows = message.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list) or len(rows) > ROWS_PER_MESSAGE_MAX:
        raise _error(where, f"a list of at most {ROWS_PER_MESSAGE_MAX} rows in {name}", _kind(rows))
    if all(row is None for row in rows):
        return []  # TiCDC 5.1 to 5.3 writes [null] where there is no row
    for row in rows:
        if not isinstance(row, dict) or not all(v is None or isinstance(v, str) for v in row.values()):
            raise _error(where, f"objects of text or null in {name}", "a value of another type")
    return rows


def _extension(message: dict[str, Any], where: str) -> dict[str, Any]:
    extension = message.get("_tidb")
    if extension is None:
        return {}
    if not isinstance(extension, dict):
        raise _error(where, "an object in _tidb", _kind(extension))
    return extension


def _tso(extension: dict[str, Any], name: str, where: str) -> int:
    tso = extension.get(name)
    if type(tso) is not int or not 0 <= tso <= INT64_MAX:
        raise _error(where, f"a TSO in _tidb.{name}", _kind(tso))
    return tso


def _commit_ms(message: dict[str, Any], where: str) -> int | None:
    es = message.get("es")
    if es is not None and (type(es) is not int or not 0 <= es <= INT64_MAX >> 18):
        raise _error(where, "milliseconds since 1970 in es", _kind(es))
    return es


def _sent_ms(message: dict[str, Any]) -> int | None:
    sent = message.get("ts")
    return sent if type(sent) is int and 0 <= sent <= INT64_MAX >> 18 else None


def _key(message: dict[str, Any], where: str) -> tuple[str, ...] | None:
    """The handle key in pkNames; None if empty, which is also the case if the handle key is a unique key."""
    names = message.get("pkNames")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise _error(where, "a list of names in pkNames", _kind(names))
    return tuple(names) if names else None


def _claim(extension: dict[str, Any], where: str) -> str | None:
    location = extension.get("claimCheckLocation")
    if location is None or location == "":
        return None
    if not isinstance(location, str):
        raise _error(where, "text in _tidb.claimCheckLocation", _kind(location))
    name = _PATH_SEPARATOR.split(location)[-1]
    if name in ("", ".", ".."):
        raise _error(where, "the place of a file in _tidb.claimCheckLocation", "none")
    return name


def _hints(message: dict[str, Any], where: str) -> dict[str, Hint]:
    mysql_types, sql_types = _types(message, "mysqlType", str, where), _types(message, "sqlType", int, where)
    return {name: Hint(mysql_types.get(name), sql_types.get(name)) for name in {**sql_types, **mysql_types}}


def _types(message: dict[str, Any], name: str, kind: type, where: str) -> dict[str, Any]:
    types = message.get(name)
    if types is None:
        return {}
    if not isinstance(types, dict) or not all(type(code) is kind for code in types.values()):
        raise _error(where, f"an object of types in {name}", "a value of another type")
    return types


def _text(message: dict[str, Any], name: str, where: str) -> str:
    text = message.get(name)
    if not isinstance(text, str):
        raise _error(where, f"text in {name}", _kind(text))
    return text


def _flag(message: dict[str, Any], name: str, where: str) -> bool:
    flag = message.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise _error(where, f"true or false in {name}", _kind(flag))
    return bool(flag)


def _row_event(event: Event, where: str) -> RowEvent:
    if not isinstance(event, RowEvent):
        raise _error(where, "a row change", "another event")
    return event


# -- messages of Alibaba's Canal --------------------------------------------------------------------------------------


def _is_official(message: dict[str, Any]) -> bool:
    """Whether Canal, not TiCDC, wrote a message."""
    if message.get("_tidb") is not None:
        return False
    batch = message.get("id")
    return "gtid" in message or next(iter(message), "") == "data" or type(batch) is not int or batch != 0


def _as_read(message: dict[str, Any]) -> dict[str, Any]:
    """The message with null names as empty text, and with every statement marked as DDL."""
    names = {name: "" for name in ("database", "table", "sql") if message.get(name) is None}
    is_statement = _is_of(message, _STATEMENTS) and bool(message.get("sql")) and not message.get("data")
    return {**message, **names, "isDdl": True if is_statement else message.get("isDdl")}


def _has_no_row(message: dict[str, Any]) -> bool:
    """Whether a message that is not a DDL statement has no row."""
    return _is_of(message, _WITHOUT_ROW) and not message.get("data")


def _is_of(message: dict[str, Any], kinds: frozenset[str]) -> bool:
    kind = message.get("type")
    return isinstance(kind, str) and kind in kinds


# -- errors -----------------------------------------------------------------------------------------------------------


def _kind(thing: object) -> str:
    return "nothing" if thing is None else f"a JSON {type(thing).__name__}"


def _error(where: str, expected: str, found: str) -> DecodeError:
    advice = "Check that the changefeed's protocol is canal-json; the message is kept."
    return DecodeError(where, expected, found, advice)
