"""Canal-JSON on Kafka: what a message has around it that a storage file's line has not.

The whole value may be compressed; a row that was too large names a claim-check file. A table of which no statement
was seen is known as far as its rows tell: `mysqlType`, with lengths and labels only under content-compatible.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols import canal_json
from ticdc_assets.protocols.canal_json import Hint
from ticdc_assets.protocols.events import Event, RowEvent
from ticdc_assets.protocols.frame import Compression, decompress, json_object
from ticdc_assets.schema.model import Column, Index, Kind, MySqlType, TableSchema
from ticdc_assets.schema.mysql_types import parse_type

_TODO: Final = "Check that the topic is written by TiCDC with protocol=canal-json and the configured compression."
_UNDATED: Final = (
    "The row is not read. Look for another writer to the topic; if the changefeed writes without the extension, say "
    "enable-tidb-extension=false here, in a changefeed of another name."
)
_TYPE_CHARS_MAX: Final = 64
_DECIMAL_DIGITS: Final = 65  # TiDB's widest; the plain form does not tell the precision


@dataclass(frozen=True, slots=True)
class Options:
    """What the changefeed's configuration says about the stream; `is_dated` where every row must have a commit_ts."""

    compression: Compression = Compression.NONE
    claim_check_raw_value: bool = False
    is_dated: bool = False


def decode(key: bytes | None, value: bytes | None, where: str, options: Options) -> Iterator[Event]:
    """The events of a message; the key says nothing."""
    if not value:
        raise DecodeError(where, "a message with a value", "none", _TODO)
    events = canal_json.decode(decompress(value, options.compression, where), where)
    return _dated(events, where) if options.is_dated else events


def _dated(events: Iterator[Event], where: str) -> Iterator[Event]:
    """The events. DecodeError for a row that its stream has no place for."""
    for event in events:
        if isinstance(event, RowEvent) and event.commit_ts is None:
            raise DecodeError(where, "a commit_ts in _tidb.commitTs, as under enable-tidb-extension", "none", _UNDATED)
        yield event


def open_claim(data: bytes, where: str, options: Options) -> Iterator[Event]:
    """The row of a claim-check file: `{"key": null, "value": base64}` around a whole message, or its bare value."""
    events = list(decode(None, data if options.claim_check_raw_value else _claimed(data, where), where, options))
    if any(not isinstance(event, RowEvent) or event.claim or event.handle_only for event in events):
        raise DecodeError(where, "a whole row in the claim-check file", "another message", _TODO)
    return iter(events)


def _claimed(data: bytes, where: str) -> bytes:
    try:
        return b64decode(json_object(data, where)["value"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise DecodeError(where, "`value` as base64 in the claim-check file", "none", _TODO) from None


def infer_table(schema: str, table: str, hints: Mapping[str, Any], key: tuple[str, ...] = ()) -> TableSchema:
    """The table as far as a row tells it; without pkNames it has no key."""
    columns = tuple(_column(name, hint, key) for name, hint in hints.items())
    index = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema(schema, table, columns, index, inferred=True)


def _column(name: str, hint: Hint, key: tuple[str, ...]) -> Column:
    if hint.mysql_type is None:
        raise SchemaError(f"column {name}", "its mysqlType", "none", "Give its CREATE TABLE in `schema_files`.")
    try:
        told = parse_type(hint.mysql_type)
    except SchemaError:
        todo = "Give its CREATE TABLE in `schema_files`."
        raise SchemaError(f"column {name}", "a type that is known", hint.mysql_type[:_TYPE_CHARS_MAX], todo) from None
    return Column(name, _widest(told), nullable=name not in key)


def _widest(told: MySqlType) -> MySqlType:
    """A type without its parameters, as wide as it can be."""
    if told.kind is Kind.DECIMAL and told.length is None:
        return MySqlType(Kind.DECIMAL, length=_DECIMAL_DIGITS, scale=30, unsigned=told.unsigned)
    if told.kind is Kind.BIT and told.length is None:
        return MySqlType(Kind.BIT, length=64)
    return told
