"""From a sink URI and a changefeed's configuration, in TiCDC's own keys, to `SinkOptions`.

A parameter of the URI wins over the configuration. Keys may be written as in TOML (kebab-case) or as `cdc cli
changefeed query` prints them (snake_case). TiCDC's many other keys are accepted; one that looks like a misspelt or
misplaced key of those below gives a warning. Read from tiflow c7b2588 (pkg/config, pkg/sink/codec/common).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ticdc_assets.config.misspelt import misspelt, misspelt_query
from ticdc_assets.config.reading import nearest, shown
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
from ticdc_assets.errors import ConfigError

CSV_DELIMITER_CHARS_MAX: Final = 3


def read_sink(sink_uri: str, config: Mapping[str, Any]) -> tuple[SinkOptions, tuple[str, ...]]:
    """The options and the warnings. Raises ConfigError, which never quotes a credential."""
    scheme = split_uri(sink_uri, "sink_uri")[0]
    tidy = _tidy(config, "config")
    inputs = _Inputs(query_of(sink_uri), tidy)
    options = _options(scheme, inputs)
    _refuse(options, inputs)
    noticed = misspelt(tidy, DECODING_PATHS), misspelt_query(inputs.query, DECODING_PARAMETERS, DECODING_PATHS)
    return options, (
        *inputs.warnings,
        *(warning for found in noticed for warning in found),
        *_lossy(options),
        *_left_out(tidy),
    )


# ---- reading single options ------------------------------------------------------------------------------------------


class _Inputs:
    """The two places an option may stand in, and what was noticed while reading."""

    def __init__(self, query: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.query = query
        self.config = config
        self.warnings: list[str] = []

    def find(self, path: str, parse: Callable[[Any, str], Any], query: str | None = None) -> Any:
        """The option at `path` of the configuration, or at `query` of the URI, which wins; None where unset."""
        written = _at(self.config, path)
        value = None if written is None else parse(written, f"config.{path}")
        if query is None or query not in self.query:
            return value
        given = parse(_from_query(self.query[query], parse), f"sink_uri parameter {query}")
        if value is not None and given is not None and given != value:
            self.warnings.append(
                f"{query} of sink_uri and {path} of the configuration differ: sink_uri wins, as in TiCDC"
            )
        return value if given is None else given


def _at(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ConfigError(f"config.{path}", "a mapping above it", "a single value", "Paste TiCDC's configuration.")
        value = value.get(name)
    return value


def _from_query(text: str, parse: Callable[[Any, str], Any]) -> Any:
    # Go reads a flag of the URI with strconv.ParseBool, and an empty one as false.
    if parse is _boolean:
        return {**dict.fromkeys(_GO_TRUE, True), **dict.fromkeys(_GO_FALSE, False)}.get(text, text)
    return text


_GO_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_GO_FALSE: Final = ("", "0", "f", "F", "FALSE", "false", "False")


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(where, "true or false", shown(value), "Write true or false, without quotes.")
    return value


def _integer(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(where, "a whole number", shown(value), "Write it without quotes.")
    return value


def _count(value: Any, where: str) -> int:
    """A number above 0; in a URI it is a text."""
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
    if _integer(number, where) < 1:
        raise ConfigError(where, "a whole number above 0", shown(value), "Write what the changefeed was given.")
    return int(number)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(where, "a text", f"a {type(value).__name__}", "Put it in quotes.")
    return value


def _word(*known: str) -> Callable[[Any, str], str | None]:
    """One of TiCDC's words; an empty text is unset."""

    def parse(value: Any, where: str) -> str | None:
        word = _text(value, where).lower()
        if word and word not in known:
            meant = nearest(word, known)
            todo = f"Did you mean {meant}?" if meant else f"Write one of {', '.join(known)}."
            raise ConfigError(where, f"one of {', '.join(known)}", shown(value), todo)
        return word or None

    return parse


_PROTOCOLS: Final = {
    "default": Protocol.OPEN,
    "open": Protocol.OPEN,
    "flat-avro": Protocol.AVRO,
    **{protocol.value: protocol for protocol in Protocol},
}


def _protocol(value: Any, where: str) -> Protocol | None:
    word = _word(*_PROTOCOLS)(value, where)
    return _PROTOCOLS[word] if word else None


# ---- reading them all ------------------------------------------------------------------------------------------------


