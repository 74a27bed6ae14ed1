"""What a changefeed's configuration says to the decoder of its protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.protocols import canal_json_messages, confluent_avro, debezium, open_protocol, simple
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.sources.schema_registry import RegistryClient, RegistrySchemas

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed
    from ticdc_assets.tables.control import Control


class RegistryFile:
    """Schemas by id from a `registry.json`; picklable, and read once a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schemas: dict[int, str] | None = None

    def __call__(self, schema_id: int) -> str:
        if self._schemas is None:
            self._schemas = confluent_avro.registry_from_json(self._path.read_bytes())
        try:
            return self._schemas[schema_id]
        except KeyError:
            todo = "Add it to the registry file, or name the registry's `url`."
            raise DecodeError(self._path.name, f"a schema with id {schema_id}", "none", todo) from None

    def __reduce__(self) -> tuple[type[RegistryFile], tuple[Path]]:
        return RegistryFile, (self._path,)


_BINARY: Final[dict[str, Literal["base64", "base64-url-safe", "hex"]]] = {
    "bytes": "base64",  # another type in the schema block, the same text
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}


def options_of(changefeed: Changefeed, control: Control | None = None) -> Any:
    """The options of the changefeed's decoder. Raises ConfigError where something is missing.

    With a registry by `url`, schemas that `control` kept are not asked for again (see `keep_schemas`).
    """
    sink = changefeed.sink
    compression = Compression(str(sink.large_message.compression))
    raw = sink.large_message.claim_check_raw_value
    match str(sink.protocol):
        case "open-protocol":
            return open_protocol.Options(compression, sink.open_output_old_value, sink.only_output_updated_columns)
        case "simple":
            return simple.Options(compression, raw)
        case "canal-json":
            return canal_json_messages.Options(compression, raw, sink.has_commit_ts)
        case "debezium":
            return debezium.Options(compression, _BINARY[sink.debezium_binary_handling_mode])
        case _:
            return confluent_avro.Options(_schemas(changefeed, control))


def keep_schemas(options: Any, control: Control) -> None:
    """Keep what was got from a schema registry meanwhile, before anything is published that was read with it."""
    schemas = getattr(options, "schemas", None)
    if isinstance(schemas, RegistrySchemas) and schemas.fetched:
        control.keep_registered(schemas.url, schemas.fetched)
        schemas.fetched = {}


def _schemas(changefeed: Changefeed, control: Control | None) -> confluent_avro.SchemaLookup:
    registry = changefeed.schema_registry
    if registry is not None and registry.url is not None:
        url = registry.url
        return RegistrySchemas(lambda: control.registered(url) if control else {}, RegistryClient(url, registry.auth))
    if registry is None or registry.file is None:
        raise ConfigError(
            f"changefeeds.{changefeed.name}.schema_registry",
            "the registry's `url`, or a `file` with the schemas by id",
            "none",
            "Write its address, or export it as registry.json, a list of {id, subject, version, schema}.",
        )
    return RegistryFile(registry.file)
