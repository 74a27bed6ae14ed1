"""The content of `changefeeds.yaml`, validated, with all defaults. Frozen; repr and str show no credential."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ticdc_assets.config.model.object_store import ObjectStore, StoreType, java_io_of, store_type_of
from ticdc_assets.config.model.sink import SinkOptions, Storage
from ticdc_assets.config.model.source import SchemaRegistry, Source, Upstream
from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import IdentifierTemplates
from ticdc_assets.names.table_filter import TableFilter

PORTABLE_CATALOG_TYPES: Final = ("glue", "hive")
PORTABLE_SIGNING_NAMES: Final = ("glue", "s3tables")
NAMING_CATALOG_TYPES: Final = ("rest", "glue")


class ZeroDates(StrEnum):
    """What a date such as 0000-00-00 becomes: NULL, counted in the run's metadata; or an error that quarantines its
    record."""

    NULL = "null"
    ERROR = "error"


class OnBadMessage(StrEnum):
    """What happens to a message that cannot be decoded: its table stops, or the message goes to quarantine. A run whose
    records are mostly bad is refused, but with `quarantine_all`."""

    STOP = "stop"
    QUARANTINE = "quarantine"
    QUARANTINE_ALL = "quarantine_all"


class OnDrop(StrEnum):
    """What happens to the mirror of a dropped table: it is kept and marked, or removed."""

    KEEP = "keep"
    DROP = "drop"


class HeldViews(StrEnum):
    """What views show while a table is held: all of them stay at the last complete record, or those of the other tables
    go on and that of the table is dropped until it is complete."""

    BACK = "back"
    REFUSE = "refuse"


class Publish(StrEnum):
    """How a run publishes its mirrors: each in a commit of its own, or all and the record in one."""

    EACH = "each"
    TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """The Iceberg catalog, shared by Spark and pyiceberg.

    `uri` is None for glue, and may contain a password: never print it. `warehouse` is an absolute folder, a URI, or the
    catalog's own name for it (a name or an ARN); None if the catalog has a default. `properties` go to pyiceberg, and
    to Spark below `spark.sql.catalog.<name>.`; they override `store`. With `portable_names`, names consist of lower
    case letters, digits and _.
    """

    name: str
    type: str
    uri: str | None = field(repr=False)
    warehouse: str | None
    properties: Settings = field(default_factory=Settings)
    portable_names: bool = False
    store: ObjectStore | None = None

    @property
    def pyiceberg_properties(self) -> Settings:
        """pyiceberg's properties besides type, URI and warehouse."""
        return self.properties if self.store is None else self.store.pyiceberg_properties | self.properties

    @property
    def java_properties(self) -> Settings:
        """The properties of Iceberg's Java library besides type, URI and warehouse."""
        found = self.properties if self.store is None else self.store.java_properties | self.properties
        kind = self.store_type
        if kind is None or self.type == "rest":  # with REST, Java chooses the file system by each file's URI
            return found
        return Settings({"io-impl": java_io_of(kind)}) | found

    @property
    def store_type(self) -> StoreType | None:
        """The object store of the warehouse, if the config shows it."""
        if self.root_uri is not None:
            return store_type_of(self.root_uri)
        if self.store is not None:
            return self.store.type
        return StoreType.S3 if self.type == "glue" else None

    @property
    def iceberg_warehouse(self) -> str | None:
        """The warehouse as Iceberg's libraries expect it: a folder as file://, anything else unchanged."""
        if self.warehouse is None or "://" in self.warehouse or self.names_warehouses:
            return self.warehouse
        return f"file://{self.warehouse}"

    @property
    def root_uri(self) -> str | None:
        """The folder below which this project places each table; None if the catalog chooses the location."""
        root = self.iceberg_warehouse
        return root.rstrip("/") if root is not None and "://" in root else None

    @property
    def names_warehouses(self) -> bool:
        """Whether a warehouse that is no URI is a name in the catalog, and no folder."""
        return self.type in NAMING_CATALOG_TYPES


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where Spark runs. `conf` overrides all other settings."""

    master: str = "local[*]"
    conf: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class KeyOverride:
    """The key columns of the tables that match a filter pattern."""

    pattern: str
    tables: TableFilter
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a mirror's partition spec.

    `transform` is an Iceberg transform, `argument` its number of buckets or its width; `column` None is the first key
    column.
    """

    transform: str
    argument: int | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """The partition spec for mirrors of tables that match a filter pattern; without fields they are unpartitioned."""

    pattern: str
    tables: TableFilter
    fields: tuple[PartitionField, ...]


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """Offsets that a source may lack, in the topics that match the glob `topic`; `partition` None means all."""

    topic: str
    partition: int | None
    first: int
    end: int

    @property
    def range(self) -> tuple[int, int]:
        return (self.first, self.end)

    def is_of(self, partition: tuple[str, int]) -> bool:
        """Whether the rule applies to this topic and partition."""
        return self.partition in (None, partition[1]) and fnmatchcase(partition[0], self.topic)


