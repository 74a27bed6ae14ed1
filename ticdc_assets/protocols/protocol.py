"""The interface of a message protocol. `protocols.registry` has the entry of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.events import Event, RowEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.schema.model import Column, TableSchema

Decode = Callable[[bytes | None, bytes | None, str, "DecoderOptions"], Iterator[Event]]
OpenClaim = Callable[[bytes, str, "DecoderOptions"], Iterator[Event]]
SchemaLookup = Callable[[int], str]
Value = Callable[[Column, Any, str], Any]
Infer = Callable[[RowEvent], TableSchema]
Recognise = Callable[[Mapping[str, Any]], frozenset[str] | None]

EXTENSION: Final = "enable-tidb-extension"
CONTENT_COMPATIBLE: Final = "content-compatible"
SCHEMA_BLOCK: Final = "debezium-schema"


def no_schemas(schema_id: int) -> str:
    """The lookup of a stream without a registry."""
    raise LookupError(schema_id)


@dataclass(frozen=True, slots=True)
class DecoderOptions:
    """The settings of a changefeed that affect how messages are decoded, with TiCDC's names and meanings.

    has_commit_ts: whether every row of Canal-JSON must have a commit_ts.
    output_old_value: if false, an UPDATE of the Open Protocol has no old values, so it looks like an INSERT.
    only_output_updated_columns: if true, an UPDATE of the Open Protocol has no old values if no sent column changes.
    schemas: (id) to the text of the registered Avro schema. LookupError if there is none.
    table: the database and name of the table of Avro messages if they are known from the topic.
    """

    compression: Compression = Compression.NONE
    claim_check_raw_value: bool = False
    has_commit_ts: bool = False
    output_old_value: bool = True
    only_output_updated_columns: bool = False
    binary_handling_mode: str = "base64"
    schemas: SchemaLookup = no_schemas
    table: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class MessageProtocol:
    """The functions of one protocol.

    name: the name in TiCDC's sink URI (`protocol=`).
    title: the name for display.
    decode: (key, value, where, options) to the events of a message. Raises DecodeError, and nothing else, on any bytes.
    value: (column, wire value, time zone) to the value in the lake. Raises DecodeError.
    open_claim: (data, where, options) to the events of a claim-check file; None if the protocol has none.
    infer: (row) to the schema of its table as far as a row shows it; None if rows of the protocol carry no types.
    bulk: the decoder for whole batches of messages; None if there is only the reference decoder.
    values: (options) to the `value` function for them; None if the form of values does not depend on options.
    recognise: (JSON object) to the options of TiCDC that it shows; None if it is no message of this protocol. It never
        raises an error. None for protocols whose messages are not JSON objects.
    has_utc_times: whether TIMESTAMPs are always in UTC, independent of TiCDC's time zone.
    has_one_commit: whether all rows of a message have the same commit_ts.
    """

    name: str
    title: str
    decode: Decode
    value: Value
    open_claim: OpenClaim | None = None
    infer: Infer | None = None
    bulk: Bulk | None = None
    values: Callable[[DecoderOptions], Value] | None = None
    recognise: Recognise | None = None
    has_utc_times: bool = False
    has_one_commit: bool = False

    def zone_of_times(self, zone: str) -> str:
        """The time zone of TIMESTAMPs that name none; `zone` is TiCDC's time zone."""
        return "UTC" if self.has_utc_times else zone

    def value_under(self, options: DecoderOptions) -> Value:
        """The function that converts wire values of a stream with these options."""
        return self.values(options) if self.values is not None else self.value
