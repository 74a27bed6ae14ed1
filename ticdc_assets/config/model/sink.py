"""`SinkOptions`: the TiCDC options that decide how a stream is read, with TiCDC's defaults.

`storage_of` and `split_uri` parse URIs; their errors never quote a credential.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlencode, urlsplit

from ticdc_assets.config.reading.secrets import Settings, query_of, redacted
from ticdc_assets.errors import ConfigError
from ticdc_assets.names.table_filter import ColumnSelectors
from ticdc_assets.protocols.formats.compression import Compression

if TYPE_CHECKING:
    from ticdc_assets.protocols.csv.options import CsvOptions

FILE_INDEX_WIDTH_MIN: Final = 6
FILE_INDEX_WIDTH_MAX: Final = 20

STORAGE_SCHEMES: Final = frozenset(
    {"file", "local", "s3", "ks3", "gs", "gcs", "azure", "azblob", "abfs", "abfss", "hdfs", "noop"}
)
KAFKA_SCHEMES: Final = frozenset({"kafka", "kafka+ssl"})


class Protocol(StrEnum):
    """The protocols whose options the config knows. `ticdc_assets.protocols.registry` has all protocols of messages."""

    OPEN = "open-protocol"
    CANAL_JSON = "canal-json"
    SIMPLE = "simple"
    AVRO = "avro"
    CSV = "csv"
    DEBEZIUM = "debezium"


class DateSeparator(StrEnum):
    """The date folders of a storage sink."""

    NONE = "none"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"


class LargeMessageOption(StrEnum):
    """What TiCDC does with a message over max-message-bytes."""

    NONE = "none"
    CLAIM_CHECK = "claim-check"
    HANDLE_KEY_ONLY = "handle-key-only"


@dataclass(frozen=True, slots=True)
class Storage:
    """A location: an absolute path, or `scheme://bucket/prefix` in an object store, without a final slash.

    `options` are the other settings to open it (endpoint, region, access-key, ...), under TiCDC's names.
    """

    location: str
    options: Settings = field(default_factory=Settings)

    @property
    def uri(self) -> str:
        """The location and all options in one URI, with credentials: for opening, never for display."""
        return f"{self.location}?{urlencode(dict(self.options))}" if self.options else self.location


@dataclass(frozen=True, slots=True)
class CsvSinkOptions:
    """`[sink.csv]` and `sink.terminator`. `null` is the unquoted text for NULL; `quote` may be empty."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    binary_encoding_method: str = "base64"
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False
    terminator: str = "\r\n"

    def as_read(self) -> CsvOptions:
        """The options of the CSV reader. ConfigError where files written with them do not show what a value is."""
        from ticdc_assets.protocols.csv.options import CsvOptions

        return CsvOptions(**asdict(self))