@dataclass(frozen=True, slots=True)
class SchemaSources:
    """Where the schemas of tables come from, besides the stream itself.

    registry: for the Avro protocol.
    files: CREATE TABLE statements or Dumpling schema dumps for tables older than the stream.
    ddl_from: the changefeed whose DDL is used for this one, for the Avro protocol.
    """

    registry: SchemaRegistry | None = None
    files: tuple[Path, ...] = ()
    ddl_from: str | None = None


@dataclass(frozen=True, slots=True)
class LargeRowSources:
    """Where rows come from that are too large for a message.

    claim_check: the storage of large messages; None if the changefeed has none.
    upstream: the TiDB from which rows are completed; without it, rows with only their key wait.
    """

    claim_check: Storage | None = None
    upstream: Upstream | None = None


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """How mirrors are made.

    keys: key columns of tables whose key is not in the stream; the last match decides.
    partition: partition specs; the last match decides.
    format_version: Iceberg's table format: 3, or 2 for readers without deletion vectors.
    history: the tables that have a history table beside their mirror.
    """

    keys: tuple[KeyOverride, ...] = ()
    partition: tuple[PartitionRule, ...] = ()
    format_version: int = 3
    on_drop: OnDrop = OnDrop.KEEP
    history: TableFilter = field(default_factory=lambda: TableFilter(()))
    held_views: HeldViews = HeldViews.BACK
    publish: Publish = Publish.EACH

    def key_of(self, schema: str, table: str) -> tuple[str, ...] | None:
        """The configured key columns of a table."""
        return next((k.columns for k in reversed(self.keys) if k.tables.matches(schema, table)), None)

    def partition_of(self, schema: str, table: str) -> tuple[PartitionField, ...]:
        """The configured partition spec of a table's mirror."""
        return next((p.fields for p in reversed(self.partition) if p.tables.matches(schema, table)), ())


@dataclass(frozen=True, slots=True)
class BadInputPolicy:
    """What happens to input that cannot be decoded, or that is missing.

    skip_files: patterns of data files to skip, whose rows may be lost.
    skip_offsets: offsets that may be missing, whose messages may be lost.
    stays_before_quarantine: whether views and recorded tables show the newest complete record before the first record
        in quarantine; else the newest complete one, which lacks it.
    """

    on_bad_message: OnBadMessage = OnBadMessage.QUARANTINE
    zero_dates: ZeroDates = ZeroDates.NULL
    skip_files: tuple[str, ...] = ()
    skip_offsets: tuple[OffsetRule, ...] = ()
    stays_before_quarantine: bool = False

    @property
    def quarantines(self) -> bool:
        """Whether a record that cannot be decoded goes to quarantine, and its table continues."""
        return self.on_bad_message is not OnBadMessage.STOP

    @property
    def refuses_mostly_bad(self) -> bool:
        """Whether a run whose records are mostly bad is refused, because then the config is wrong."""
        return self.on_bad_message is OnBadMessage.QUARANTINE

    @property
    def allows_zero_dates(self) -> bool:
        """Whether a zero date becomes NULL."""
        return self.zero_dates is ZeroDates.NULL


