"""The places of a changefeed's stream, schemas and large messages: as configured, else those of its sink URI; and the
address and user of its TiDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from ticdc_assets.config.keys.kafka import KafkaKeys, kafka_of, kafka_of_sink_uri
from ticdc_assets.config.model.sink import (
    KAFKA_SCHEMES,
    STORAGE_OPTIONS,
    STORAGE_SCHEMES,
    LargeMessageOption,
    Protocol,
    SinkOptions,
    Storage,
    split_uri,
    storage_of,
)
from ticdc_assets.config.model.source import (
    CaptureSource,
    MessagesSource,
    RegistryAuth,
    SchemaRegistry,
    Source,
    StorageSource,
    Upstream,
    UpstreamTls,
)
from ticdc_assets.config.reading.files import absolute_path
from ticdc_assets.config.reading.secrets import Secret, Settings
from ticdc_assets.config.reading.sections import Section
from ticdc_assets.config.reading.validation import Context, Keys, Refusal, refuse_any, refused
from ticdc_assets.config.reading.values import (
    SETTING,
    VARIABLE,
    FilePath,
    FilledPath,
    FilledText,
    FreeSettings,
    SecretText,
    Text,
    also,
    text_of,
)
from ticdc_assets.errors import ConfigError

_KINDS: Final = ("storage", "capture", "kafka", "messages")
_STORAGE_PROTOCOLS: Final = frozenset({Protocol.CSV, Protocol.CANAL_JSON})


def storage_at(where: str, base: Path) -> Storage:
    """The location of a folder or a storage URI."""
    return storage_of(where, "") if "://" in where else Storage(absolute_path(base, where))


# ---- keys ------------------------------------------------------------------------------------------------------------


def _options(found: Settings) -> Settings:
    known = f"Known options: {', '.join(sorted(STORAGE_OPTIONS))}."
    unknown = [name for name in found if name not in STORAGE_OPTIONS]
    refuse_any(*(Refusal("options of TiCDC's storage URI", name, known) for name in unknown))
    return found


class SourceKeys(Keys):
    """Where the stream is read, if not where `sink_uri` says: one of storage, capture, kafka and messages."""

    storage: Text | None = Field(
        default=None, description="the folder or URI of the output of a storage sink", examples=["s3://bucket/prefix"]
    )
    options: Annotated[FreeSettings, AfterValidator(_options)] = Field(
        default=Settings(),
        description="beside `storage`: options of TiCDC's storage URIs (`endpoint`, `region`, `access-key`, "
        "`secret-access-key` and so on); without them the store's default credentials are used",
        examples=[{"region": "eu-west-1"}],
    )
    capture: FilledPath | None = Field(default=None, description="captured Kafka messages, a file or a folder of files")
    kafka: KafkaKeys | None = Field(
        default=None, description="[topics of a cluster](#kafka), if `sink_uri` does not name them"
    )
    messages: FilledText | None = Field(
        default=None, description="another changefeed of the file, whose landed messages are decoded again"
    )


def _auth(value: Any, info: ValidationInfo[Context]) -> Any:
    """The keys of a login; a text is a token, or user and password with a colon between them."""
    if isinstance(value, dict) and list(value) != ["env"]:
        return value
    user, colon, rest = text_of(value, info.context, "auth").partition(":")
    return {"user": user, "password": rest} if colon else {"token": user}


class AuthKeys(Keys):
    """The login for a schema registry: user and password, or a bearer token."""

    user: Text | None = Field(default=None, description="the user")
    password: SecretText = Field(default=None, description="the password of the user")
    token: SecretText = Field(default=None, description="a bearer token, in place of both")


class RegistryKeys(Keys):
    """The schemas of the Avro protocol: a Confluent registry, or a file."""

    url: Text | None = Field(
        default=None, description="the registry; default: that of the sink URI", examples=["https://registry:8081"]
    )
    file: FilePath = Field(default=None, description="a list of `{id, subject, version, schema}`, in JSON")
    auth: Annotated[AuthKeys | None, BeforeValidator(_auth)] = Field(
        default=None,
        description="`{user, password}`, or `{token}`, or a text: `user:password` or a token",
        json_schema_extra=also({"type": "string"}, VARIABLE),
    )


# ---- source ----------------------------------------------------------------------------------------------------------


def source_of(
    keys: SourceKeys, section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any], base: Path
) -> Source | None:
    """The source of a changefeed, the keys of `section`; None if it is invalid."""
    below = section.below("source")
    given = [kind for kind in _KINDS if kind in below]
    if len(given) > 1:
        advice = "Keep the one that this project reads."
        section.problem("source", f"one of {', '.join(_KINDS)}", " and ".join(given), advice)
    if keys.options and "storage" not in given:
        advice = "Add storage: with the URI that they are for, or write them into sink_uri."
        below.problem("options", "storage beside them", "none", advice)
    if given:
        found = _written(keys, below, uri, sink, config, base) if len(given) == 1 else None
    else:
        found = section.checked("sink_uri", lambda: _named_by(uri, sink, config), None)
    if found is not None:
        _check_protocol(section, found, sink)
    return found


def _written(
    keys: SourceKeys, below: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any], base: Path
) -> Source | None:
    if keys.storage is not None:
        where = keys.storage
        place = below.checked("storage", lambda: storage_at(where, base), None)
        return None if place is None else StorageSource(Storage(place.location, place.options | keys.options))
    if keys.capture is not None:
        return CaptureSource(keys.capture)
    if keys.messages is not None:
        return MessagesSource(keys.messages)
    return None if keys.kafka is None else kafka_of(keys.kafka, below.below("kafka"), uri, sink, config)


def _check_protocol(section: Section, source: Source, sink: SinkOptions) -> None:
    in_storage = isinstance(source, StorageSource)
    if in_storage != (sink.protocol in _STORAGE_PROTOCOLS) and not (
        sink.protocol == Protocol.CANAL_JSON and not in_storage
    ):
        kind = "a storage sink" if in_storage else "messages"
        advice = "Check protocol and source: storage holds csv or canal-json, Kafka all but csv."
        section.problem("source", f"a protocol that {kind} can hold", str(sink.protocol), advice)


def _named_by(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Source:
    if sink.scheme in STORAGE_SCHEMES:
        return StorageSource(storage_of(uri, ""))
    if sink.scheme in KAFKA_SCHEMES:
        return kafka_of_sink_uri(uri, sink, config)
    advice = f"Add source: with one of {', '.join(_KINDS)}."
    raise ConfigError("", "a sink that can be read, such as kafka or s3", f"the scheme {sink.scheme}", advice)


# ---- schema registry and claim check ---------------------------------------------------------------------------------


def registry_of(
    keys: RegistryKeys, section: Section, sink: SinkOptions, source: Source | None
) -> SchemaRegistry | None:
    """The registry of a changefeed, the keys of `section`; None if the protocol needs none."""
    if keys.url and keys.file:
        section.problem("schema_registry", "url or file", "both", "Remove one of the two.")
    if keys.file:
        return SchemaRegistry(file=keys.file)
    url = keys.url or sink.avro.schema_registry
    auth = None if keys.auth is None else RegistryAuth(keys.auth.user, keys.auth.password, keys.auth.token)
    if url:
        return section.checked("schema_registry", lambda: _registry_at(url, auth), None)
    if sink.protocol != Protocol.AVRO:
        return None
    path = _next_to_capture(source, "registry.json")
    if path is None and not section.below("schema_registry").is_faulty:
        advice = "Add schema_registry: {url: ...}, or {file: registry.json}."
        section.problem("schema_registry", "the registry that the Avro protocol needs", "none", advice)
    return SchemaRegistry(file=path) if path else None


def _registry_at(url: str, auth: RegistryAuth | None) -> SchemaRegistry:
    scheme, host, _ = split_uri(url, "")
    if scheme not in {"http", "https"}:
        raise ConfigError("", "http:// or https://", f"the scheme {scheme}", "Write the registry's address.")
    parts = urlsplit(url)
    if auth is None and parts.username is not None:
        auth = RegistryAuth(unquote(parts.username), Secret(unquote(parts.password or "")))
    return SchemaRegistry(url=urlunsplit((scheme, host, quote(unquote(parts.path)).rstrip("/"), "", "")), auth=auth)


def _next_to_capture(source: Source | None, name: str) -> Path | None:
    """A file or folder of this name next to a capture, as a capture's folder may hold all that belongs to it."""
    if not isinstance(source, CaptureSource):
        return None
    path = source.path.parent / name
    return path if path.exists() else None


