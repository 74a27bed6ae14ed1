"""Which options of a changefeed are refused, and which are accepted although the stream then lacks something.

`config.ticdc.options` has a sentence on each of them; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ticdc_assets.config.model.sink import DateSeparator, Protocol, SinkOptions
from ticdc_assets.config.ticdc.values import DISPATCHERS, SELECTORS, Inputs, at, boolean, integer, whole_number
from ticdc_assets.errors import ConfigError

_RAW_CHANGE: Final = "output-raw-change-event"
_ACTIVE_ACTIVE: Final = "enable-active-active"
_GLUE: Final = "sink.kafka-config.glue-schema-registry-config"
_BEFORE_VALUE: Final = "sink.kafka-config.codec-config.avro-include-before-value"
_BOOTSTRAPS: Final = ("send-bootstrap-interval-in-sec", "send-bootstrap-in-msg-count")


def refuse_lossy_options(options: SinkOptions, inputs: Inputs) -> None:
    """Raise ConfigError for options with which a stream cannot be read exactly."""
    if inputs.find(_ACTIVE_ACTIVE, boolean):
        advice = (
            "Read a changefeed without it: soft-deleted rows are marked by columns that this project does not read."
        )
        raise ConfigError(f"config.{_ACTIVE_ACTIVE}", "false", "true", advice)
    _refuse_raw_changes(options, inputs)
    _refuse_unordered_keys(options)
    if options.protocol == Protocol.AVRO:
        _refuse_avro(options, inputs.config)
    if options.is_storage and options.protocol == Protocol.CSV:
        options.csv.as_read()
    if options.is_storage and options.protocol == Protocol.CANAL_JSON:
        _refuse_terminator(options.csv.terminator)
    if options.content.column_selectors and options.dispatch.renames_tables:
        found = f"them and target-schema or target-table in {DISPATCHERS}"
        advice = "Use one of the two: selectors match the names at the source, and the stream has only the others."
        raise ConfigError(f"config.{SELECTORS}", "column selectors without table routes", found, advice)


def _refuse_raw_changes(options: SinkOptions, inputs: Inputs) -> None:
    sink = "cloud-storage" if options.is_storage else "pulsar" if options.scheme.startswith("pulsar") else "kafka"
    path = f"sink.{sink}-config.{_RAW_CHANGE}"
    if not inputs.find(path, boolean, _RAW_CHANGE):
        return
    if not options.has_old_values:
        advice = "Let the changefeed send old values, or set it to false: else an update of a key leaves the old row."
        raise ConfigError(f"config.{path}", "false where old values are not sent", "true", advice)
    if not _is_ordered(options):
        advice = (
            "Let rows have a commit_ts, or set it to false: if two rows of one transaction swap their keys, only a "
            "commit_ts shows that both deletes precede both inserts. Deletes of the Avro protocol never have one."
        )
        raise ConfigError(f"config.{path}", "false where changes have no commit_ts", "true", advice)


def _refuse_unordered_keys(options: SinkOptions) -> None:
    """If rows or deletes have no commit_ts, only the order within a partition is known."""
    if options.dispatch.spreads_keys and not _is_ordered(options) and not options.is_storage:
        found = "ts, columns, or index-value with an index"
        advice = (
            "Dispatch by table or by index-value, or let rows have a commit_ts (enable-tidb-extension): "
            "nothing else orders the changes of one key over partitions. Deletes of the Avro protocol never have one."
        )
        raise ConfigError(f"config.{DISPATCHERS}.partition", "all changes of a key in one partition", found, advice)


def _is_ordered(options: SinkOptions) -> bool:
    """Whether every change has a commit_ts."""
    return options.has_commit_ts and options.protocol != Protocol.AVRO


def _refuse_avro(options: SinkOptions, config: Mapping[str, Any]) -> None:
    glue = at(config, _GLUE)
    if isinstance(glue, Mapping) and any(glue.values()):
        advice = "Give the changefeed a `schema-registry`: messages of AWS Glue's registry are framed in another way."
        raise ConfigError(f"config.{_GLUE}", "a Confluent schema registry", "AWS Glue's", advice)
    if options.avro.include_before_value and not options.content.enable_tidb_extension:
        advice = (
            "Set enable-tidb-extension for the changefeed: otherwise a DELETE cannot be distinguished from an UPDATE."
        )
        raise ConfigError(
            f"config.{_BEFORE_VALUE}", "the option together with enable-tidb-extension", "the option alone", advice
        )


def _refuse_terminator(terminator: str) -> None:
    if terminator.strip(" \t\r\n") or not terminator.endswith("\n"):
        advice = (
            "Leave it out of the changefeed, which then writes lines, and read the new files in a changefeed of "
            "another name, with another `target`: this project reads messages line by line."
        )
        raise ConfigError("config.sink.terminator", "a line end, for files of Canal-JSON", repr(terminator), advice)


# ---- limits ----------------------------------------------------------------------------------------------------------


def limits(options: SinkOptions, inputs: Inputs) -> Iterator[str]:
    """What the stream lacks with the changefeed's options, one sentence each."""
    config = inputs.config
    if options.content.column_selectors:
        yield f"{SELECTORS}: a column that it leaves out is NULL in the tables"
    for path in ("filter.event-filters", "filter.ignore-txn-start-ts"):
        if at(config, path):
            yield f"{path}: what it leaves out is missing in the tables too"
    if inputs.find("bdr-mode", boolean):
        yield "bdr-mode: rows that came to this cluster from another one are not in the stream, nor in the tables"
    if options.protocol == Protocol.SIMPLE and any(_is_off(inputs, name) for name in _BOOTSTRAPS):
        names = " and ".join(_BOOTSTRAPS)
        yield f"{names}: no BOOTSTRAP messages are sent; tables older than the changefeed need `schema_files`"
    yield from _of_files(options, inputs) if options.is_storage else _of_messages(inputs)


def _is_off(inputs: Inputs, name: str) -> bool:
    value = inputs.find(f"sink.{name}", integer)
    return value is not None and value <= 0


def _of_files(options: SinkOptions, inputs: Inputs) -> Iterator[str]:
    if options.protocol == Protocol.CSV and options.csv.as_read().null_may_be_text:
        yield (
            f"csv.null={options.csv.null!r} without a quote: a nullable column of text or bytes with this text is NULL "
            "in the tables"
        )
    if not options.layout.enable_partition_separator:
        yield (
            "enable-partition-separator=false lets TiCDC overwrite files of partitioned tables: "
            "changes of such tables may be missing from the stream itself"
        )
    days = inputs.find("sink.cloud-storage-config.file-expiration-days", integer) or 0
    if days > 0 and options.layout.date_separator is DateSeparator.DAY:
        yield f"file-expiration-days={days}: TiCDC removes files of that age; run more often, or their changes are lost"


def _of_messages(inputs: Inputs) -> Iterator[str]:
    acks = inputs.find("sink.kafka-config.required-acks", whole_number, "required-acks")
    if acks in (0, 1):
        yield f"required-acks={acks} lets Kafka lose messages: changes may be missing from the stream itself"
