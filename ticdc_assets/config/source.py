"""Where a changefeed's stream, schemas and large messages are read: as configured, else what its sink URI names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ticdc_assets.config.files import below
from ticdc_assets.config.model import (
    CaptureSource,
    KafkaSource,
    RegistryAuth,
    SchemaRegistry,
    Source,
    StorageSource,
)
from ticdc_assets.config.reading import Section
from ticdc_assets.config.secrets import Secret, Settings, query_of
from ticdc_assets.config.sink import (
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
from ticdc_assets.errors import ConfigError

_KINDS: Final = ("storage", "capture", "kafka")
_STORAGE_PROTOCOLS: Final = frozenset({Protocol.CSV, Protocol.CANAL_JSON})


def storage_at(where: str, base: Path) -> Storage:
    """A folder, or what a storage URI names."""
    return storage_of(where, "") if "://" in where else Storage(below(base, where))


# ---- source ----------------------------------------------------------------------------------------------------------


def read_source(section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any], base: Path) -> Source | None:
    """The source; None where it is a problem."""
    source = section.section("source")
    given = [kind for kind in _KINDS if kind in source]
    readers: dict[str, Callable[[], Source | None]] = {
        "storage": lambda: _storage(source, base),
        "capture": lambda: _capture(source, base),
        "kafka": lambda: _kafka(source.section("kafka"), uri, sink, config),
    }
    for kind in _KINDS:
        if kind not in given:
            source.raw(kind)
    if "storage" not in given:
        source.raw("options")
    found = readers[given[0]]() if len(given) == 1 else None
    if len(given) > 1:
        todo = "Keep the one that this project reads."
        section.problem("source", "one of storage, capture, kafka", " and ".join(given), todo)
    source.close()
    if not given:
        found = section.checked("sink_uri", lambda: _named_by(uri, sink, config), None)
    if found is not None:
        _check_protocol(section, found, sink)
    return found


def _check_protocol(section: Section, source: Source, sink: SinkOptions) -> None:
    in_storage = isinstance(source, StorageSource)
    if in_storage != (sink.protocol in _STORAGE_PROTOCOLS) and not (
        sink.protocol is Protocol.CANAL_JSON and not in_storage
    ):
        kind = "a storage sink" if in_storage else "messages"
        todo = "Look at protocol and source: storage holds csv or canal-json, Kafka all but csv."
        section.problem("source", f"a protocol that {kind} can hold", sink.protocol.value, todo)


def _storage(source: Section, base: Path) -> Source | None:
    where = source.text("storage")
    extra = source.settings("options")
    for name in extra:
        if name not in STORAGE_OPTIONS:
            todo = f"Known options: {', '.join(sorted(STORAGE_OPTIONS))}."
            source.problem("options", "options of TiCDC's storage URI", f"{name}", todo)
    place = source.checked("storage", lambda: storage_at(where or "", base), None)
    return None if place is None else StorageSource(Storage(place.location, place.options | extra))


def _capture(source: Section, base: Path) -> Source | None:
    where = source.text("capture")
    return CaptureSource(Path(below(base, where))) if where else None


def _named_by(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Source:
    if sink.scheme in STORAGE_SCHEMES:
        return StorageSource(storage_of(uri, ""))
    if sink.scheme in KAFKA_SCHEMES:
        return _named_kafka(uri, sink, config)
    todo = "Add source: with one of storage, capture, kafka."
    raise ConfigError("", "a sink that can be read, such as kafka or s3", f"the scheme {sink.scheme}", todo)


# ---- Kafka -----------------------------------------------------------------------------------------------------------


def _named_kafka(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> KafkaSource:
    _, brokers, path = split_uri(uri, "")
    topic = path.strip("/")
    if not brokers or not topic:
        todo = "Write kafka://host:9092/topic, or add source.kafka."
        raise ConfigError("", "brokers and a topic", "no topic" if brokers else "no brokers", todo)
    topics, pattern = _topics(topic, sink.topics)
    return KafkaSource(tuple(brokers.split(",")), topics, pattern, _kafka_options(uri, sink, config))


def _topics(default: str, ruled: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The topics by name, and a pattern for those that rules name by schema or table."""
    expressions = dict.fromkeys(ruled)
    topics = dict.fromkeys([default, *(e for e in expressions if "{" not in e)])
    patterns = [_topic_pattern(e) for e in expressions if "{" in e]
    return tuple(topics), "|".join(patterns) or None


def _topic_pattern(expression: str) -> str:
    # TiCDC puts the names in with _ for each character that a topic cannot have.
    return re.sub(r"\\\{(schema|table)\\\}", "[A-Za-z0-9._-]+", re.escape(expression))


