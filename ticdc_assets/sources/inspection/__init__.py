"""Inspects a capture, a bucket or a topic by its bytes, without a configuration and without showing row values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ticdc_assets.config import KafkaSource, KafkaStart, Protocol, SchemaRegistry, SinkOptions
from ticdc_assets.config.keys.kafka import LOGIN_PARAMETERS, kafka_of_sink_uri
from ticdc_assets.config.model.sink import KAFKA_SCHEMES, split_uri
from ticdc_assets.config.reading.secrets import query_of, redacted
from ticdc_assets.errors import ConfigError, DecodeError, SourceError
from ticdc_assets.protocols.avro.decoder import registry_from_json
from ticdc_assets.sources.capture import messages as captured_messages
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.inspection.messages import inspect_messages
from ticdc_assets.sources.inspection.report import Bounds, Inspection
from ticdc_assets.sources.inspection.settings import add_store_options
from ticdc_assets.sources.inspection.storage import inspect_storage, is_storage
from ticdc_assets.sources.inspection.traits import MessageOrigin
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import pending_ranges
from ticdc_assets.sources.schema_registry import RegistryClient
from ticdc_assets.sources.storage.paths import METADATA
from ticdc_assets.work_progress import OnProgress, no_progress

__all__ = ["Bounds", "Inspection", "inspect_kafka", "inspect_source"]

_LOOKED_BELOW: Final = 100
"""Folders per level that are checked for `metadata`; a bucket has few folders above its sinks' roots."""
_LEVELS_BELOW: Final = 2

_CAPTURES: Final = "messages.jsonl, <topic>-<partition>.bin"


def inspect_source(place: str, bounds: Bounds, on_progress: OnProgress = no_progress) -> Inspection:
    """Inspect a file, a folder, or the URI of a bucket or a topic. SourceError if nothing in it comes from TiCDC."""
    if is_kafka(place):
        found = inspect_kafka(source_of_uri(place), None, bounds, on_progress)
        if unread := unread_parameters(place):
            found.note(unread)
        return found
    if "://" in place:
        return _stored(place, bounds, on_progress)
    path = Path(place).expanduser()
    if not path.exists():
        raise SourceError(place, "a file or folder", "nothing of that name", "Check the path.")
    if path.is_file():
        return inspect_messages(_capture(path, [path]), bounds, on_progress)
    files = _captures(path)
    if files:
        return inspect_messages(_capture(path, files), bounds, on_progress)
    return _stored(str(path.resolve()), bounds, on_progress)


def _capture(place: Path, files: Sequence[Path]) -> MessageOrigin:
    folder = place if place.is_dir() else place.parent
    return MessageOrigin(str(place), [partial(captured_messages, file) for file in files], folder)


def _captures(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        kind = error.strerror or type(error).__name__
        advice = "Let this process's user read it." if isinstance(error, PermissionError) else "Check the path."
        raise SourceError(str(folder), "a file or folder that can be read", kind, advice) from None
    return [file for file in found if file.is_file() and (file.suffix == ".bin" or file.name == "messages.jsonl")]


def _stored(place: str, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    root = open_root(place)
    inner = _roots_below(root)
    if inner:
        found, advice = f"it below, in {', '.join(inner[:3])}", f"Name {root.where(inner[0])} instead."
        raise SourceError(root.name, "the root of a storage sink, with its `metadata`", found, advice)
    if not is_storage(root):
        expected = f"{_CAPTURES}, or a storage sink's `metadata` and schema files"
        advice = "Name the capture itself, or the folder that the changefeed's sink URI names."
        raise SourceError(root.name, expected, "none of them", advice)
    inspection = inspect_storage(root, bounds, on_progress)
    add_store_options(inspection, place)
    return inspection


def _roots_below(root: Root) -> list[str]:
    """The nearest folders below this one that are roots of a storage sink."""
    if root.sizes([METADATA])[METADATA] is not None:
        return []
    folders = [""]
    for _ in range(_LEVELS_BELOW):
        entries = ((folder, entry) for folder in folders for entry in root.list_dir(folder))
        folders = [f"{folder}/{e.name}".lstrip("/") for folder, e in entries if e.is_dir][:_LOOKED_BELOW]
        sizes = root.sizes([f"{folder}/{METADATA}" for folder in folders])
        found = [folder for folder in folders if sizes[f"{folder}/{METADATA}"] is not None]
        if found:
            return found
    return []


# -- topics of a Kafka cluster, read by offsets, without a consumer group ----------------------------------------------


def is_kafka(place: str) -> bool:
    """Whether this is the URI of a topic."""
    return place.partition("://")[0].lower() in KAFKA_SCHEMES and "://" in place


def source_of_uri(uri: str) -> KafkaSource:
    """The cluster, topic and login of a URI as TiCDC takes it. SourceError where it lacks brokers or a topic."""
    try:
        scheme = split_uri(uri, "")[0]
        return kafka_of_sink_uri(uri, SinkOptions(scheme, Protocol.CANAL_JSON), {})
    except ConfigError as error:
        advice = "Write kafka://host:9092/topic."
        raise SourceError(redacted(uri), error.expected, error.found, advice) from None


def unread_parameters(uri: str) -> str:
    """The parameters of a topic's URI that an inspection does not read, as a sentence; empty without such."""
    names = sorted(query_of(uri).keys() - LOGIN_PARAMETERS)
    shows = "the messages show what TiCDC was told"
    return f"Of the URI, {', '.join(names)} {'is' if len(names) == 1 else 'are'} not read: {shows}." if names else ""


def inspect_kafka(
    source: KafkaSource,
    registry: SchemaRegistry | None,
    bounds: Bounds,
    on_progress: OnProgress = no_progress,
) -> Inspection:
    """What the topics hold, from where `source.start` begins; with `latest` from the first message.

    Raises:
        SourceError: the cluster or the schema registry cannot be read, or no message is of a known protocol.
    """
    topic = source.topics[0] if source.topics else ""
    place = f"kafka://{','.join(source.brokers)}/{topic}"
    start = KafkaStart() if source.start.position == "latest" else source.start
    with KafkaClient(source, reads_few=True) as client:
        ranges = pending_ranges(client, start, {})
        origin = MessageOrigin(
            place,
            [partial(client.messages, wanted) for wanted in ranges],
            ranges=ranges,
            sink_uri=place,
            has_login=bool(source.options),
            schemas=_schemas(registry),
        )
        return inspect_messages(origin, bounds, on_progress)


class _Fetched(dict[int, str]):
    """Schemas by id, requested from the registry when they are first needed."""

    def __init__(self, client: RegistryClient) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, schema_id: int) -> str:
        self[schema_id] = self._client.schema(schema_id)
        return self[schema_id]


def _schemas(registry: SchemaRegistry | None) -> dict[int, str] | None:
    if registry is None:
        return None
    if registry.url is not None:
        return _Fetched(RegistryClient(registry.url, registry.auth))
    assert registry.file is not None
    try:
        return registry_from_json(registry.file.read_bytes(), str(registry.file))
    except OSError as error:
        found, expected = error.strerror or "none", "the registered schemas"
        raise SourceError(str(registry.file), expected, found, "Check schema_registry.file.") from None
    except DecodeError as error:
        raise SourceError(str(registry.file), error.expected, error.found, error.advice) from None
