"""Converts a sink URI and a changefeed's configuration, in TiCDC's own keys, to `SinkOptions`.

A parameter of the URI overrides the configuration. Keys may have the form in TOML (kebab-case) or in the output of `cdc
cli changefeed query` (snake_case). `config.ticdc_options` has the effect of each. The source is tiflow c7b2588
(pkg/config, pkg/sink/codec/common).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ticdc_assets.config.reading import shown
from ticdc_assets.config.secrets import query_of
from ticdc_assets.config.sink import (
    FILE_INDEX_WIDTH_MAX,
    FILE_INDEX_WIDTH_MIN,
    Compression,
    CsvOptions,
    DateSeparator,
    Integrity,
    LargeMessageHandle,
    LargeMessageOption,
    Protocol,
    SinkOptions,
    split_uri,
    storage_of,
)
from ticdc_assets.config.spelling import misspelt, misspelt_query
from ticdc_assets.config.table_rules import read_dispatch, read_selectors
from ticdc_assets.config.ticdc_rules import limits, refuse
from ticdc_assets.config.ticdc_values import Inputs, at, boolean, count, integer, text, tidy, word
from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.registry import REGISTRY

CSV_DELIMITER_CHARS_MAX: Final = 3


def read_sink(sink_uri: str, config: Mapping[str, Any]) -> tuple[SinkOptions, tuple[str, ...]]:
    """The options and the warnings. Raises ConfigError, which never quotes a credential."""
    scheme = split_uri(sink_uri, "sink_uri")[0]
    inputs = Inputs(query_of(sink_uri), tidy(config, "config"))
    options = _options(scheme, inputs)
    refuse(options, inputs)
    unknown = (*misspelt(inputs.config), *misspelt_query(inputs.query))
    return options, (*inputs.warnings, *unknown, *limits(options, inputs))


_OTHER_NAMES: Final = {"default": Protocol.OPEN, "open": Protocol.OPEN, "flat-avro": Protocol.AVRO}


def _protocol(value: Any, where: str) -> str | None:
    known: dict[str, str] = {**_OTHER_NAMES, **{name: name for name in REGISTRY}, **{p.value: p for p in Protocol}}
    found = word(*known)(value, where)
    return known[found] if found else None


# ---- reading all options --------------------------------------------------------------------------------------------


def _options(scheme: str, inputs: Inputs) -> SinkOptions:
    protocol = inputs.find("sink.protocol", _protocol, "protocol")
    if protocol is None:
        advice = "Add ?protocol=... to sink_uri, or protocol below [sink], as the changefeed has it."
        raise ConfigError("sink_uri", "a protocol", "none", advice)
    values: dict[str, Any] = {}
    for option, (path, parse, query) in _SINGLE.items():
        value = inputs.find(path, parse, query)
        if value is not None:
            values[option] = value
    if protocol != Protocol.CANAL_JSON:
        values.pop("content_compatible", None)
    if values.get("content_compatible"):
        values["only_output_updated_columns"] = True
    if values.get("terminator") == "":
        del values["terminator"]
    if inputs.find("enable-old-value", boolean) is False:
        values["open_output_old_value"] = False
    dispatch = read_dispatch(inputs.config)
    return SinkOptions(
        scheme=scheme,
        protocol=protocol,
        csv=_csv(inputs),
        date_separator=_date_separator(inputs),
        file_index_width=_file_index_width(inputs),
        large_message=_large_message(inputs),
        integrity=_integrity(inputs),
        topics=dispatch.topics,
        renames_tables=dispatch.renames_tables,
        spreads_keys=dispatch.spreads_keys,
        column_selectors=read_selectors(inputs.config, values.get("case_sensitive", False)),
        **values,
    )


_CODEC: Final = "sink.kafka-config.codec-config"
_LARGE: Final = "sink.kafka-config.large-message-handle"

# field of SinkOptions: (path in the configuration, parser, parameter of the URI)
_SINGLE: Final[Mapping[str, tuple[str, Callable[[Any, str], Any], str | None]]] = {
    "enable_tidb_extension": (f"{_CODEC}.enable-tidb-extension", boolean, "enable-tidb-extension"),
    "enable_partition_separator": ("sink.enable-partition-separator", boolean, None),
    "terminator": ("sink.terminator", text, None),
    "use_table_id_as_path": ("sink.cloud-storage-config.use-table-id-as-path", boolean, "use-table-id-as-path"),
    "table_across_nodes": ("scheduler.enable-table-across-nodes", boolean, None),
    "content_compatible": ("sink.content-compatible", boolean, "content-compatible"),
    "only_output_updated_columns": ("sink.only-output-updated-columns", boolean, "only-output-updated-columns"),
    "delete_only_output_handle_key_columns": ("sink.delete-only-output-handle-key-columns", boolean, None),
    "encoding_format": (f"{_CODEC}.encoding-format", word("json", "avro"), "encoding-format"),
    "avro_decimal_handling_mode": (
        f"{_CODEC}.avro-decimal-handling-mode",
        word("precise", "string"),
        "avro-decimal-handling-mode",
    ),
    "avro_bigint_unsigned_handling_mode": (
        f"{_CODEC}.avro-bigint-unsigned-handling-mode",
        word("long", "string"),
        "avro-bigint-unsigned-handling-mode",
    ),
    "avro_enable_watermark": (f"{_CODEC}.avro-enable-watermark", boolean, "avro-enable-watermark"),
    "avro_include_before_value": (f"{_CODEC}.avro-include-before-value", boolean, "avro-include-before-value"),
    "open_output_old_value": ("sink.open.output-old-value", boolean, None),
    "debezium_output_old_value": ("sink.debezium.output-old-value", boolean, None),
    "debezium_decimal_handling_mode": (
        "sink.debezium.decimal-handling-mode",
        word("double", "string"),
        "debezium-decimal-handling-mode",
    ),
    "debezium_bigint_unsigned_handling_mode": (
        "sink.debezium.bigint-unsigned-handling-mode",
        word("long", "string"),
        "debezium-bigint-unsigned-handling-mode",
    ),
    "debezium_binary_handling_mode": (
        "sink.debezium.binary-handling-mode",
        word("bytes", "base64", "base64-url-safe", "hex"),
        "debezium-binary-handling-mode",
    ),
    "partition_num": ("sink.kafka-config.partition-num", count, "partition-num"),
    "case_sensitive": ("case-sensitive", boolean, None),
    "schema_registry": ("sink.schema-registry", text, "schema-registry"),
}

_CSV: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "delimiter": ("delimiter", text),
    "quote": ("quote", text),
    "null": ("null", text),
    "include_commit_ts": ("include-commit-ts", boolean),
    "binary_encoding_method": ("binary-encoding-method", word("base64", "hex")),
    "output_old_value": ("output-old-value", boolean),
    "output_handle_key": ("output-handle-key", boolean),
    "output_field_header": ("output-field-header", boolean),
}


def _csv(inputs: Inputs) -> CsvOptions:
    found = {option: inputs.find(f"sink.csv.{name}", parse) for option, (name, parse) in _CSV.items()}
    csv = CsvOptions(**{option: value for option, value in found.items() if value is not None})
    delimiter, quote = csv.delimiter, csv.quote
    if not 1 <= len(delimiter) <= CSV_DELIMITER_CHARS_MAX or set(delimiter) & {"\r", "\n"}:
        raise _bad_csv("delimiter", f"1 to {CSV_DELIMITER_CHARS_MAX} characters without line breaks", delimiter)
    if len(quote) > 1 or quote in {"\r", "\n"}:
        raise _bad_csv("quote", "one character or none", quote)
    if quote and quote in delimiter:
        raise _bad_csv("quote", "a character that is not in the delimiter", quote)
    return csv


def _bad_csv(name: str, expected: str, found: str) -> ConfigError:
    return ConfigError(f"config.sink.csv.{name}", expected, shown(found), "Write it as the changefeed has it.")


def _date_separator(inputs: Inputs) -> DateSeparator:
    written = at(inputs.config, "sink.date-separator")
    if written == "":
        return DateSeparator.NONE
    found = inputs.find("sink.date-separator", word(*DateSeparator))
    return DateSeparator(found) if found else DateSeparator.DAY


def _file_index_width(inputs: Inputs) -> int:
    width = inputs.find("sink.file-index-digit", integer)
    if width is None:
        width = inputs.find("sink.file-index-width", integer)
    # TiCDC silently uses its default for a width out of range.
    in_bounds = width is not None and FILE_INDEX_WIDTH_MIN <= width <= FILE_INDEX_WIDTH_MAX
    return int(width) if in_bounds else FILE_INDEX_WIDTH_MAX


def _large_message(inputs: Inputs) -> LargeMessageHandle:
    option = inputs.find(f"{_LARGE}.large-message-handle-option", word(*LargeMessageOption))
    compression = inputs.find(f"{_LARGE}.large-message-handle-compression", word(*Compression))
    uri = inputs.find(f"{_LARGE}.claim-check-storage-uri", text)
    return LargeMessageHandle(
        option=LargeMessageOption(option or "none"),
        compression=Compression(compression or "none"),
        claim_check=storage_of(uri, f"config.{_LARGE}.claim-check-storage-uri") if uri else None,
        claim_check_raw_value=bool(inputs.find(f"{_LARGE}.claim-check-raw-value", boolean)),
    )


def _integrity(inputs: Inputs) -> Integrity:
    check = inputs.find("integrity.integrity-check-level", word("none", "correctness"))
    return Integrity(check or "none")
