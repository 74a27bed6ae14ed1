"""What a changefeed was given, in the words of the table of what streams cannot carry."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from ticdc_assets.config import Changefeed
from ticdc_assets.config.sink import LargeMessageOption, Protocol, SinkOptions
from ticdc_assets.protocols.carried import Gap, Given, gaps
from ticdc_assets.protocols.text_values import time_zone


def gaps_of(changefeed: Changefeed) -> tuple[Gap, ...]:
    """What the stream of this changefeed does not tell."""
    return gaps(str(changefeed.sink.protocol), frozenset(_given(changefeed)))


def _given(changefeed: Changefeed) -> Iterator[Given]:
    sink = changefeed.sink
    yield Given.STORAGE if sink.is_storage else Given.KAFKA
    if sink.enable_tidb_extension:
        yield Given.EXTENSION
    if sink.protocol is Protocol.CSV and sink.csv.include_commit_ts:
        yield Given.COMMIT_TS
    if _sends_old_values(sink):
        yield Given.OLD_VALUES
    if sink.delete_only_output_handle_key_columns:
        yield Given.DELETES_ARE_KEYS
    if sink.large_message.option is LargeMessageOption.HANDLE_KEY_ONLY:
        yield Given.LARGE_ROWS_ARE_KEYS
    if changefeed.upstream is not None:
        yield Given.UPSTREAM
    if sink.content_compatible:
        yield Given.FULL_TYPES
    if sink.avro_enable_watermark and sink.enable_tidb_extension:
        yield Given.AVRO_WATERMARK
    if sink.debezium_decimal_handling_mode == "string":
        yield Given.DECIMAL_TEXTS
    if changefeed.ddl_from is not None:
        yield Given.DDL_FROM
    if isinstance(time_zone(changefeed.time_zone), ZoneInfo):
        yield Given.CLOCK_CHANGES


def _sends_old_values(sink: SinkOptions) -> bool:
    match sink.protocol:
        case Protocol.CSV:
            return sink.csv.output_old_value
        case Protocol.OPEN:
            return sink.open_output_old_value
        case Protocol.DEBEZIUM:
            return sink.debezium_output_old_value
        case _:
            return sink.protocol is not Protocol.AVRO
