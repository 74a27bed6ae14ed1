"""Where a changefeed's messages, files, Avro schemas and large rows are read: the types of `source`, `schema_registry`
and `upstream` in `changefeeds.yaml`. Frozen; repr and str show no credential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ticdc_assets.config.model.sink import Storage
from ticdc_assets.config.reading.secrets import Secret, Settings

LANDED_MESSAGES_MAX: Final = 5_000_000
LANDED_BYTES_MAX: Final = 8 << 30
RUN_AFTER_S: Final = 60


@dataclass(frozen=True, slots=True)
class StorageSource:
    """The folder or bucket of a storage sink."""

    storage: Storage


@dataclass(frozen=True, slots=True)
class CaptureSource:
    """Captured Kafka messages: a file or a folder."""

    path: Path


@dataclass(frozen=True, slots=True)
class KafkaStart:
    """Where reading starts in a partition that was never read.

    `timestamp_ms` and `offsets` (by topic, then partition) are alternatives to `position`, which is `earliest` or
    `latest`. A partition that is not in `offsets` starts at `earliest`.
    """

    position: str = "earliest"
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of a Kafka cluster.

    `pattern` is a regular expression for whole topic names, used in addition to `topics` if dispatch rules name topics
    by table. `options` are settings of librdkafka under its own names (`security.protocol`, `sasl.mechanism`, ...). One
    run lands at most `messages_max` messages and about `bytes_max` bytes of keys and values. Landed messages are kept
    for `days_kept` days after decoding; forever if it is None. The sensor requests a run when the watermark of the
    topics has advanced by `run_after_s` seconds, or a message has waited that long.
    """

    brokers: tuple[str, ...]
    topics: tuple[str, ...]
    pattern: str | None = None
    options: Settings = field(default_factory=Settings)
    start: KafkaStart = field(default_factory=KafkaStart)
    messages_max: int = LANDED_MESSAGES_MAX
    bytes_max: int = LANDED_BYTES_MAX
    days_kept: int | None = None
    run_after_s: int = RUN_AFTER_S


@dataclass(frozen=True, slots=True)
class MessagesSource:
    """The messages that another changefeed of the file has landed: its table `messages`."""

    changefeed: str


Source = StorageSource | CaptureSource | KafkaSource | MessagesSource


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """The login for a schema registry: user and password, or a bearer token."""

    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """The source of Avro schemas by id: a Confluent registry at `url` (without credentials), or a `file`."""

    url: str | None = None
    file: Path | None = None
    auth: RegistryAuth | None = None


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """TLS: `ca` verifies the upstream (default: the system's authorities); `cert` and `key` are the client's."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """The TiDB that the changefeed reads from, to complete rows of which only the handle key was sent.

    Without `tls` the connection is encrypted only if the server offers it, and nothing is verified.
    """

    host: str
    user: str
    port: int = 4000
    password: Secret | None = None
    tls: UpstreamTls | None = None
