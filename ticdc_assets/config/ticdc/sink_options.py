"""Converts a sink URI and a changefeed's configuration, in TiCDC's own keys, to `SinkOptions`.

A parameter of the URI overrides the configuration. Keys may have the form in TOML (kebab-case) or in the output of `cdc
cli changefeed query` (snake_case). `config.ticdc.options` has the effect of each. The source is tiflow c7b2588
(pkg/config, pkg/sink/codec/common).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ticdc_assets.config.model.sink import (
    FILE_INDEX_WIDTH_MAX,
    FILE_INDEX_WIDTH_MIN,
    AvroSinkOptions,
    CsvSinkOptions,
    DateSeparator,
    DebeziumSinkOptions,
    Dispatch,
    LargeMessageHandle,
    LargeMessageOption,
    MessageContent,
    OpenSinkOptions,
    Protocol,
    SimpleSinkOptions,
    SinkOptions,
    StorageLayout,
    split_uri,
    storage_of,
)
from ticdc_assets.config.reading.secrets import query_of
from ticdc_assets.config.reading.sections import shown, similar
from ticdc_assets.config.ticdc.limits import limits, refuse_lossy_options
from ticdc_assets.config.ticdc.options import OPTIONS, PARAMETERS, SECTIONS, option_at
from ticdc_assets.config.ticdc.values import (
    Inputs,
    at,
    boolean,
    integer,
    positive_number,
    read_dispatch,
    read_selectors,
    text,
    tidy,
    word,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets.names.table_filter import ColumnSelectors
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.formats.compression import Compression

CSV_DELIMITER_CHARS_MAX: Final = 3
_CUTOFF: Final = 0.84
_AS_IF_NONE: Final = "it is read as if it did not change the stream"
_HOMES: Final = frozenset(OPTIONS) | SECTIONS


def read_sink(sink_uri: str, config: Mapping[str, Any]) -> tuple[SinkOptions, tuple[str, ...]]:
    """The options and the warnings. Raises ConfigError, which never quotes a credential."""
    scheme = split_uri(sink_uri, "sink_uri")[0]
    inputs = Inputs(query_of(sink_uri), tidy(config, "config"))
    options = _options(scheme, inputs)
    refuse_lossy_options(options, inputs)
    unknown = (*misspelt(inputs.config), *misspelt_query(inputs.query))
    return options, (*inputs.warnings, *unknown, *limits(options, inputs))


_PROTOCOLS: Final[dict[str, str]] = {
    "default": Protocol.OPEN,
    "open": Protocol.OPEN,
    "flat-avro": Protocol.AVRO,
    **{protocol.value: protocol for protocol in Protocol},
}


def _protocol(value: Any, where: str) -> str | None:
    known = _PROTOCOLS
    if isinstance(value, str) and value.lower() not in known:
        from ticdc_assets.protocols.registry import REGISTRY  # imported only when needed: the decoders take a second

        known = known | {name: name for name in REGISTRY if name not in known}
    found = word(*known)(value, where)
    return known[found] if found else None


# ---- reading all options --------------------------------------------------------------------------------------------


def _options(scheme: str, inputs: Inputs) -> SinkOptions:
    protocol = inputs.find("sink.protocol", _protocol, "protocol")
    if protocol is None:
        advice = "Add ?protocol=... to sink_uri, or protocol below [sink], as the changefeed has it."
        raise ConfigError("sink_uri", "a protocol", "none", advice)
    case_sensitive = bool(inputs.find("case-sensitive", boolean))
    selectors = read_selectors(inputs.config, case_sensitive)
    return SinkOptions(
        scheme=scheme,
        protocol=protocol,
        case_sensitive=case_sensitive,
        layout=_layout(inputs),
        content=_content(inputs, protocol, selectors),
        large_message=_large_message(inputs),
        dispatch=_dispatch(inputs),
        csv=_csv(inputs),
        open=_open(inputs),
        simple=SimpleSinkOptions(**_given(inputs, _SIMPLE)),
        avro=AvroSinkOptions(**_given(inputs, _AVRO)),
        debezium=DebeziumSinkOptions(**_given(inputs, _DEBEZIUM)),
    )


_CODEC: Final = "sink.kafka-config.codec-config"
_LARGE: Final = "sink.kafka-config.large-message-handle"

# field of a part of SinkOptions: (path in the configuration, parser, parameter of the URI)
_Options = Mapping[str, tuple[str, Callable[[Any, str], Any], str | None]]

_LAYOUT: Final[_Options] = {
    "enable_partition_separator": ("sink.enable-partition-separator", boolean, None),
    "use_table_id_as_path": ("sink.cloud-storage-config.use-table-id-as-path", boolean, "use-table-id-as-path"),
    "table_across_nodes": ("scheduler.enable-table-across-nodes", boolean, None),
}

_CONTENT: Final[_Options] = {
    "enable_tidb_extension": (f"{_CODEC}.enable-tidb-extension", boolean, "enable-tidb-extension"),
    "content_compatible": ("sink.content-compatible", boolean, "content-compatible"),
    "only_output_updated_columns": ("sink.only-output-updated-columns", boolean, "only-output-updated-columns"),
    "delete_only_output_handle_key_columns": ("sink.delete-only-output-handle-key-columns", boolean, None),
    "integrity_check_level": ("integrity.integrity-check-level", word("none", "correctness"), None),
}

_SIMPLE: Final[_Options] = {
    "encoding_format": (f"{_CODEC}.encoding-format", word("json", "avro"), "encoding-format"),
}

_AVRO: Final[_Options] = {
    "decimal_handling_mode": (
        f"{_CODEC}.avro-decimal-handling-mode",
        word("precise", "string"),
        "avro-decimal-handling-mode",
    ),
    "bigint_unsigned_handling_mode": (
        f"{_CODEC}.avro-bigint-unsigned-handling-mode",
        word("long", "string"),
        "avro-bigint-unsigned-handling-mode",
    ),
    "enable_watermark": (f"{_CODEC}.avro-enable-watermark", boolean, "avro-enable-watermark"),
    "include_before_value": (f"{_CODEC}.avro-include-before-value", boolean, "avro-include-before-value"),
    "schema_registry": ("sink.schema-registry", text, "schema-registry"),
}

_DEBEZIUM: Final[_Options] = {
    "output_old_value": ("sink.debezium.output-old-value", boolean, None),
    "decimal_handling_mode": (
        "sink.debezium.decimal-handling-mode",
        word("double", "string"),
        "debezium-decimal-handling-mode",
    ),
    "bigint_unsigned_handling_mode": (
        "sink.debezium.bigint-unsigned-handling-mode",
        word("long", "string"),
        "debezium-bigint-unsigned-handling-mode",
    ),
    "binary_handling_mode": (
        "sink.debezium.binary-handling-mode",
        word("bytes", "base64", "base64-url-safe", "hex"),
        "debezium-binary-handling-mode",
    ),
}

_CSV: Final[_Options] = {
    "delimiter": ("sink.csv.delimiter", text, None),
    "quote": ("sink.csv.quote", text, None),
    "null": ("sink.csv.null", text, None),
    "include_commit_ts": ("sink.csv.include-commit-ts", boolean, None),
    "binary_encoding_method": ("sink.csv.binary-encoding-method", word("base64", "hex"), None),
    "output_old_value": ("sink.csv.output-old-value", boolean, None),
    "output_handle_key": ("sink.csv.output-handle-key", boolean, None),
    "output_field_header": ("sink.csv.output-field-header", boolean, None),
    "terminator": ("sink.terminator", text, None),
}


def _given(inputs: Inputs, options: _Options) -> dict[str, Any]:
    """The values of the options that the changefeed sets."""
    found = {name: inputs.find(path, parse, query) for name, (path, parse, query) in options.items()}
    return {name: value for name, value in found.items() if value is not None}


def _layout(inputs: Inputs) -> StorageLayout:
    return StorageLayout(_date_separator(inputs), _file_index_width(inputs), **_given(inputs, _LAYOUT))


def _content(inputs: Inputs, protocol: str, selectors: ColumnSelectors) -> MessageContent:
    values = _given(inputs, _CONTENT)
    if protocol != Protocol.CANAL_JSON:
        values.pop("content_compatible", None)
    if values.get("content_compatible"):
        values["only_output_updated_columns"] = True
    return MessageContent(column_selectors=selectors, **values)


def _dispatch(inputs: Inputs) -> Dispatch:
    partition_num = inputs.find("sink.kafka-config.partition-num", positive_number, "partition-num")
    return replace(read_dispatch(inputs.config), partition_num=partition_num)


def _open(inputs: Inputs) -> OpenSinkOptions:
    written = inputs.find("sink.open.output-old-value", boolean)
    return OpenSinkOptions(written is not False and inputs.find("enable-old-value", boolean) is not False)


def _csv(inputs: Inputs) -> CsvSinkOptions:
    values = _given(inputs, _CSV)
    if values.get("terminator") == "":
        del values["terminator"]
    csv = CsvSinkOptions(**values)
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


# Keys of a changefeed's configuration, and parameters of its sink URI, that are unknown in TiCDC.
#
# TiCDC refuses unknown keys itself, but the user's copy may be edited, or belong to a newer server. A changefeed that
# is read with wrong options gives wrong rows without an error, so each unknown key causes a warning.


def misspelt(config: Mapping[str, Any]) -> Iterator[str]:
    """One warning for each unknown key, or for a whole unknown section."""
    for path in _unknown(config):
        meant = _misplaced(path) or _near(path)
        what = f"config.{path} is no key of TiCDC that is known here"
        yield f"{what}; did you mean {meant}?" if meant else f"{what}: {_AS_IF_NONE}"


def misspelt_query(query: Mapping[str, str]) -> Iterator[str]:
    """The same for parameters of the sink URI. One that resembles no known parameter is not named, as it may be a part
    of a password."""
    others = 0
    for name in query:
        if name in PARAMETERS:
            continue
        if home := _home(name):
            yield f"TiCDC does not read {name} from sink_uri, so it has no effect; it belongs to {home}"
        elif meant := similar(name, PARAMETERS, _CUTOFF):
            yield f"parameter {name} of sink_uri is no parameter of TiCDC; did you mean {meant}?"
        else:
            others += 1
    if others:
        what = counted(others, "parameter")
        yield f"sink_uri has {what} that TiCDC is not known to have; escape & in passwords (%26)"


def _unknown(config: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in config.items():
        path = f"{above}.{name}" if above else name
        if value is None:
            continue
        if option_at(path) is None and path not in SECTIONS:
            yield path
            continue
        for below in value if isinstance(value, list) else [value]:
            if isinstance(below, Mapping):
                yield from _unknown(below, path)


def _home(name: str) -> str | None:
    """The configuration path of a key with this name; that of the sink if there are several."""
    return min((path for path in OPTIONS if _name(path) == name), key=_sink_first, default=None)


def _sink_first(path: str) -> tuple[bool, int, str]:
    return not path.startswith("sink."), path.count("."), path


def _misplaced(path: str) -> str | None:
    """The right path of a key in the wrong place, such as csv outside of sink."""
    found = [home for home in _HOMES if _name(home) == _name(path)]
    return found[0] if len(found) == 1 else None


def _near(path: str) -> str | None:
    here: Collection[str] = {_name(home) for home in _HOMES if _section(home) == _section(path)}
    meant = similar(_name(path), here, _CUTOFF)
    return f"{_section(path)}.{meant}".lstrip(".") if meant else None


def _section(path: str) -> str:
    return path.rpartition(".")[0]


def _name(path: str) -> str:
    return path.rpartition(".")[2]