@dataclass(frozen=True, slots=True)
class OwnersRule:
    """The owners of the assets of tables that match a filter pattern: email addresses and `team:NAME`."""

    pattern: str
    tables: TableFilter
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TagsRule:
    """The tags of the assets of tables that match a filter pattern."""

    pattern: str
    tables: TableFilter
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DagsterConfig:
    """What the definitions in Dagster have besides the tables.

    sensor_runs: whether the changefeed's sensor is on where nobody has turned it on or off.
    max_lag_s: the longest time that a table may be behind; None for the defaults of the checks.
    days_from: the first UTC day of the asset `days`; None for no such asset.
    verifies: whether mirrors have a check that compares them with the upstream TiDB.
    owners, tags: by filter pattern; of the tags with one name the last match decides.
    """

    sensor_runs: bool = False
    max_lag_s: int | None = None
    days_from: date | None = None
    verifies: bool = False
    owners: tuple[OwnersRule, ...] = ()
    tags: tuple[TagsRule, ...] = ()

    def owners_of(self, schema: str, table: str) -> tuple[str, ...]:
        """The owners of a table's assets, each once, in the order of the rules."""
        found = (owner for rule in self.owners if rule.tables.matches(schema, table) for owner in rule.owners)
        return tuple(dict.fromkeys(found))

    def tags_of(self, schema: str, table: str) -> dict[str, str]:
        """The tags of a table's assets."""
        return {name: value for r in self.tags if r.tables.matches(schema, table) for name, value in r.tags}


@dataclass(frozen=True, slots=True)
class Changefeed:
    """One changefeed.

    name: letters, digits and _, no digit first; the name of its Dagster group and part of its control namespace.
    redacted_sink_uri: the URI given to cdc without credentials; it may be printed.
    sink: TiCDC's options from URI and configuration that decide how the stream is read.
    source: where this project reads the stream; default: the place in the sink URI.
    time_zone: the zone in which TiCDC writes TIMESTAMP.
    tables: which tables are read (TiCDC's filter syntax); default: all.
    target: templates of the identifiers of the tables.
    dagster: what Dagster shows and starts by itself.
    warnings: questionable settings in the changefeed's own configuration.
    """

    name: str
    redacted_sink_uri: str
    sink: SinkOptions
    source: Source
    time_zone: str = "UTC"
    tables: TableFilter = field(default_factory=lambda: TableFilter(("*.*",)))
    schemas: SchemaSources = field(default_factory=SchemaSources)
    large_rows: LargeRowSources = field(default_factory=LargeRowSources)
    mirror: MirrorConfig = field(default_factory=MirrorConfig)
    bad_input: BadInputPolicy = field(default_factory=BadInputPolicy)
    target: IdentifierTemplates = field(default_factory=IdentifierTemplates)
    dagster: DagsterConfig = field(default_factory=DagsterConfig)
    warnings: tuple[str, ...] = ()

    @property
    def default_topic(self) -> str:
        """The topic in a Kafka sink's URI, for tables without a dispatch rule and for DDL of whole databases."""
        return unquote(urlsplit(self.redacted_sink_uri).path).strip("/")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file; `path` is its location."""

    path: Path
    catalog: CatalogConfig
    spark: SparkConfig
    changefeeds: tuple[Changefeed, ...]

    def changefeed(self, name: str) -> Changefeed:
        """The changefeed of that name. Raises ConfigError if there is none."""
        for changefeed in self.changefeeds:
            if changefeed.name == name:
                return changefeed
        known = ", ".join(c.name for c in self.changefeeds)
        raise ConfigError(str(self.path), f"one of the changefeeds {known}", name, "Name one of them.")
