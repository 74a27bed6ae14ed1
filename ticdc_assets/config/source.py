"""The places of a changefeed's stream, schemas and large messages: as configured, else those of its sink URI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ticdc_assets.config.files import absolute_path
from ticdc_assets.config.kafka import kafka_of_sink_uri, read_kafka
from ticdc_assets.config.reading import Section
from ticdc_assets.config.secrets import Secret
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
from ticdc_assets.config.source_model import (
    CaptureSource,
    MessagesSource,
    RegistryAuth,
    SchemaRegistry,
    Source,
    StorageSource,
)
from ticdc_assets.errors import ConfigError

_KINDS: Final = ("storage", "capture", "kafka", "messages")
_STORAGE_PROTOCOLS: Final = frozenset({Protocol.CSV, Protocol.CANAL_JSON})


def storage_at(where: str, base: Path) -> Storage:
    """The location of a folder or a storage URI."""
    return storage_of(where, "") if "://" in where else Storage(absolute_path(base, where))


# ---- source ----------------------------------------------------------------------------------------------------------


def read_source(section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any], base: Path) -> Source | None:
    """The source; None if it is invalid."""
    source = section.section("source")
    given = [kind for kind in _KINDS if kind in source]
    readers: dict[str, Callable[[], Source | None]] = {
        "storage": lambda: _storage(source, base),
        "capture": lambda: _capture(source, base),
        "messages": lambda: _messages(source),
        "kafka": lambda: read_kafka(source.section("kafka"), uri, sink, config, base),
    }
    for kind in _KINDS:
        if kind not in given or len(given) > 1:
            source.raw(kind)
    if given != ["storage"]:
        source.raw("options")
    found = readers[given[0]]() if len(given) == 1 else None
    if len(given) > 1:
        advice = "Keep the one that this project reads."
        section.problem("source", f"one of {', '.join(_KINDS)}", " and ".join(given), advice)
    source.close()
    if not given:
        found = section.checked("sink_uri", lambda: _named_by(uri, sink, config), None)
    if found is not None:
        _check_protocol(section, found, sink)
    return found


def _check_protocol(section: Section, source: Source, sink: SinkOptions) -> None:
    in_storage = isinstance(source, StorageSource)
    if in_storage != (sink.protocol in _STORAGE_PROTOCOLS) and not (
        sink.protocol == Protocol.CANAL_JSON and not in_storage
    ):
        kind = "a storage sink" if in_storage else "messages"
        advice = "Check protocol and source: storage holds csv or canal-json, Kafka all but csv."
        section.problem("source", f"a protocol that {kind} can hold", str(sink.protocol), advice)


def _storage(source: Section, base: Path) -> Source | None:
    where = source.text("storage")
    extra = source.settings("options")
    for name in extra:
        if name not in STORAGE_OPTIONS:
            advice = f"Known options: {', '.join(sorted(STORAGE_OPTIONS))}."
            source.problem("options", "options of TiCDC's storage URI", f"{name}", advice)
    place = source.checked("storage", lambda: storage_at(where or "", base), None)
    return None if place is None else StorageSource(Storage(place.location, place.options | extra))


def _capture(source: Section, base: Path) -> Source | None:
    where = source.text("capture")
    return CaptureSource(Path(absolute_path(base, where))) if where else None


def _messages(source: Section) -> Source | None:
    name = source.text("messages")
    return MessagesSource(name) if name else None


def _named_by(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Source:
    if sink.scheme in STORAGE_SCHEMES:
        return StorageSource(storage_of(uri, ""))
    if sink.scheme in KAFKA_SCHEMES:
        return kafka_of_sink_uri(uri, sink, config)
    advice = f"Add source: with one of {', '.join(_KINDS)}."
    raise ConfigError("", "a sink that can be read, such as kafka or s3", f"the scheme {sink.scheme}", advice)


# ---- schema registry and claim check ---------------------------------------------------------------------------------


def read_registry(
    section: Section, sink: SinkOptions, source: Source | None, config: Mapping[str, Any], base: Path
) -> SchemaRegistry | None:
    """The registry; None if the protocol needs none."""
    faults = len(section.problems.found)
    registry = section.section("schema_registry")
    url, file = registry.text("url"), registry.text("file")
    auth = _auth(registry)
    registry.close()
    if url and file:
        section.problem("schema_registry", "url or file", "both", "Remove one of the two.")
    if file:
        return SchemaRegistry(file=Path(absolute_path(base, file)))
    url = url or sink.avro.schema_registry
    if url:
        return section.checked("schema_registry", lambda: _registry_at(url, auth), None)
    if sink.protocol != Protocol.AVRO:
        return None
    path = _next_to_capture(source, "registry.json")
    if path is None and len(section.problems.found) == faults:
        advice = "Add schema_registry: {url: ...}, or {file: registry.json}."
        section.problem("schema_registry", "the registry that the Avro protocol needs", "none", advice)
    return SchemaRegistry(file=path) if path else None


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


def _next_to_capture(source: Source | None, name: str) -> Path | None:
    """A file or folder of this name next to a capture, as a capture's folder may hold all that belongs to it."""
    if not isinstance(source, CaptureSource):
        return None
    path = source.path.parent / name
    return path if path.exists() else None


def read_claim_check(section: Section, sink: SinkOptions, source: Source | None, base: Path) -> Storage | None:
    """The storage of large messages; None if the changefeed does not use claim-check."""
    where = section.text("claim_check")
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