def _options(scheme: str, inputs: _Inputs) -> SinkOptions:
    protocol = inputs.find("sink.protocol", _protocol, "protocol")
    if protocol is None:
        todo = "Add ?protocol=... to sink_uri, or protocol below [sink], as the changefeed has it."
        raise ConfigError("sink_uri", "a protocol", "none", todo)
    values: dict[str, Any] = {}
    for option, (path, parse, query) in _SINGLE.items():
        value = inputs.find(path, parse, query)
        if value is not None:
            values[option] = value
    if protocol is not Protocol.CANAL_JSON:
        values.pop("content_compatible", None)
    if values.get("content_compatible"):
        values["only_output_updated_columns"] = True
    if values.get("terminator") == "":
        del values["terminator"]
    return SinkOptions(
        scheme=scheme,
        protocol=protocol,
        csv=_csv(inputs),
        date_separator=_date_separator(inputs),
        file_index_width=_file_index_width(inputs),
        large_message=_large_message(inputs),
        integrity=_integrity(inputs),
        topics=tuple(_topics(inputs.config)),
        **values,
    )


_CODEC: Final = "sink.kafka-config.codec-config"
_LARGE: Final = "sink.kafka-config.large-message-handle"

# field of SinkOptions: (path in the configuration, how to read it, parameter of the URI)
_SINGLE: Final[Mapping[str, tuple[str, Callable[[Any, str], Any], str | None]]] = {
    "enable_tidb_extension": (f"{_CODEC}.enable-tidb-extension", _boolean, "enable-tidb-extension"),
    "enable_partition_separator": ("sink.enable-partition-separator", _boolean, None),
    "terminator": ("sink.terminator", _text, None),
    "use_table_id_as_path": ("sink.cloud-storage-config.use-table-id-as-path", _boolean, "use-table-id-as-path"),
    "table_across_nodes": ("scheduler.enable-table-across-nodes", _boolean, None),
    "content_compatible": ("sink.content-compatible", _boolean, "content-compatible"),
    "only_output_updated_columns": ("sink.only-output-updated-columns", _boolean, "only-output-updated-columns"),
    "delete_only_output_handle_key_columns": ("sink.delete-only-output-handle-key-columns", _boolean, None),
    "encoding_format": (f"{_CODEC}.encoding-format", _word("json", "avro"), "encoding-format"),
    "avro_decimal_handling_mode": (
        f"{_CODEC}.avro-decimal-handling-mode",
        _word("precise", "string"),
        "avro-decimal-handling-mode",
    ),
    "avro_bigint_unsigned_handling_mode": (
        f"{_CODEC}.avro-bigint-unsigned-handling-mode",
        _word("long", "string"),
        "avro-bigint-unsigned-handling-mode",
    ),
    "avro_enable_watermark": (f"{_CODEC}.avro-enable-watermark", _boolean, "avro-enable-watermark"),
    "open_output_old_value": ("sink.open.output-old-value", _boolean, None),
    "debezium_output_old_value": ("sink.debezium.output-old-value", _boolean, None),
    "debezium_decimal_handling_mode": (
        "sink.debezium.decimal-handling-mode",
        _word("double", "string"),
        "debezium-decimal-handling-mode",
    ),
    "debezium_bigint_unsigned_handling_mode": (
        "sink.debezium.bigint-unsigned-handling-mode",
        _word("long", "string"),
        "debezium-bigint-unsigned-handling-mode",
    ),
    "debezium_binary_handling_mode": (
        "sink.debezium.binary-handling-mode",
        _word("bytes", "base64", "base64-url-safe", "hex"),
        "debezium-binary-handling-mode",
    ),
    "partition_num": ("sink.kafka-config.partition-num", _count, "partition-num"),
    "case_sensitive": ("case-sensitive", _boolean, None),
    "schema_registry": ("sink.schema-registry", _text, "schema-registry"),
}

_CSV: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "delimiter": ("delimiter", _text),
    "quote": ("quote", _text),
    "null": ("null", _text),
    "include_commit_ts": ("include-commit-ts", _boolean),
    "binary_encoding_method": ("binary-encoding-method", _word("base64", "hex")),
    "output_old_value": ("output-old-value", _boolean),
    "output_handle_key": ("output-handle-key", _boolean),
    "output_field_header": ("output-field-header", _boolean),
}


def _csv(inputs: _Inputs) -> CsvOptions:
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


def _date_separator(inputs: _Inputs) -> DateSeparator:
    written = _at(inputs.config, "sink.date-separator")
    if written == "":
        return DateSeparator.NONE
    word = inputs.find("sink.date-separator", _word(*DateSeparator))
    return DateSeparator(word) if word else DateSeparator.DAY


def _file_index_width(inputs: _Inputs) -> int:
    width = inputs.find("sink.file-index-digit", _integer)
    if width is None:
        width = inputs.find("sink.file-index-width", _integer)
    # TiCDC takes its default for a width out of bounds, without a word.
    in_bounds = width is not None and FILE_INDEX_WIDTH_MIN <= width <= FILE_INDEX_WIDTH_MAX
    return int(width) if in_bounds else FILE_INDEX_WIDTH_MAX


