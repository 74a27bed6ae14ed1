"""One changefeed of the config: TiCDC's own options of its stream, then this project's options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from ticdc_assets.config.dagster_settings import read_dagster
from ticdc_assets.config.files import absolute_path, matching_files, read_toml
from ticdc_assets.config.model import (
    BadInputPolicy,
    CatalogConfig,
    Changefeed,
    HeldViews,
    KeyOverride,
    LargeRowSources,
    MirrorConfig,
    OffsetRule,
    OnBadMessage,
    OnDrop,
    PartitionField,
    PartitionRule,
    SchemaSources,
    ZeroDates,
)
from ticdc_assets.config.offsets import read_offset_rules
from ticdc_assets.config.reading import NAME, Section, as_name, nearest, shown
from ticdc_assets.config.secrets import redacted
from ticdc_assets.config.sink import KAFKA_SCHEMES, Protocol, SinkOptions, Storage
from ticdc_assets.config.source import read_claim_check, read_registry, read_source
from ticdc_assets.config.source_model import SchemaRegistry, Source, Upstream
from ticdc_assets.config.ticdc.keys import read_sink
from ticdc_assets.config.upstream import UpstreamKeys, upstream_of
from ticdc_assets.config.validation import Context, validated
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import IdentifierTemplates, check_target, check_view
from ticdc_assets.table_filter import TableFilter

FORMAT_VERSIONS: Final = (2, 3)
WITHOUT_VIEWS: Final = ("glue",)
"""The types of catalogs to which Iceberg's library writes no views."""
_NO_FILES: Final[tuple[Path, ...]] = ()
_NO_RULES: Final[tuple[OffsetRule, ...]] = ()


