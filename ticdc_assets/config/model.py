"""What `changefeeds.yaml` says, checked and with every default filled in. Frozen; nothing here prints a credential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from ticdc_assets.config.secrets import Secret, Settings
from ticdc_assets.config.sink import SinkOptions, Storage
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import Target
from ticdc_assets.table_filter import TableFilter

CATALOG_TYPES: Final = ("sql", "rest", "glue", "hive")
PORTABLE_CATALOG_TYPES: Final = ("glue", "hive")


class ZeroDates(StrEnum):
    """What a date such as 0000-00-00 becomes: NULL, counted in the run's metadata, or an error that
    quarantines its record."""

    NULL = "null"
    ERROR = "error"


class OnBadMessage(StrEnum):
    """What happens to a message that cannot be decoded: its table stops, or it is kept raw and a check is red."""

    STOP = "stop"
    QUARANTINE = "quarantine"


class OnDrop(StrEnum):
    """What happens to the mirror of a dropped table: it is kept and marked, or removed."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """The Iceberg catalog, shared by Spark and pyiceberg.

    `uri` is None for glue, and may hold a password: never print it. `warehouse` is an absolute folder or a URI,
    None where the catalog knows it. `properties` go to pyiceberg, and to Spark below `spark.sql.catalog.<name>.`.
    """

    name: str
    type: str
    uri: str | None = field(repr=False)
    warehouse: str | None
    properties: Settings = field(default_factory=Settings)

    @property
    def warehouse_uri(self) -> str | None:
        """The warehouse as Iceberg wants it: a folder as file://, None where the catalog knows."""
        if self.warehouse is None or "://" in self.warehouse:
            return self.warehouse
        return f"file://{self.warehouse}"


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where Spark runs. `conf` is set last."""

    master: str = "local[*]"
    conf: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class StorageSource:
    """The tree that a storage sink writes."""

    storage: Storage


@dataclass(frozen=True, slots=True)
class CaptureSource:
    """A file of captured Kafka messages, one JSON object a line."""

    path: Path


@dataclass(frozen=True, slots=True)
class KafkaStart:
    """Where reading begins in a partition that was never read.

    `timestamp_ms` and `offsets` (by topic, then partition) are alternatives to `position`, which is `earliest` or
    `latest`. A partition that `offsets` does not name begins at `earliest`.
    """

    position: str = "earliest"
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of a Kafka cluster.

    `pattern` is a regular expression for whole topic names, used besides `topics` where dispatch rules name topics by
    table. `options` are settings of librdkafka under its own names (`security.protocol`, `sasl.mechanism`, ...).
    """

    brokers: tuple[str, ...]
    topics: tuple[str, ...]
    pattern: str | None = None
    options: Settings = field(default_factory=Settings)
    start: KafkaStart = field(default_factory=KafkaStart)


Source = StorageSource | CaptureSource | KafkaSource


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """How to log in to a schema registry: user and password, or a bearer token."""

    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where Avro schemas are looked up by id: a Confluent registry at `url` (without credentials), or a `file`."""

    url: str | None = None
    file: Path | None = None
    auth: RegistryAuth | None = None


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """What proves the upstream's identity, the system's authorities unless `ca`; `cert` and `key` prove ours."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """The TiDB that the changefeed reads from, to complete rows of which only the handle key was sent.

    Without `tls` the connection is encrypted only where the server offers it, and nothing is verified.
    """

    host: str
    user: str
    port: int = 4000
    password: Secret | None = None
    tls: UpstreamTls | None = None


@dataclass(frozen=True, slots=True)
class KeyOverride:
    """The key columns of the tables that a filter pattern means."""

    pattern: str
    tables: TableFilter
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a mirror's partition spec.

    `transform` is an Iceberg transform, `argument` its buckets or width, `column` None for the first key column.
    """

    transform: str
    argument: int | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """The partition spec of the mirrors of the tables that a filter pattern means; no fields is no partitioning."""

    pattern: str
    tables: TableFilter
    fields: tuple[PartitionField, ...]


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """Offsets that a capture may lack: of the topics that the glob `topic` means, of one partition or of all (None)."""

    topic: str
    partition: int | None
    first: int
    end: int

    @property
    def range(self) -> tuple[int, int]:
        return (self.first, self.end)

    def is_of(self, partition: tuple[str, int]) -> bool:
        """Whether it speaks of this topic and partition."""
        return self.partition in (None, partition[1]) and fnmatchcase(partition[0], self.topic)


