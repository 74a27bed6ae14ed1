"""One changefeed of the config: TiCDC's own options of its stream, then this project's options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ticdc_assets.config.keys.changefeed_keys import ChangefeedKeys
from ticdc_assets.config.keys.dagster import dagster_of
from ticdc_assets.config.keys.source import claim_check_of, registry_of, source_of, upstream_of
from ticdc_assets.config.model.config import (
    BadInputPolicy,
    CatalogConfig,
    Changefeed,
    KeyOverride,
    LargeRowSources,
    MirrorConfig,
    PartitionRule,
    Publish,
    SchemaSources,
)
from ticdc_assets.config.model.sink import KAFKA_SCHEMES, Protocol, SinkOptions, Storage
from ticdc_assets.config.model.source import SchemaRegistry, Source, Upstream
from ticdc_assets.config.reading.files import matching_files, read_toml
from ticdc_assets.config.reading.secrets import redacted
from ticdc_assets.config.reading.sections import NAME, Section, as_name
from ticdc_assets.config.ticdc.sink_options import read_sink
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import IdentifierTemplates, check_target, check_view
from ticdc_assets.names.table_filter import TableFilter

WITHOUT_VIEWS: Final = ("glue",)
"""The types of catalogs to which Iceberg's library writes no views."""
JOINT_CATALOGS: Final = ("sql", "rest")
"""The types of catalogs that can commit several tables at once."""
_NO_FILES: Final[tuple[Path, ...]] = ()


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


def changefeed_of(
    keys: ChangefeedKeys, feeds: Section, name: str, base: Path, catalog: CatalogConfig
) -> Changefeed | None:
    """The changefeed, whose tables are in `catalog`; None if it is invalid."""
    section = feeds.below(name)
    if not NAME.fullmatch(name):
        found = "a digit first" if name[:1].isdigit() else "other characters"
        feeds.problem(name, "a name of letters, _ and, after the first, digits", found, f"Call it {as_name(name)}.")
    stream = _stream(keys, section)
    sink = stream.sink if stream is not None else _UNKNOWN
    places = _locations(keys, section, stream, base)
    large_rows = LargeRowSources(places.claim_check, _upstream(keys, section, sink))
    schemas = SchemaSources(places.registry, tuple(_schema_files(keys, section, base)), keys.ddl_from)
    mirror, bad_input, tables = (
        _mirror(keys, section, sink, catalog),
        _bad_input(keys, section, sink),
        _tables(keys, section, sink),
    )
    target = _target(keys, section, sink, catalog)
    known_sink = stream.sink if stream is not None else None
    dagster = dagster_of(keys.dagster, section.below("dagster"), known_sink, large_rows.upstream is not None)
    if stream is None or places.source is None or section.is_faulty:
        return None
    return Changefeed(
        name=name,
        redacted_sink_uri=redacted(stream.uri),
        sink=sink,
        source=places.source,
        time_zone=keys.time_zone,
        tables=tables,
        schemas=schemas,
        large_rows=large_rows,
        mirror=mirror,
        bad_input=bad_input,
        target=target,
        dagster=dagster,
        warnings=stream.warnings,
    )


def _stream(keys: ChangefeedKeys, section: Section) -> _Stream | None:
    uri, file = keys.sink_uri, keys.config_file
    if uri is None:
        if "sink_uri" not in section:
            advice = "Add sink_uri: with the changefeed's --sink-uri."
            section.problem("sink_uri", "the URI given to cdc", "none", advice)
        return None
    if "config" in section and file is not None:
        section.problem("config_file", "config or config_file", "both", "Remove one of the two.")
        return None
    if "config" in section and section.below("config").is_faulty:
        return None
    config = section.checked("config_file", lambda: read_toml(file), None) if file else keys.config
    if config is None:
        return None
    read = section.checked("sink_uri", lambda: read_sink(uri, config), None)
    return None if read is None else _Stream(uri, read[0], config, read[1])


def _locations(keys: ChangefeedKeys, section: Section, stream: _Stream | None, base: Path) -> _Locations:
    if stream is None:
        return _Locations()
    source = source_of(keys.source, section, stream.uri, stream.sink, stream.config, base)
    registry = registry_of(keys.schema_registry, section, stream.sink, source)
    return _Locations(source, registry, claim_check_of(keys.claim_check, section, stream.sink, source, base))


