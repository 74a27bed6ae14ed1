"""The config that an inspected stream needs, under TiCDC's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import yaml

from ticdc_assets.config.model.object_store import CREDENTIALS, store_type_of
from ticdc_assets.config.model.sink import STORAGE_OPTIONS
from ticdc_assets.config.reading.secrets import query_of
from ticdc_assets.config.reading.sections import as_name
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import CONTENT_COMPATIBLE, EXTENSION, SCHEMA_BLOCK
from ticdc_assets.protocols.registry.detection import MessageForm, avro_modes
from ticdc_assets.sources.inspection.traits import Traits, options_seen

if TYPE_CHECKING:
    from ticdc_assets.sources.inspection.report import Inspection
    from ticdc_assets.sources.inspection.traits import MessageOrigin

NOT_SHOWN: Final = "not shown yet"
"""The value of an option that the source does not show yet."""

ZONE_NOT_SHOWN: Final = "The time zone of TIMESTAMPs is not in the stream: set `time_zone` if TiCDC's is not UTC."


def message_settings(
    found: Inspection,
    form: MessageForm,
    traits: Traits,
    origin: MessageOrigin,
    schemas: Mapping[int, str] | None,
    claims_are_raw: bool,
) -> None:
    """Fill in the options, the sink URI and the config of messages."""
    seen = {**_form_options(form, found), **options_seen(traits, form.protocol)}
    if form.protocol == "avro":
        seen |= _avro_options(traits, schemas or {})
    if seen.get(CONTENT_COMPATIBLE):
        seen.pop("only-output-updated-columns", None)  # implied by content-compatible
    if claims_are_raw:
        seen["claim-check-raw-value"] = True
    found.detected.options = seen
    topic = next(iter(found.partitions), ("topic", 0))[0]
    query = [f"protocol={form.protocol}"]
    query += [f"{name}={_text(seen[name])}" for name in _IN_QUERY if name in seen]
    found.detected.sink_uri = f"{origin.sink_uri or f'kafka://broker:9092/{topic}'}?{'&'.join(query)}"
    found.detected.config = _config(seen)
    note_weaknesses(found)
    if origin.folder is None:
        _kafka_settings(found, form, traits, origin, schemas)
    else:
        _capture_settings(found, form, traits, origin.folder)
    if form.protocol == "simple":
        for zone, _ in traits.zones.most_common(1):
            found.detected.settings["time_zone"] = zone
    elif form.protocol != "debezium":
        found.note(ZONE_NOT_SHOWN)


def _capture_settings(found: Inspection, form: MessageForm, traits: Traits, folder: Path) -> None:
    found.detected.settings = {"source": {"capture": str(_absolute(found.place))}}
    if form.protocol == "avro":
        found.detected.settings["schema_registry"] = {"file": str(_absolute(str(folder / "registry.json")))}
    if traits.claims:
        found.detected.settings["claim_check"] = str(_absolute(str(folder / "claim-check")))


def _kafka_settings(
    found: Inspection, form: MessageForm, traits: Traits, origin: MessageOrigin, schemas: Mapping[int, str] | None
) -> None:
    """Notes name each setting that the topics do not contain, with the key to write."""
    if origin.has_login:
        found.note("The lines below have no login: add it as TiCDC has it, or as `source.kafka.security`.")
    if form.protocol == "avro" and schemas is None:
        found.note("Rows of Avro need their schemas: write `schema_registry`, and inspect the config.")
    if traits.claims:
        found.note("The files of large rows are not read: write their place as `claim_check`.")


_IN_QUERY: Final = (
    EXTENSION,
    CONTENT_COMPATIBLE,
    "only-output-updated-columns",
    "avro-decimal-handling-mode",
    "avro-bigint-unsigned-handling-mode",
    "avro-enable-watermark",
    "debezium-disable-schema",
    "encoding-format",
)


def _form_options(form: MessageForm, found: Inspection) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    if EXTENSION in form.marks or (form.protocol == "debezium" and found.events.watermarks):
        seen[EXTENSION] = True
    if CONTENT_COMPATIBLE in form.marks:
        seen[CONTENT_COMPATIBLE] = True
    if form.protocol == "debezium" and SCHEMA_BLOCK not in form.marks:
        seen["debezium-disable-schema"] = True
    if form.protocol == "simple" and form.encoding == "avro":
        seen["encoding-format"] = "avro"
    if form.compression not in (None, Compression.NONE):
        seen["large-message-handle-compression"] = str(form.compression)
    if form.protocol == "avro" and found.events.watermarks:
        seen["avro-enable-watermark"] = True
    return seen


def _avro_options(traits: Traits, registry: Mapping[int, str]) -> dict[str, Any]:
    seen: dict[str, Any] = {EXTENSION: True} if traits.with_commit_ts else {}
    for schema in registry.values():
        seen |= {name: mode for name, mode in avro_modes(schema).items() if mode == "string"}
    return seen


def _config(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the changefeed's config file; the others are in its URI."""
    sink: dict[str, Any] = {}
    large = {
        name: seen[name]
        for name in ("large-message-handle-option", "large-message-handle-compression", "claim-check-raw-value")
        if name in seen
    }
    if large:
        sink["kafka-config"] = {"large-message-handle": {"large-message-handle-option": "none", **large}}
    if "open.output-old-value" in seen:
        sink["open"] = {"output-old-value": seen["open.output-old-value"]}
    config: dict[str, Any] = {"sink": sink} if sink else {}
    if "integrity-check-level" in seen:
        config["integrity"] = {"integrity-check-level": seen["integrity-check-level"]}
    return config


