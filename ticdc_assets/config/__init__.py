"""What a user writes (`changefeeds.yaml`), closed and validated: `load(path, environ)` gives a frozen `Config`.

Unknown keys are refused with the nearest known one, all faults of a file are told at once, and no error, repr or str
holds a credential.
"""

from __future__ import annotations

from ticdc_assets.config.loading import CONFIG_VARIABLE, load
from ticdc_assets.config.model import (
    CaptureSource,
    CatalogConfig,
    Changefeed,
    Config,
    KafkaSource,
    KafkaStart,
    KeyOverride,
    OnBadMessage,
    OnDrop,
    PartitionField,
    PartitionRule,
    RegistryAuth,
    SchemaRegistry,
    Source,
    SparkConfig,
    StorageSource,
    Upstream,
    UpstreamTls,
    ZeroDates,
)
from ticdc_assets.config.secrets import Secret, Settings, redacted
from ticdc_assets.config.sink import (
    Compression,
    CsvOptions,
    DateSeparator,
    Integrity,
    LargeMessageHandle,
    LargeMessageOption,
    Protocol,
    SinkOptions,
    Storage,
)
from ticdc_assets.config.ticdc_keys import read_sink
from ticdc_assets.names import Target

__all__ = [
    "CONFIG_VARIABLE",
    "CaptureSource",
    "CatalogConfig",
    "Changefeed",
    "Compression",
    "Config",
    "CsvOptions",
    "DateSeparator",
    "Integrity",
    "KafkaSource",
    "KafkaStart",
    "KeyOverride",
    "LargeMessageHandle",
    "LargeMessageOption",
    "OnBadMessage",
    "OnDrop",
    "PartitionField",
    "PartitionRule",
    "Protocol",
    "RegistryAuth",
    "SchemaRegistry",
    "Secret",
    "Settings",
    "SinkOptions",
    "Source",
    "SparkConfig",
    "Storage",
    "StorageSource",
    "Target",
    "Upstream",
    "UpstreamTls",
    "ZeroDates",
    "load",
    "read_sink",
    "redacted",
]
