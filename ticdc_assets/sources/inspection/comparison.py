"""Compares a changefeed's configuration with its stream: option by option, under TiCDC's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from ticdc_assets.config import SinkOptions
from ticdc_assets.sources.inspection.report import Inspection
from ticdc_assets.sources.inspection.settings import NOT_SHOWN


@dataclass(frozen=True, slots=True)
class Difference:
    """An option that is `seen` in the source and `configured` with another value."""

    option: str
    path: str
    seen: str
    configured: str
    shown_by: str

    @property
    def sentence(self) -> str:
        """The evidence, and the setting to write."""
        known = f"the configuration has {self.option} = {self.configured}"
        return f"{self.shown_by}; {known}. Set `{self.path} = {self.seen}` in the changefeed's configuration here."


@dataclass(frozen=True, slots=True)
class _Option:
    """The place of an option in TiCDC's configuration and in `SinkOptions`, and how the source shows that it is true
    (`shown_by`) or false (`otherwise`)."""

    path: str
    field: str
    shown_by: str
    otherwise: str = ""


_LARGE: Final = "sink.kafka-config.large-message-handle"

_OPTIONS: Final[Mapping[str, _Option]] = {
    "date-separator": _Option("sink.date-separator", "layout.date_separator", "The folders by date are named so"),
    "file-index-digit": _Option(
        "sink.file-index-digit", "layout.file_index_width", "The names of files have so many digits"
    ),
    "enable-partition-separator": _Option(
        "sink.enable-partition-separator", "layout.enable_partition_separator", "Partitions have folders"
    ),
    "use-table-id-as-path": _Option(
        "sink.cloud-storage-config.use-table-id-as-path",
        "layout.use_table_id_as_path",
        "Folders are named by table id",
        "Folders are named by database and table",
    ),
    "enable-table-across-nodes": _Option(
        "scheduler.enable-table-across-nodes", "layout.table_across_nodes", "The names of files have dispatchers"
    ),
    "enable-tidb-extension": _Option(
        "sink.kafka-config.codec-config.enable-tidb-extension",
        "content.enable_tidb_extension",
        "The extension is in the stream",
    ),
    "csv.delimiter": _Option("sink.csv.delimiter", "csv.delimiter", "Fields are delimited so"),
    "csv.quote": _Option("sink.csv.quote", "csv.quote", "Texts are quoted so"),
    "csv.null": _Option("sink.csv.null", "csv.null", "NULL is written so"),
    "csv.include-commit-ts": _Option(
        "sink.csv.include-commit-ts", "csv.include_commit_ts", "Records have a commit_ts", "Records have no commit_ts"
    ),
    "csv.binary-encoding-method": _Option(
        "sink.csv.binary-encoding-method", "csv.binary_encoding_method", "Bytes are written so"
    ),
    "csv.output-old-value": _Option(
        "sink.csv.output-old-value",
        "csv.output_old_value",
        "Records have an is-update field",
        "Records have no is-update field",
    ),
    "csv.output-handle-key": _Option(
        "sink.csv.output-handle-key", "csv.output_handle_key", "Records have a handle key before their columns"
    ),
    "csv.output-field-header": _Option(
        "sink.csv.output-field-header",
        "csv.output_field_header",
        "The files have a header line",
        "The files have no header line",
    ),
    "content-compatible": _Option("sink.content-compatible", "content.content_compatible", "Types have parameters"),
    "only-output-updated-columns": _Option(
        "sink.only-output-updated-columns",
        "content.only_output_updated_columns",
        "Old values are of changed columns alone",
    ),
    "open.output-old-value": _Option(
        "sink.open.output-old-value", "open.output_old_value", "Existing rows are sent again as inserts"
    ),
    "avro-enable-watermark": _Option(
        "sink.kafka-config.codec-config.avro-enable-watermark", "avro.enable_watermark", "There are watermarks"
    ),
    "large-message-handle-option": _Option(
        f"{_LARGE}.large-message-handle-option", "large_message.option", "Large rows are sent so"
    ),
    "large-message-handle-compression": _Option(
        f"{_LARGE}.large-message-handle-compression", "large_message.compression", "Values are compressed so"
    ),
    "claim-check-raw-value": _Option(
        f"{_LARGE}.claim-check-raw-value", "large_message.claim_check_raw_value", "Claim-check files hold bare values"
    ),
    "integrity-check-level": _Option(
        "integrity.integrity-check-level", "content.integrity_check_level", "Rows have checksums"
    ),
}
"""The options that decide how the stream is read. Options that decoders detect need not be configured."""

_ABSENT_IS_FALSE: Final = ("csv.output-old-value", "csv.output-field-header")
"""Options of CSV files that are false if they were not detected in files that could be read."""


def option_differences(found: Inspection, sink: SinkOptions) -> tuple[Difference, ...]:
    """The options whose configured value differs from the source; only the protocol if that differs."""
    if found.protocol != str(sink.protocol):
        protocol = Difference("protocol", "sink.protocol", found.protocol, str(sink.protocol), "The records are so")
        return (protocol,)
    return tuple(_differing(_detected(found), sink))


def _detected(found: Inspection) -> Mapping[str, Any]:
    detected = {name: value for name, value in found.detected.options.items() if value != NOT_SHOWN}
    if "csv.delimiter" in detected:
        detected = {**dict.fromkeys(_ABSENT_IS_FALSE, False), **detected}
    if "date-separator" in detected:
        detected = {"use-table-id-as-path": False, **detected}
    return detected


def _differing(detected: Mapping[str, Any], sink: SinkOptions) -> Iterator[Difference]:
    for name, value in detected.items():
        option = _OPTIONS.get(name)
        if option is None:
            continue
        configured = attrgetter(option.field)(sink)
        if _written(configured) != _written(value):
            shown_by = option.otherwise if value is False and option.otherwise else option.shown_by
            yield Difference(name, option.path, _written(value), _written(configured), shown_by)


def _written(value: object) -> str:
    """A value in TOML, with plain words unquoted."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if text.replace("-", "").isalnum() else f"'{text}'"