def note_weaknesses(found: Inspection) -> None:
    """Note what the stream lacks with its configuration, and which option would change that."""
    extension = found.detected.options.get(EXTENSION)
    if found.protocol == "canal-json" and not extension and found.counts.rows:
        found.note(f"Rows have no commit_ts: order and progress are by arrival. {EXTENSION}=true would add it.")
    if found.protocol == "csv" and found.detected.options.get("csv.include-commit-ts") is False:
        found.note("Rows have no commit_ts: order and progress are by arrival. include-commit-ts would add it.")
    if found.protocol == "debezium" and not extension:
        found.note(f"There are no watermarks: {EXTENSION}=true would send them.")
    if found.protocol == "avro" and not found.events.statements:
        found.note(
            "The Avro protocol has no statements: name a changefeed that has them in `ddl_from`, if there is one."
        )


def add_store_options(found: Inspection, place: str) -> None:
    """Add the options with which an object store was opened to the sink URI, without credentials, so that the URI alone
    locates the files."""
    if store_type_of(place) is None:
        return
    options = {name: value for name, value in query_of(place).items() if name in STORAGE_OPTIONS}
    shown = {name: value for name, value in options.items() if name not in CREDENTIALS}
    if shown:
        found.detected.sink_uri += f"&{urlencode(shown, safe=':/')}"
    if len(shown) < len(options):
        found.note("The lines below have no credentials: write them as `object_store`, or set them in the environment.")
    found.detected.settings.pop("source", None)


def changefeed_name(place: str) -> str:
    """A name for the changefeed, derived from its place."""
    parts = [p for p in re.split(r"[\\/]+", place.rstrip("/")) if p and p not in ("messages.jsonl", "data")]
    return as_name(parts[-1].partition(".")[0] if parts else "")


def config_lines(found: Inspection) -> str:
    """The changefeed as YAML, to be pasted into `changefeeds.yaml`."""
    feed: dict[str, Any] = {"sink_uri": found.detected.sink_uri}
    if found.detected.config:
        feed["config"] = found.detected.config
    feed |= found.detected.settings
    name = changefeed_name(found.place)
    return yaml.safe_dump({"changefeeds": {name: feed}}, sort_keys=False, allow_unicode=True, width=110)


def _absolute(place: str) -> Path:
    return Path(place).expanduser().absolute()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