@dataclass(frozen=True, slots=True)
class Changefeed:
    """One changefeed.

    name: letters, digits and _, no digit first; names its Dagster group and its control tables.
    sink_uri, redacted_sink_uri: as given to cdc; the first is hidden, the second may be printed.
    sink: what URI and configuration say about the stream's form.
    source: where this project reads the stream; what sink_uri names, unless configured.
    schema_registry: for the Avro protocol.
    claim_check: where large messages are, None where the changefeed has none.
    upstream: the TiDB to complete large rows from; without it they wait where only their key was sent.
    time_zone: the zone TiCDC writes TIMESTAMP in.
    tables: which tables are read (TiCDC's filter; all, unless configured).
    schema_files: CREATE TABLE statements or Dumpling schema dumps for tables older than the stream.
    ddl_from: the changefeed whose DDL this one takes, for the Avro protocol.
    keys: key columns of tables whose key the stream does not tell; the last that matches decides.
    zero_dates, on_bad_message, on_drop: see their types.
    partition: partition specs of mirrors; the last that matches decides.
    format_version: Iceberg's, 3, or 2 for readers without deletion vectors.
    skip_files: patterns of data files that the user has looked at and wants passed over.
    skip_offsets: messages that the capture lacks, and that the user gives up.
    target: templates of the identifiers of the tables.
    warnings: what looks wrong in the changefeed's own configuration without being an error.
    """

    name: str
    sink_uri: Secret
    redacted_sink_uri: str
    sink: SinkOptions
    source: Source
    schema_registry: SchemaRegistry | None = None
    claim_check: Storage | None = None
    upstream: Upstream | None = None
    time_zone: str = "UTC"
    tables: TableFilter = field(default_factory=lambda: TableFilter(("*.*",)))
    schema_files: tuple[Path, ...] = ()
    ddl_from: str | None = None
    keys: tuple[KeyOverride, ...] = ()
    zero_dates: ZeroDates = ZeroDates.NULL
    on_bad_message: OnBadMessage = OnBadMessage.QUARANTINE
    on_drop: OnDrop = OnDrop.KEEP
    partition: tuple[PartitionRule, ...] = ()
    format_version: int = 3
    skip_files: tuple[str, ...] = ()
    skip_offsets: tuple[OffsetRule, ...] = ()
    target: Target = field(default_factory=Target)
    warnings: tuple[str, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @property
    def default_topic(self) -> str:
        """The topic of a Kafka sink's URI: of tables that no rule gives another, and of whole databases' statements."""
        return unquote(urlsplit(self.redacted_sink_uri).path).strip("/")

    def key_of(self, schema: str, table: str) -> tuple[str, ...] | None:
        """The configured key columns of a table."""
        return next((k.columns for k in reversed(self.keys) if k.tables.matches(schema, table)), None)

    def partition_of(self, schema: str, table: str) -> tuple[PartitionField, ...]:
        """The configured partition spec of a table's mirror."""
        return next((p.fields for p in reversed(self.partition) if p.tables.matches(schema, table)), ())


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. `path` is where it was read from."""

    path: Path
    catalog: CatalogConfig
    spark: SparkConfig
    changefeeds: tuple[Changefeed, ...]

    def changefeed(self, name: str) -> Changefeed:
        """The changefeed of that name. Raises ConfigError where there is none."""
        for changefeed in self.changefeeds:
            if changefeed.name == name:
                return changefeed
        known = ", ".join(c.name for c in self.changefeeds)
        raise ConfigError(str(self.path), f"one of the changefeeds {known}", name, "Name one of them.")