def _large_message(inputs: _Inputs) -> LargeMessageHandle:
    option = inputs.find(f"{_LARGE}.large-message-handle-option", _word(*LargeMessageOption))
    compression = inputs.find(f"{_LARGE}.large-message-handle-compression", _word(*Compression))
    uri = inputs.find(f"{_LARGE}.claim-check-storage-uri", _text)
    return LargeMessageHandle(
        option=LargeMessageOption(option or "none"),
        compression=Compression(compression or "none"),
        claim_check=storage_of(uri, f"config.{_LARGE}.claim-check-storage-uri") if uri else None,
        claim_check_raw_value=bool(inputs.find(f"{_LARGE}.claim-check-raw-value", _boolean)),
    )


def _integrity(inputs: _Inputs) -> Integrity:
    check = inputs.find("integrity.integrity-check-level", _word("none", "correctness"))
    return Integrity(check or "none")


def _topics(config: Mapping[str, Any]) -> Iterator[str]:
    rules = _at(config, "sink.dispatchers") or []
    where = "config.sink.dispatchers"
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigError(where, "a list of mappings", f"a {type(rules).__name__}", "Paste it as TiCDC has it.")
    for rule in rules:
        topic = _text(rule.get("topic") or "", f"{where}.topic")
        if topic:
            yield topic


def _tidy(value: Any, where: str) -> Any:
    """The same configuration with every key in kebab-case."""
    if isinstance(value, list):
        return [_tidy(item, where) for item in value]
    if not isinstance(value, Mapping):
        return value
    tidy: dict[str, Any] = {}
    for key, below in value.items():
        name = str(key).replace("_", "-")
        if name in tidy:
            raise ConfigError(f"{where}.{name}", "each key once", "two spellings of it", "Keep one of the two.")
        tidy[name] = _tidy(below, f"{where}.{name}")
    return tidy


# ---- what cannot be read ---------------------------------------------------------------------------------------------

_RAW_CHANGE: Final = "output-raw-change-event"
_RAW_CHANGES: Final = tuple(f"sink.{sink}-config.{_RAW_CHANGE}" for sink in ("kafka", "cloud-storage"))
_ACTIVE_ACTIVE: Final = "enable-active-active"


def _refuse(options: SinkOptions, inputs: _Inputs) -> None:
    """Options under which a stream cannot be read exactly, whatever is done here."""
    if inputs.find(_ACTIVE_ACTIVE, _boolean):
        todo = "Read a changefeed without it: rows that are deleted softly are told by columns that are not read here."
        raise ConfigError(f"config.{_ACTIVE_ACTIVE}", "false", "true", todo)
    raw = _RAW_CHANGES[1] if options.is_storage else _RAW_CHANGES[0]
    if inputs.find(raw, _boolean, _RAW_CHANGE) and not _has_old_values(options):
        todo = "Let the changefeed send old values, or set it to false: else an update of a key leaves the old row."
        raise ConfigError(f"config.{raw}", "false where old values are not sent", "true", todo)


def _has_old_values(options: SinkOptions) -> bool:
    match options.protocol:
        case Protocol.AVRO:
            return False
        case Protocol.CSV:
            return options.csv.output_old_value
        case Protocol.OPEN:
            return options.open_output_old_value
        case Protocol.DEBEZIUM:
            return options.debezium_output_old_value
        case _:
            return True


# ---- warnings --------------------------------------------------------------------------------------------------------

DECODING_PATHS: Final = frozenset(
    {
        "sink.protocol",
        "sink.date-separator",
        "sink.file-index-digit",
        "sink.file-index-width",
        "sink.dispatchers",
        f"{_LARGE}.large-message-handle-option",
        f"{_LARGE}.large-message-handle-compression",
        f"{_LARGE}.claim-check-storage-uri",
        f"{_LARGE}.claim-check-raw-value",
        _ACTIVE_ACTIVE,
        *_RAW_CHANGES,
        "integrity.integrity-check-level",
        *(path for path, _, _ in _SINGLE.values()),
        *(f"sink.csv.{name}" for name, _ in _CSV.values()),
    }
)
DECODING_PARAMETERS: Final = frozenset({"protocol", _RAW_CHANGE, *(query for _, _, query in _SINGLE.values() if query)})


def _left_out(config: Mapping[str, Any]) -> Iterator[str]:
    """What the changefeed leaves out of its stream by other ways than a table filter."""
    if _at(config, "sink.column-selectors"):
        yield "sink.column-selectors: a column that it leaves out is NULL in the tables"
    if _at(config, "filter.event-filters"):
        yield "filter.event-filters: what it leaves out is missing in the tables too"


def _lossy(options: SinkOptions) -> Iterator[str]:
    if options.is_storage and not options.enable_partition_separator:
        yield (
            "enable-partition-separator=false lets TiCDC overwrite files of partitioned tables: "
            "changes of such tables may be missing from the stream itself"
        )
