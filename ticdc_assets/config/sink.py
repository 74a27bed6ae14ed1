"""What a changefeed was told, as far as it decides how the stream is read: `SinkOptions`, with TiCDC's defaults.

`storage_of` and `split_uri` take URIs apart; their errors never quote a credential.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

from ticdc_assets.config.secrets import Settings, query_of, redacted
from ticdc_assets.errors import ConfigError

FILE_INDEX_WIDTH_MIN: Final = 6
FILE_INDEX_WIDTH_MAX: Final = 20

STORAGE_SCHEMES: Final = frozenset(
    {"file", "local", "s3", "ks3", "gs", "gcs", "azure", "azblob", "abfs", "abfss", "hdfs", "noop"}
)
KAFKA_SCHEMES: Final = frozenset({"kafka", "kafka+ssl"})


class Protocol(StrEnum):
    """The protocols that TiCDC writes and this project reads."""

    OPEN = "open-protocol"
    CANAL_JSON = "canal-json"
    SIMPLE = "simple"
    AVRO = "avro"
    CSV = "csv"
    DEBEZIUM = "debezium"


class DateSeparator(StrEnum):
    """How the storage sink cuts a table's folder by date."""

    NONE = "none"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"


class LargeMessageOption(StrEnum):
    """What TiCDC does with a message over max-message-bytes."""

    NONE = "none"
    CLAIM_CHECK = "claim-check"
    HANDLE_KEY_ONLY = "handle-key-only"


class Compression(StrEnum):
    """How TiCDC compresses values itself, besides what Kafka does."""

    NONE = "none"
    LZ4 = "lz4"
    SNAPPY = "snappy"


@dataclass(frozen=True, slots=True)
class Storage:
    """A place in a file system or an object store: an absolute path, or `scheme://bucket/prefix`, without a last slash.

    `options` are TiCDC's own names of what else is needed to open it (endpoint, region, access-key, ...).
    """

    location: str
    options: Settings = field(default_factory=Settings)

    @property
    def uri(self) -> str:
        """All that opening it takes in one URI, credentials included: to be opened, never shown."""
        return f"{self.location}?{urlencode(dict(self.options))}" if self.options else self.location


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """`[sink.csv]`. `null` is the text that stands for NULL, unquoted; `quote` may be empty."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    binary_encoding_method: str = "base64"
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False


@dataclass(frozen=True, slots=True)
class LargeMessageHandle:
    """`[sink.kafka-config.large-message-handle]`. `claim_check` is where TiCDC writes whole messages to."""

    option: LargeMessageOption = LargeMessageOption.NONE
    compression: Compression = Compression.NONE
    claim_check: Storage | None = None
    claim_check_raw_value: bool = False


@dataclass(frozen=True, slots=True)
class Integrity:
    """`[integrity]`: whether rows carry checksums."""

    check_level: str = "none"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What decides how the stream is read.

    `scheme` is the URI's. `file_index_width` is the number of digits in a data file's name. `content_compatible`
    implies `only_output_updated_columns`, as in TiCDC. `case_sensitive` is for filter rules. `table_across_nodes` puts
    dispatcher ids into file names. `topics` are those that `sink.dispatchers` name, as written. `schema_registry` has
    no credentials in its repr.

    `partition_num` is the number of partitions that TiCDC was told to write to, of each topic.

    `encoding_format` (json or avro, the Simple protocol's) and the handling modes are read although decoders tell them
    from the bytes: so a word that TiCDC does not know is refused.
    """

    scheme: str
    protocol: Protocol
    enable_tidb_extension: bool = False
    date_separator: DateSeparator = DateSeparator.DAY
    file_index_width: int = FILE_INDEX_WIDTH_MAX
    enable_partition_separator: bool = True
    terminator: str = "\r\n"
    csv: CsvOptions = field(default_factory=CsvOptions)
    use_table_id_as_path: bool = False
    table_across_nodes: bool = False
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    large_message: LargeMessageHandle = field(default_factory=LargeMessageHandle)
    integrity: Integrity = field(default_factory=Integrity)
    encoding_format: str = "json"
    avro_decimal_handling_mode: str = "precise"
    avro_bigint_unsigned_handling_mode: str = "long"
    avro_enable_watermark: bool = False
    open_output_old_value: bool = True
    debezium_output_old_value: bool = True
    debezium_decimal_handling_mode: str = "double"
    debezium_bigint_unsigned_handling_mode: str = "long"
    debezium_binary_handling_mode: str = "base64"
    case_sensitive: bool = False
    topics: tuple[str, ...] = ()
    partition_num: int | None = None
    schema_registry: str | None = field(default=None, repr=False)

    @property
    def is_storage(self) -> bool:
        return self.scheme in STORAGE_SCHEMES

    @property
    def has_commit_ts(self) -> bool:
        """Whether row changes carry a commit_ts (with the Avro protocol, deletes never do)."""
        match self.protocol:
            case Protocol.CSV:
                return self.csv.include_commit_ts
            case Protocol.CANAL_JSON | Protocol.AVRO:
                return self.enable_tidb_extension
            case _:
                return True

    @property
    def has_watermark(self) -> bool:
        """Whether the stream says up to which TSO it is complete; a storage sink does so in `metadata`."""
        match self.protocol:
            case _ if self.is_storage:
                return True
            case Protocol.CANAL_JSON | Protocol.DEBEZIUM:
                return self.enable_tidb_extension
            case Protocol.AVRO:
                return self.avro_enable_watermark and self.enable_tidb_extension
            case _:
                return True


def split_uri(uri: str, where: str) -> tuple[str, str, str]:
    """Scheme (lower case), host part without user and password, and path (unescaped) of a URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _malformed(where) from None
    if not parts.scheme or "://" not in uri or redacted(uri).endswith("://***"):
        raise _malformed(where)
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2], unquote(parts.path)


def _malformed(where: str) -> ConfigError:
    todo = "Write it as it was given to cdc; escape / ? # @ & in user names and passwords (%2F and so on)."
    return ConfigError(where, "a URI such as kafka://host:9092/topic or s3://bucket/prefix", "something else", todo)


def storage_of(uri: str, where: str) -> Storage:
    """The place that a storage URI names, its query turned into options."""
    scheme, host, path = split_uri(uri, where)
    if scheme in {"file", "local"}:
        if host not in {"", "localhost"}:
            todo = "Write file:///absolute/path, with three slashes."
            raise ConfigError(where, "an absolute path behind file://", "a host", todo)
        return Storage(path.rstrip("/") or "/")
    if scheme not in STORAGE_SCHEMES:
        known = ", ".join(sorted(STORAGE_SCHEMES - {"noop"}))
        raise ConfigError(where, f"a storage URI ({known})", f"the scheme {scheme}", "Name the bucket or folder.")
    netloc = urlsplit(uri).netloc
    if scheme in {"abfs", "abfss"} and ":" not in netloc:
        host = netloc  # container@account holds no credential
    options = {k: v for k, v in query_of(uri).items() if k in STORAGE_OPTIONS}
    return Storage(f"{scheme}://{host}{path.rstrip('/')}", Settings(options))


STORAGE_OPTIONS: Final = frozenset(
    {
        "endpoint",
        "region",
        "access-key",
        "secret-access-key",
        "session-token",
        "force-path-style",
        "provider",
        "profile",
        "role-arn",
        "external-id",
        "credentials-file",
        "account-name",
        "account-key",
        "sas-token",
    }
)
