"""The decoder options from a changefeed's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ticdc_assets.config.model.sink import Protocol
from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.protocol import DecoderOptions, SchemaLookup, no_schemas
from ticdc_assets.sources.schema_registry import RegistryClient, RegistrySchemas

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed
    from ticdc_assets.tables.control.tables import Control


class RegistryFile:
    """Schemas by id from a `registry.json`; picklable, and read once a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schemas: dict[int, str] | None = None

    def __call__(self, schema_id: int) -> str:
        if self._schemas is None:
            self._schemas = confluent_avro.registry_from_json(self._path.read_bytes(), str(self._path))
        try:
            return self._schemas[schema_id]
        except KeyError:
            advice = "Add it to the registry file, or name the registry's `url`."
            raise DecodeError(self._path.name, f"a schema with id {schema_id}", "none", advice) from None

    def __reduce__(self) -> tuple[type[RegistryFile], tuple[Path]]:
        return RegistryFile, (self._path,)


def options_of(
    changefeed: Changefeed,
    control: Control | None = None,
    asks_registry: bool = True,
    origin: Control | None = None,
) -> DecoderOptions:
    """The options of the changefeed's decoder.

    Args:
        control: the changefeed's control tables. Schemas of a registry that they have are not requested again (see
            `keep_schemas`).
        asks_registry: whether other schemas are requested; else they are unknown.
        origin: the control tables of the changefeed whose landed messages are read.

    Raises:
        ConfigError: a required setting is missing.
    """
    sink = changefeed.sink
    is_avro = sink.protocol == Protocol.AVRO
    return DecoderOptions(
        compression=sink.large_message.compression,
        claim_check_raw_value=sink.large_message.claim_check_raw_value,
        has_commit_ts=sink.has_commit_ts,
        output_old_value=sink.open.output_old_value,
        only_output_updated_columns=sink.content.only_output_updated_columns,
        binary_handling_mode=sink.debezium.binary_handling_mode,
        schemas=_schemas(changefeed, (control, origin), asks_registry) if is_avro else no_schemas,
    )


def keep_schemas(options: DecoderOptions, control: Control) -> None:
    """Keep the schemas from a registry, before anything is published that was decoded with them.

    Raises:
        SourceError: the registry is that of other messages.
    """
    schemas = options.schemas
    if not isinstance(schemas, RegistrySchemas):
        return
    schemas.require_own_registry()
    if schemas.fetched:
        control.keep_registered(schemas.url, schemas.fetched)
        schemas.fetched = {}


def _schemas(changefeed: Changefeed, controls: Sequence[Control | None], asks_registry: bool) -> SchemaLookup:
    registry = changefeed.schemas.registry
    if registry is not None and registry.url is not None:
        url = registry.url
        client = RegistryClient(url, registry.auth) if asks_registry else None
        known = [control for control in controls if control is not None]
        return RegistrySchemas(lambda: dict(i for control in known for i in control.registered(url).items()), client)
    if registry is None or registry.file is None:
        raise ConfigError(
            f"changefeeds.{changefeed.name}.schema_registry",
            "the registry's `url`, or a `file` with the schemas by id",
            "none",
            "Write its address, or export it as registry.json, a list of {id, subject, version, schema}.",
        )
    return RegistryFile(registry.file)
