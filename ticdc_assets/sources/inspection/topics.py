"""Topics of a Kafka cluster as the origin of messages: read by offsets, without a consumer group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ticdc_assets.config import KafkaStart, Protocol, SchemaRegistry, SinkOptions
from ticdc_assets.config.keys.kafka import LOGIN_PARAMETERS, kafka_of_sink_uri
from ticdc_assets.config.model.sink import KAFKA_SCHEMES, split_uri
from ticdc_assets.config.reading.secrets import query_of, redacted
from ticdc_assets.errors import ConfigError, DecodeError, SourceError
from ticdc_assets.protocols.avro.decoder import registry_from_json
from ticdc_assets.sources.inspection.messages import inspect_messages
from ticdc_assets.sources.inspection.report import Bounds, Inspection
from ticdc_assets.sources.inspection.traits import MessageOrigin
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import pending_ranges
from ticdc_assets.sources.schema_registry import RegistryClient
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource


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