def claim_check_of(
    where: str | None, section: Section, sink: SinkOptions, source: Source | None, base: Path
) -> Storage | None:
    """The storage of large messages; None if the changefeed does not use claim-check."""
    if where:
        return section.checked("claim_check", lambda: storage_at(where, base), None)
    path = _next_to_capture(source, "claim-check")
    if path is not None:
        return Storage(str(path))
    named = sink.large_message.claim_check
    if named is None and sink.large_message.option is LargeMessageOption.CLAIM_CHECK:
        advice = "Add claim_check: with the folder or URI of claim-check-storage-uri."
        section.problem("claim_check", "where large messages are", "none", advice)
    return named


# ---- upstream --------------------------------------------------------------------------------------------------------

_PORTS: Final = range(1, 1 << 16)


def _port(value: Any, info: ValidationInfo[Context]) -> int:
    text = text_of(value, info.context, "port", numbers=True)
    if not (text.isascii() and text.isdigit()) or int(text[:6]) not in _PORTS:
        found = "another number" if text.isdigit() else "no number"
        raise refused("a port between 1 and 65535", found, "Write the port of TiDB; its default is 4000.")
    return int(text)


def _tls(value: Any) -> Any:
    """The keys; `true` is all of their defaults, and `false` is none."""
    return {} if value is True else None if value is False else value


class TlsKeys(Keys):
    """TLS of the connection: encrypted, and the server is verified. `true` has all defaults."""

    ca: FilePath = Field(
        default=None, description="the PEM file that verifies the server; default: the system's authorities"
    )
    cert: FilePath = Field(default=None, description="the PEM file of the client's certificate")
    key: FilePath = Field(default=None, description="the PEM file of its key")


class UpstreamKeys(Keys):
    """The TiDB of the changefeed. Without `tls` the connection is encrypted only if the server offers it."""

    host: Text = Field(description="the name or address of a TiDB server", min_length=1)
    user: Text = Field(description="the user who reads there, with SELECT on the tables", min_length=1)
    port: Annotated[int, PlainValidator(_port), WithJsonSchema(SETTING)] = Field(default=4000, description="its port")
    password: SecretText = Field(default=None, description="the password of the user")
    tls: Annotated[TlsKeys | None, BeforeValidator(_tls)] = Field(
        default=None, description="`true`, or `{ca, cert, key}`: PEM files", json_schema_extra=also({"type": "boolean"})
    )


def upstream_of(keys: UpstreamKeys, section: Section) -> Upstream:
    """The upstream; `section` has its keys."""
    tls = keys.tls
    if tls is not None and (tls.cert is None) != (tls.key is None):
        section.below("tls").problem("cert", "cert and key, or neither", "one of them", "Name both files.")
    tls_of = None if tls is None else UpstreamTls(tls.ca, tls.cert, tls.key)
    return Upstream(keys.host, keys.user, keys.port, keys.password, tls_of)