def _kafka(section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Source:
    named = _named_or_none(uri, sink, config)
    servers = tuple(s.strip() for text in section.texts("bootstrap_servers") for s in text.split(","))
    topics, pattern = section.texts("topics"), section.text("topic_pattern")
    security = _security(section.section("security"))
    options = section.settings("options")
    section.close()
    if pattern is not None:
        section.checked("topic_pattern", lambda: _compiled(pattern), None)
    if not servers and named is None:
        section.problem("bootstrap_servers", "brokers", "none", "Write bootstrap_servers: host:9092.")
    if not topics and not pattern and named is None:
        section.problem("topics", "topics or topic_pattern", "none", 'Write topics: ["..."].')
    if topics or pattern or named is None:
        named_topics, named_pattern = topics, pattern
    else:
        named_topics, named_pattern = named.topics, named.topic_pattern
    inherited = named.options if named else Settings()
    return KafkaSource(
        servers or (named.bootstrap_servers if named else ()),
        named_topics,
        named_pattern,
        inherited | security | options,
    )


def _named_or_none(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> KafkaSource | None:
    try:
        return _named_kafka(uri, sink, config) if sink.scheme in KAFKA_SCHEMES else None
    except ConfigError:
        return None  # brokers and topics are told by source.kafka then


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error:
        raise ConfigError("", "a regular expression", "one that does not compile", "Look at its brackets.") from None


def _security(section: Section) -> Settings:
    names = ("protocol", "mechanism", "username", "password", "ca")
    values = {name: section.text(name) for name in names}
    section.close()
    return _client_settings(
        values["protocol"], values["mechanism"], values["username"], values["password"], values["ca"]
    )


def _kafka_options(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Settings:
    """How TiCDC itself logs in. Its files (ca, cert, key) lie on TiCDC's machines and are not taken over."""
    query = query_of(uri)
    kafka = _kafka_config(config)

    def setting(name: str) -> str | None:
        value = query.get(name, kafka.get(name))
        return None if value is None or value == "" else str(value)

    tls = (setting("enable-tls") or "").lower() in {"true", "1"} or sink.scheme == "kafka+ssl"
    user, password = setting("sasl-user"), setting("sasl-password")
    protocol = f"{'SASL_' if user else ''}{'SSL' if tls else 'PLAINTEXT'}" if user or tls else None
    return _client_settings(protocol, setting("sasl-mechanism"), user, password, None)


def _kafka_config(config: Mapping[str, Any]) -> dict[str, Any]:
    sink = config.get("sink")
    below_sink = sink if isinstance(sink, Mapping) else {}
    kafka = below_sink.get("kafka-config", below_sink.get("kafka_config"))
    return {str(k).replace("_", "-"): v for k, v in kafka.items()} if isinstance(kafka, Mapping) else {}


def _client_settings(
    protocol: str | None, mechanism: str | None, user: str | None, password: str | None, ca: str | None
) -> Settings:
    """The same under the names of Kafka's consumer."""
    values: dict[str, str] = {}
    if user is not None:
        mechanism = (mechanism or "PLAIN").upper()
        module = "scram.Scram" if mechanism.startswith("SCRAM") else "plain.Plain"
        values["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f"username={_jaas(user)} password={_jaas(password or '')};"
        )
        protocol = protocol or "SASL_PLAINTEXT"
    if mechanism is not None:
        values["sasl.mechanism"] = mechanism.upper()
    if protocol is not None:
        values["security.protocol"] = protocol.upper()
    if ca is not None:
        values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    return Settings(values)


def _jaas(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# ---- schema registry and claim check ---------------------------------------------------------------------------------


def read_registry(
    section: Section, sink: SinkOptions, source: Source | None, config: Mapping[str, Any], base: Path
) -> SchemaRegistry | None:
    """The registry; None where the protocol needs none."""
    registry = section.section("schema_registry")
    url, file = registry.text("url"), registry.text("file")
    auth = _auth(registry)
    registry.close()
    if url and file:
        section.problem("schema_registry", "url or file", "both", "Remove one of the two.")
    if file:
        return SchemaRegistry(file=Path(below(base, file)))
    url = url or sink.schema_registry
    if url:
        return section.checked("schema_registry", lambda: _registry_at(url, auth), None)
    if sink.protocol is not Protocol.AVRO:
        return None
    beside = _beside(source, "registry.json")
    if beside is None:
        glue = "glue-schema-registry-config" in _kafka_config(config)
        found = "AWS Glue, which is not supported" if glue else "none"
        todo = "Add schema_registry: {url: ...}, or {file: registry.json}."
        section.problem("schema_registry", "the registry that the Avro protocol needs", found, todo)
    return SchemaRegistry(file=beside) if beside else None


def _auth(registry: Section) -> RegistryAuth | None:
    written = registry.raw("auth")
    if written is None:
        return None
    if isinstance(written, dict) and list(written) != ["env"]:
        auth = registry.section("auth")
        user, password, token = auth.text("user"), auth.text("password"), auth.text("token")
        auth.close()
    else:
        text = registry.text("auth") or ""
        user, colon, rest = text.partition(":")
        password, token = (rest, None) if colon else (None, text)
        user = user if colon else None
    return RegistryAuth(user, Secret(password) if password else None, Secret(token) if token else None)


def _registry_at(url: str, auth: RegistryAuth | None) -> SchemaRegistry:
    scheme, host, _ = split_uri(url, "")
    if scheme not in {"http", "https"}:
        raise ConfigError("", "http:// or https://", f"the scheme {scheme}", "Write the registry's address.")
    parts = urlsplit(url)
    if auth is None and parts.username is not None:
        auth = RegistryAuth(unquote(parts.username), Secret(unquote(parts.password or "")))
    return SchemaRegistry(url=urlunsplit((scheme, host, quote(unquote(parts.path)).rstrip("/"), "", "")), auth=auth)


def _beside(source: Source | None, name: str) -> Path | None:
    """What lies beside a capture: a capture is a folder that is complete in itself."""
    if not isinstance(source, CaptureSource):
        return None
    beside = source.path.parent / name
    return beside if beside.exists() else None


def read_claim_check(section: Section, sink: SinkOptions, source: Source | None, base: Path) -> Storage | None:
    """Where whole messages lie; None where the changefeed does not use that."""
    where = section.text("claim_check")
    if where:
        return section.checked("claim_check", lambda: storage_at(where, base), None)
    beside = _beside(source, "claim-check")
    if beside is not None:
        return Storage(str(beside))
    named = sink.large_message.claim_check
    if named is None and sink.large_message.option is LargeMessageOption.CLAIM_CHECK:
        todo = "Add claim_check: with the folder or URI of claim-check-storage-uri."
        section.problem("claim_check", "where large messages are", "none", todo)
    return named