@dataclass(frozen=True, slots=True)
class StorageLayout:
    """How the files of a storage sink are named.

    file_index_width: the number of digits in the name of a data file.
    table_across_nodes: whether file names have dispatcher ids.
    """

    date_separator: DateSeparator = DateSeparator.DAY
    file_index_width: int = FILE_INDEX_WIDTH_MAX
    enable_partition_separator: bool = True
    use_table_id_as_path: bool = False
    table_across_nodes: bool = False


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What the stream has of each change, in all protocols that know the option.

    content_compatible: implies `only_output_updated_columns`, as in TiCDC.
    column_selectors: the columns that rows lack.
    integrity_check_level: whether rows have checksums.
    """

    enable_tidb_extension: bool = False
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    column_selectors: ColumnSelectors = field(default_factory=ColumnSelectors)
    integrity_check_level: str = "none"


@dataclass(frozen=True, slots=True)
class LargeMessageHandle:
    """`[sink.kafka-config.large-message-handle]`. `claim_check` is the storage to which TiCDC writes whole messages."""

    option: LargeMessageOption = LargeMessageOption.NONE
    compression: Compression = Compression.NONE
    claim_check: Storage | None = None
    claim_check_raw_value: bool = False


@dataclass(frozen=True, slots=True)
class AvroSinkOptions:
    """The options of the Avro protocol. `schema_registry` is hidden in the repr, because it may have credentials."""

    decimal_handling_mode: str = "precise"
    bigint_unsigned_handling_mode: str = "long"
    enable_watermark: bool = False
    include_before_value: bool = False
    schema_registry: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OpenSinkOptions:
    """`[sink.open]`."""

    output_old_value: bool = True


@dataclass(frozen=True, slots=True)
class SimpleSinkOptions:
    """The options of the Simple protocol. `encoding_format` is json or avro."""

    encoding_format: str = "json"


@dataclass(frozen=True, slots=True)
class DebeziumSinkOptions:
    """`[sink.debezium]`."""

    output_old_value: bool = True
    decimal_handling_mode: str = "double"
    bigint_unsigned_handling_mode: str = "long"
    binary_handling_mode: str = "base64"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How changes are spread over topics and partitions.

    topics: the topic expressions in `sink.dispatchers`.
    renames_tables: whether `sink.dispatchers` give tables other names.
    spreads_keys: whether changes of one key may be in several partitions.
    partition_num: the configured number of partitions of each topic.
    """

    topics: tuple[str, ...] = ()
    renames_tables: bool = False
    spreads_keys: bool = False
    partition_num: int | None = None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options that decide how the stream is read.

    scheme: the scheme of the URI.
    protocol: a member of `Protocol`, or the name of another protocol in the registry.
    case_sensitive: whether filter rules compare case.

    The encoding format of the Simple protocol and the handling modes do not affect decoders, which detect them from the
    bytes. They are read so that a word that TiCDC does not know is refused.
    """

    scheme: str
    protocol: str
    case_sensitive: bool = False
    layout: StorageLayout = field(default_factory=StorageLayout)
    content: MessageContent = field(default_factory=MessageContent)
    large_message: LargeMessageHandle = field(default_factory=LargeMessageHandle)
    dispatch: Dispatch = field(default_factory=Dispatch)
    csv: CsvSinkOptions = field(default_factory=CsvSinkOptions)
    open: OpenSinkOptions = field(default_factory=OpenSinkOptions)
    simple: SimpleSinkOptions = field(default_factory=SimpleSinkOptions)
    avro: AvroSinkOptions = field(default_factory=AvroSinkOptions)
    debezium: DebeziumSinkOptions = field(default_factory=DebeziumSinkOptions)

    @property
    def is_storage(self) -> bool:
        return self.scheme in STORAGE_SCHEMES

    @property
    def has_commit_ts(self) -> bool:
        """Whether row changes have a commit_ts (in the Avro protocol, deletes never do)."""
        match self.protocol:
            case Protocol.CSV:
                return self.csv.include_commit_ts
            case Protocol.CANAL_JSON | Protocol.AVRO:
                return self.content.enable_tidb_extension
            case _:
                return True

    @property
    def has_watermark(self) -> bool:
        """Whether the stream has watermarks; those of a storage sink are in `metadata`."""
        match self.protocol:
            case _ if self.is_storage:
                return True
            case Protocol.CANAL_JSON | Protocol.DEBEZIUM:
                return self.content.enable_tidb_extension
            case Protocol.AVRO:
                return self.avro.enable_watermark and self.content.enable_tidb_extension
            case _:
                return True

    @property
    def is_by_arrival(self) -> bool:
        """Whether rows are ordered by arrival, because the stream does not give a commit_ts to all of them."""
        return not (self.has_commit_ts and self.has_watermark) or self.protocol is Protocol.AVRO

    @property
    def has_old_values(self) -> bool:
        """Whether an UPDATE has the old values of its row."""
        match self.protocol:
            case Protocol.CSV:
                return self.csv.output_old_value
            case Protocol.OPEN:
                return self.open.output_old_value
            case Protocol.DEBEZIUM:
                return self.debezium.output_old_value
            case Protocol.AVRO:
                return self.avro.include_before_value
            case _:
                return True


def split_uri(uri: str, where: str) -> tuple[str, str, str]:
    """The scheme (lower case), host part without user and password, and unescaped path of a URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _malformed(where) from None
    if not parts.scheme or "://" not in uri or redacted(uri).endswith("://***"):
        raise _malformed(where)
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2], unquote(parts.path)


def _malformed(where: str) -> ConfigError:
    advice = "Write it as it was given to cdc; escape / ? # @ & in user names and passwords (%2F and so on)."
    expected = "a URI such as kafka://host:9092/topic or s3://bucket/prefix"
    return ConfigError(where, expected, "a text that has no scheme, host and path", advice)


def storage_of(uri: str, where: str) -> Storage:
    """The location of a storage URI, with its query as options."""
    scheme, host, path = split_uri(uri, where)
    if scheme in {"file", "local"}:
        if host not in {"", "localhost"}:
            advice = "Write file:///absolute/path, with three slashes."
            raise ConfigError(where, "an absolute path behind file://", "a host", advice)
        return Storage(path.rstrip("/") or "/")
    if scheme not in STORAGE_SCHEMES:
        known = ", ".join(sorted(STORAGE_SCHEMES - {"noop"}))
        raise ConfigError(where, f"a storage URI ({known})", f"the scheme {scheme}", "Name the bucket or folder.")
    netloc = urlsplit(uri).netloc
    if scheme in {"abfs", "abfss"} and ":" not in netloc:
        host = netloc  # container@account is no credential
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
