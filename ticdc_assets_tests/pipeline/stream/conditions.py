"""The conditions of a changefeed that limit what its stream carries."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from ticdc_assets.config import Changefeed
from ticdc_assets.config.model.sink import LargeMessageOption, Protocol
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets_tests.protocols.limitations import Condition, Limitation, gaps


def gaps_of(changefeed: Changefeed) -> tuple[Limitation, ...]:
    """The limitations of this changefeed's stream."""
    return gaps(str(changefeed.sink.protocol), frozenset(_given(changefeed)))


def _given(changefeed: Changefeed) -> Iterator[Condition]:
    sink = changefeed.sink
    yield Condition.STORAGE if sink.is_storage else Condition.KAFKA
    if sink.content.enable_tidb_extension:
        yield Condition.EXTENSION
    if sink.protocol == Protocol.CSV and sink.csv.include_commit_ts:
        yield Condition.COMMIT_TS
    if sink.protocol == Protocol.CSV and sink.csv.as_read().null_may_be_text:
        yield Condition.TEXT_AS_NULL
    if sink.has_old_values:
        yield Condition.OLD_VALUES
    if sink.content.delete_only_output_handle_key_columns:
        yield Condition.DELETES_ARE_KEYS
    if sink.large_message.option is LargeMessageOption.HANDLE_KEY_ONLY:
        yield Condition.LARGE_ROWS_ARE_KEYS
    if changefeed.large_rows.upstream is not None:
        yield Condition.UPSTREAM
    if sink.content.content_compatible:
        yield Condition.FULL_TYPES
    if sink.avro.enable_watermark and sink.content.enable_tidb_extension:
        yield Condition.AVRO_WATERMARK
    if sink.debezium.decimal_handling_mode == "string":
        yield Condition.DECIMAL_TEXTS
    if sink.content.column_selectors:
        yield Condition.SELECTORS
    if changefeed.schemas.ddl_from is not None:
        yield Condition.DDL_FROM
    if isinstance(time_zone(changefeed.time_zone), ZoneInfo):
        yield Condition.CLOCK_CHANGES