@dataclass(frozen=True, slots=True)
class _Stream:
    """The changefeed's own TiCDC configuration."""

    uri: str
    sink: SinkOptions
    config: Mapping[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Locations:
    """Where the stream is read; `source` is None if it is invalid."""

    source: Source | None = None
    registry: SchemaRegistry | None = None
    claim_check: Storage | None = None


# Placeholder for the options of an invalid stream, so that faults of other keys are reported in the same pass.
_UNKNOWN: Final = SinkOptions("file", Protocol.CSV)


def read_changefeed(feeds: Section, name: str, base: Path, catalog: CatalogConfig) -> Changefeed | None:
    """The changefeed, whose tables are in `catalog`; None if it is invalid."""
    before = len(feeds.problems.found)
    section = feeds.section(name)
    if not NAME.fullmatch(name):
        found = "a digit first" if name[:1].isdigit() else "other characters"
        feeds.problem(name, "a name of letters, _ and, after the first, digits", found, f"Call it {as_name(name)}.")
    stream = _stream(section, base)
    sink = stream.sink if stream is not None else _UNKNOWN
    places = _locations(section, stream, base)
    large_rows = LargeRowSources(places.claim_check, _upstream(section, sink, base))
    time_zone, tables = _time_zone(section), _tables(section, sink)
    schemas = SchemaSources(places.registry, tuple(_schema_files(section, base)), section.text("ddl_from"))
    mirror, bad_input = _mirror(section, sink), _bad_input(section, sink)
    target = _with_views(section, _target(section.section("target"), catalog.portable_names), sink, catalog.type)
    known_sink = stream.sink if stream is not None else None
    dagster = read_dagster(section, known_sink, large_rows.upstream is not None)
    section.close()
    if stream is None or places.source is None or len(feeds.problems.found) > before:
        return None
    return Changefeed(
        name=name,
        redacted_sink_uri=redacted(stream.uri),
        sink=sink,
        source=places.source,
        time_zone=time_zone,
        tables=tables,
        schemas=schemas,
        large_rows=large_rows,
        mirror=mirror,
        bad_input=bad_input,
        target=target,
        dagster=dagster,
        warnings=stream.warnings,
    )


def _locations(section: Section, stream: _Stream | None, base: Path) -> _Locations:
    if stream is None:
        for key in ("source", "schema_registry", "claim_check"):
            section.raw(key)
        return _Locations()
    source = read_source(section, stream.uri, stream.sink, stream.config, base)
    registry = read_registry(section, stream.sink, source, stream.config, base)
    return _Locations(source, registry, read_claim_check(section, stream.sink, source, base))


def _mirror(section: Section, sink: SinkOptions) -> MirrorConfig:
    return MirrorConfig(
        keys=tuple(_keys(section, sink)),
        partition=tuple(_partition(section, sink)),
        format_version=_format_version(section),
        on_drop=OnDrop(section.choice("on_drop", tuple(OnDrop), "keep")),
        history=_history(section, sink),
        held_views=HeldViews(section.choice("held_views", tuple(HeldViews), "back")),
    )


def _history(section: Section, sink: SinkOptions) -> TableFilter:
    found = _filter(section, "history", section.texts("history"), sink)
    if found.takes_any and sink is not _UNKNOWN and sink.is_by_arrival:
        advice = "Without both there is no TSO from which a row is valid. Remove it."
        section.problem("history", "a stream with commit_ts and watermarks", "one without", advice)
    return found


def _bad_input(section: Section, sink: SinkOptions) -> BadInputPolicy:
    return BadInputPolicy(
        on_bad_message=OnBadMessage(section.choice("on_bad_message", tuple(OnBadMessage), "quarantine")),
        stays_before_quarantine=section.choice("readers", ("newest", "before_quarantine"), "newest") != "newest",
        zero_dates=ZeroDates(section.choice("zero_dates", tuple(ZeroDates), "null")),
        skip_files=section.texts("skip_files"),
        skip_offsets=tuple(_skip_offsets(section, sink)),
    )


# ---- the stream ------------------------------------------------------------------------------------------------------


def _stream(section: Section, base: Path) -> _Stream | None:
    uri = section.text("sink_uri")
    written, file = section.raw("config"), section.text("config_file")
    if uri is None:
        if "sink_uri" not in section:
            section.problem(
                "sink_uri", "the URI given to cdc", "none", "Add sink_uri: with the changefeed's --sink-uri."
            )
        return None
    if written is not None and file:
        section.problem("config_file", "config or config_file", "both", "Remove one of the two.")
        return None
    if file:
        config = section.checked("config_file", lambda: read_toml(Path(absolute_path(base, file))), None)
    else:
        config = _inline(section, written)
    if config is None:
        return None
    read = section.checked("sink_uri", lambda: read_sink(uri, config), None)
    return None if read is None else _Stream(uri, read[0], config, read[1])


def _inline(section: Section, written: Any) -> Mapping[str, Any] | None:
    if written is None:
        return {}
    if isinstance(written, dict):
        return {key: _with_environment(section, value) for key, value in written.items()}
    found, advice = f"a {type(written).__name__}", "Paste TiCDC's configuration, or use config_file."
    section.problem("config", "a mapping", found, advice)
    return None


def _with_environment(section: Section, value: Any) -> Any:
    if isinstance(value, list):
        return [_with_environment(section, item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["env"]:
        return section.resolve("config", value)
    return {key: _with_environment(section, item) for key, item in value.items()}


# ---- this project's options ------------------------------------------------------------------------------------------


def _time_zone(section: Section) -> str:
    zone = section.text("time_zone", "UTC") or "UTC"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        section.problem("time_zone", "an IANA time zone", shown(zone), "Write one such as UTC or Asia/Shanghai.")
    return zone


def _tables(section: Section, sink: SinkOptions) -> TableFilter:
    rules = section.texts("tables", ("*.*",))
    found = _filter(section, "tables", rules, sink)
    if not found.takes_any and not section.problems.found:
        advice = 'Write ["*.*"], or leave it out: then all are read.'
        section.problem("tables", "a rule by which tables are read", "none", advice)
    return found


def _upstream(section: Section, sink: SinkOptions, base: Path) -> Upstream | None:
    below = section.section("upstream")
    keys = None
    if section.raw("upstream") is not None:
        keys = validated(UpstreamKeys, below, Context(section.environ, base))
    upstream = None if keys is None else upstream_of(keys, below)
    if upstream is not None and sink.dispatch.renames_tables:
        expected = "a changefeed without target-schema and target-table in sink.dispatchers"
        advice = "Use claim-check for large messages: TiDB has the tables under other names than the stream."
        section.problem("upstream", expected, "one that has them", advice)
    return upstream


def _filter(section: Section, key: str, rules: tuple[str, ...], sink: SinkOptions) -> TableFilter:
    return section.checked(key, lambda: TableFilter(rules, sink.case_sensitive), TableFilter(()))


def _schema_files(section: Section, base: Path) -> Iterator[Path]:
    for pattern in section.texts("schema_files"):
        yield from section.checked("schema_files", partial(matching_files, base, pattern), _NO_FILES)


def _skip_offsets(section: Section, sink: SinkOptions) -> Iterator[OffsetRule]:
    texts, source = section.texts("skip_offsets"), section.section("source")
    reads_messages = any(kind in source for kind in ("capture", "kafka", "messages"))
    if texts and not reads_messages and ("storage" in source or sink.scheme not in KAFKA_SCHEMES):
        section.problem("skip_offsets", "a source of Kafka messages", "a storage sink", "Remove it.")
    for text in texts:
        yield from section.checked("skip_offsets", partial(read_offset_rules, text), _NO_RULES)


def _keys(section: Section, sink: SinkOptions) -> Iterator[KeyOverride]:
    below_keys = section.section("keys")
    for pattern in below_keys:
        columns = below_keys.texts(pattern)
        if not columns or len(set(columns)) < len(columns):
            below_keys.problem(pattern, "the key's columns, each once", "none or a repeat", 'Write ["a", "b"].')
        yield KeyOverride(pattern, _filter(below_keys, pattern, (pattern,), sink), columns)


def _format_version(section: Section) -> int:
    version = section.raw("format_version")
    if version is None:
        return FORMAT_VERSIONS[-1]
    if type(version) is int and version in FORMAT_VERSIONS:
        return version
    section.problem("format_version", "2 or 3", shown(version), "Write 3, or 2 for readers without deletion vectors.")
    return FORMAT_VERSIONS[-1]


def _target(section: Section, portable: bool) -> IdentifierTemplates:
    names = [f.name for f in fields(IdentifierTemplates) if f.name not in ("portable", "view")]
    given = {name: section.text(name) for name in names}
    section.close()
    target = IdentifierTemplates(portable=portable, **{name: text for name, text in given.items() if text is not None})
    try:
        check_target(target)
    except ConfigError as error:
        section.problem(error.where, error.expected, error.found, error.advice)
    return target


def _with_views(
    section: Section, target: IdentifierTemplates, sink: SinkOptions, catalog_type: str
) -> IdentifierTemplates:
    """The templates with that of `views`."""
    with_views = replace(target, view=section.text("views"))
    if with_views.view is not None and catalog_type in WITHOUT_VIEWS:
        advice = "Remove it, and read a record of `watermarks`: docs/readers.md."
        section.problem("views", "a catalog with Iceberg's views", f"one of type {catalog_type}", advice)
    if with_views.view is not None and sink is not _UNKNOWN and sink.is_by_arrival:
        advice = "Without both there is no TSO at which the tables can be read together. Remove it."
        section.problem("views", "a stream with commit_ts and watermarks", "one without", advice)
    try:
        check_view(with_views)
    except ConfigError as error:
        section.problem(error.where, error.expected, error.found, error.advice)
    return with_views


# ---- partition specs -------------------------------------------------------------------------------------------------

_TRANSFORMS: Final = ("identity", "bucket", "truncate", "year", "month", "day", "hour")
_WITH_ARGUMENT: Final = frozenset({"bucket", "truncate"})
_CALL: Final = re.compile(
    r"(?P<name>[A-Za-z]+)\s*\(\s*(?:(?P<argument>[0-9]+)\s*(?:,\s*|(?=\))))?(?P<column>[^()]*?)\s*\)"
)


def _partition(section: Section, sink: SinkOptions) -> Iterator[PartitionRule]:
    written = section.raw("partition")
    if written is None:
        return
    if not isinstance(written, dict):
        specs = section.texts("partition")
        yield PartitionRule("*.*", TableFilter(("*.*",)), _specs(section, "partition", specs))
        return
    rules = section.section("partition")
    for pattern in rules:
        fields_ = _specs(rules, pattern, rules.texts(pattern))
        yield PartitionRule(pattern, _filter(rules, pattern, (pattern,), sink), fields_)


def _specs(section: Section, key: str, texts: tuple[str, ...]) -> tuple[PartitionField, ...]:
    if texts == ("none",):
        return ()
    found = (section.checked(key, partial(read_partition_field, text), None) for text in texts)
    return tuple(f for f in found if f is not None)


def read_partition_field(text: str) -> PartitionField:
    """Parse a partition field: `bucket(16)`, `bucket(16, id)`, `truncate(4, name)`, `day(created)`, `identity(a)`.

    Raises:
        ConfigError: the text is no partition field.
    """
    found = _CALL.fullmatch(text.strip())
    name = found["name"].lower().removesuffix("s") if found else ""
    argument = int(found["argument"]) if found and found["argument"] else None
    column = (found["column"] or None) if found else None
    if found is None or name not in _TRANSFORMS:
        meant = nearest(text.partition("(")[0], _TRANSFORMS)
        advice = f"Did you mean {meant}(...)?" if meant else "Write none, bucket(16), bucket(16, id) or day(created)."
        raise ConfigError("", "an Iceberg transform", shown(text), advice)
    if (name in _WITH_ARGUMENT) != (argument is not None) or argument == 0:
        advice = "Write bucket(16), truncate(4, name), day(created)."
        raise ConfigError("", "a number for bucket and truncate, and for them only", shown(text), advice)
    if column is None and name != "bucket":
        raise ConfigError(
            "", "a column", shown(text), f"Write {text.rstrip(')')}, column)." if argument else f"Write {name}(column)."
        )
    return PartitionField(name, argument, column)
