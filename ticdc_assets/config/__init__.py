"""The user's config (`changefeeds.yaml`), validated: `load(path, environ)` returns a frozen `Config`.

An unknown key is refused, with the nearest known key as a hint. All faults of a file are reported at once. No error,
repr or str contains a credential.
"""

from __future__ import annotations

from ticdc_assets.config.loading import CONFIG_VARIABLE, PACKAGED_SAMPLE, SCHEMA, config_within, editor_line, load
from ticdc_assets.config.model.config import (
    BadInputPolicy,
    CatalogConfig,
    Changefeed,
    Config,
    DagsterConfig,
    KeyOverride,
    LargeRowSources,
    MirrorConfig,
    OffsetRule,
    OnBadMessage,
    OnDrop,
    PartitionField,
    PartitionRule,
    Publish,
    SchemaSources,
    SparkConfig,
    ZeroDates,
)
from ticdc_assets.config.model.sink import (
    CsvSinkOptions,
    DateSeparator,
    LargeMessageHandle,
    LargeMessageOption,
    Protocol,
    SinkOptions,
    Storage,
)
from ticdc_assets.config.model.source import (
    CaptureSource,
    KafkaSource,
    KafkaStart,
    MessagesSource,
    RegistryAuth,
    SchemaRegistry,
    Source,
    StorageSource,
    Upstream,
    UpstreamTls,
)
from ticdc_assets.config.reading.secrets import Secret, Settings, redacted
from ticdc_assets.config.ticdc.sink_options import read_sink
from ticdc_assets.names import IdentifierTemplates

__all__ = [
    "CONFIG_VARIABLE",
    "PACKAGED_SAMPLE",
    "SCHEMA",
    "BadInputPolicy",
    "CaptureSource",
    "CatalogConfig",
    "Changefeed",
    "Config",
    "CsvSinkOptions",
    "DagsterConfig",
    "DateSeparator",
    "IdentifierTemplates",
    "KafkaSource",
    "KafkaStart",
    "KeyOverride",
    "LargeMessageHandle",
    "LargeMessageOption",
    "LargeRowSources",
    "MessagesSource",
    "MirrorConfig",
    "OffsetRule",
    "OnBadMessage",
    "OnDrop",
    "PartitionField",
    "PartitionRule",
    "Protocol",
    "Publish",
    "RegistryAuth",
    "SchemaRegistry",
    "SchemaSources",
    "Secret",
    "Settings",
    "SinkOptions",
    "Source",
    "SparkConfig",
    "Storage",
    "StorageSource",
    "Upstream",
    "UpstreamTls",
    "ZeroDates",
    "config_within",
    "editor_line",
    "load",
    "read_sink",
    "redacted",
]