def _mirror(keys: ChangefeedKeys, section: Section, sink: SinkOptions, catalog: CatalogConfig) -> MirrorConfig:
    history = section.filter("history", keys.history, sink.case_sensitive)
    if history.takes_any and sink is not _UNKNOWN and sink.is_by_arrival:
        advice = "Without both there is no TSO from which a row is valid. Remove it."
        section.problem("history", "a stream with commit_ts and watermarks", "one without", advice)
    _check_publish(keys, section, sink, catalog)
    return MirrorConfig(
        keys=section.below("keys").rules(KeyOverride, keys.keys, sink.case_sensitive),
        partition=section.below("partition").rules(PartitionRule, keys.partition, sink.case_sensitive),
        format_version=keys.format_version,
        on_drop=keys.on_drop,
        history=history,
        held_views=keys.held_views,
        publish=keys.publish,
    )


def _check_publish(keys: ChangefeedKeys, section: Section, sink: SinkOptions, catalog: CatalogConfig) -> None:
    if keys.publish is Publish.EACH:
        return
    advice = "Write each, or remove it."
    if catalog.type not in JOINT_CATALOGS:
        expected = f"a catalog that commits several tables at once: {' or '.join(JOINT_CATALOGS)}"
        section.problem("publish", expected, f"one of type {catalog.type}", advice)
    if sink is not _UNKNOWN and sink.is_by_arrival:
        section.problem("publish", "a stream with commit_ts and watermarks", "one without", advice)


def _bad_input(keys: ChangefeedKeys, section: Section, sink: SinkOptions) -> BadInputPolicy:
    source = section.below("source")
    reads_messages = any(kind in source for kind in ("capture", "kafka", "messages"))
    if keys.skip_offsets and not reads_messages and ("storage" in source or sink.scheme not in KAFKA_SCHEMES):
        section.problem("skip_offsets", "a source of Kafka messages", "a storage sink", "Remove it.")
    return BadInputPolicy(
        on_bad_message=keys.on_bad_message,
        stays_before_quarantine=keys.readers == "before_quarantine",
        zero_dates=keys.zero_dates,
        skip_files=keys.skip_files,
        skip_offsets=keys.skip_offsets,
    )


def _tables(keys: ChangefeedKeys, section: Section, sink: SinkOptions) -> TableFilter:
    before = len(section.problems.found)
    found = section.filter("tables", keys.tables, sink.case_sensitive)
    if not found.takes_any and len(section.problems.found) == before:
        advice = 'Write ["*.*"], or leave it out: then all are read.'
        section.problem("tables", "a rule by which tables are read", "none", advice)
    return found


def _upstream(keys: ChangefeedKeys, section: Section, sink: SinkOptions) -> Upstream | None:
    if keys.upstream is not None and sink.dispatch.renames_tables:
        expected = "a changefeed without target-schema and target-table in sink.dispatchers"
        advice = "Use claim-check for large messages: TiDB has the tables under other names than the stream."
        section.problem("upstream", expected, "one that has them", advice)
    if keys.upstream is None:  # what is written with a fault is no reason for another one
        return Upstream("", "") if "upstream" in section else None
    return upstream_of(keys.upstream, section.below("upstream"))


def _schema_files(keys: ChangefeedKeys, section: Section, base: Path) -> Iterator[Path]:
    for pattern in keys.schema_files:
        yield from section.checked("schema_files", partial(matching_files, base, pattern), _NO_FILES)


def _target(keys: ChangefeedKeys, section: Section, sink: SinkOptions, catalog: CatalogConfig) -> IdentifierTemplates:
    if keys.views is not None and catalog.type in WITHOUT_VIEWS:
        advice = "Remove it, and read a record of `watermarks`: docs/readers.md."
        section.problem("views", "a catalog with Iceberg's views", f"one of type {catalog.type}", advice)
    if keys.views is not None and sink is not _UNKNOWN and sink.is_by_arrival:
        advice = "Without both there is no TSO at which the tables can be read together. Remove it."
        section.problem("views", "a stream with commit_ts and watermarks", "one without", advice)
    names = keys.target
    target = IdentifierTemplates(names.mirror, names.changelog, names.control, keys.views, catalog.portable_names)
    for check, of in ((check_target, section.below("target")), (check_view, section)):
        try:
            check(target)
        except ConfigError as error:
            of.problem(error.where, error.expected, error.found, error.advice)
    return target
