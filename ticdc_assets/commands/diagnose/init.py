"""`ticdc-assets init`: writes a `changefeeds.yaml` for one stream, from what `inspect` finds in it, and tests it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import yaml

from ticdc_assets.commands.diagnose.doctor import doctor
from ticdc_assets.commands.diagnose.inspect import compared_with_source, headlines, print_comparison
from ticdc_assets.commands.output.each import EXIT_FAILED
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.config import editor_line, load, redacted
from ticdc_assets.config.reading.secrets import query_of
from ticdc_assets.config.reading.sections import as_name
from ticdc_assets.errors import ConfigError
from ticdc_assets.printable import printable
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets.sources.inspection.settings import changefeed_name

if TYPE_CHECKING:
    from ticdc_assets.config import Config
    from ticdc_assets.sources.inspection import Inspection

_WIDTH: Final = 110
_HEAD: Final = """\
# Written by `ticdc-assets init` from what the source contains. An option that the source does not show has TiCDC's
# default: where the changefeed has another value, write it here.
"""
_LAKE: Final = """\
# The tables are in ./lake next to this file. For another catalog or warehouse, such as:
# catalog: {uri: "sqlite:////var/lib/ticdc/catalog.db", warehouse: "s3://lake/warehouse"}
"""
_COMMENTS: Final = {
    "sink_uri": "that of `cdc cli changefeed create`",
    "config": "the changefeed's own configuration; or `config_file`, the file given to cdc with --config",
    "config_file": "the file given to cdc with --config",
    "source": "where this project reads the stream",
    "schema_registry": "the schemas of the Avro protocol",
    "claim_check": "the folder of messages that are too large for Kafka",
    "time_zone": "the zone in which TiCDC writes TIMESTAMP",
}
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o666


@dataclass(frozen=True, slots=True)
class NewConfig:
    """What `init` is asked for. `place` is a sink URI, or a path of a bucket or a capture.

    name: the changefeed's name; None for one that follows from the place.
    config_file: the file given to cdc with --config; None where its options are taken from the source.
    registry: the URL of the schema registry of Avro.
    """

    path: Path
    place: str
    name: str | None = None
    config_file: Path | None = None
    time_zone: str | None = None
    registry: str | None = None


def init(wanted: NewConfig, environ: Mapping[str, str]) -> int:
    """Write the config, compare it with the source, and run `doctor` with it.

    Returns:
        The exit code: 1 if the source differs from the config, or a requirement of a run is not met. The file stays.

    Raises:
        ConfigError: the file exists, or the config needs what the source does not show. No file is written.
    """
    if wanted.path.exists():
        advice = "Name another one with --config, or add the changefeed to it: `ticdc-assets inspect` prints its lines."
        raise ConfigError(str(wanted.path), "a file that does not exist", "one that does", advice)
    terminal = Terminal()
    with terminal.working(f"looking into {redacted(wanted.place)}"):
        found = inspect_source(wanted.place, Bounds(), terminal.on_progress)
    for line in headlines(found):
        terminal.result(line)
    config = _written(wanted, found, environ)
    [changefeed] = config.changefeeds
    terminal.result(f"{wanted.path} is written, with the changefeed {changefeed.name}.")
    with terminal.working(f"comparing {wanted.path} with the source"):
        compared = compared_with_source(changefeed, Bounds(), terminal.on_progress)
    print_comparison(terminal, compared)
    code = doctor(config, config.changefeeds, as_json=False)
    terminal.result(f"Next: ticdc-assets run --config {wanted.path}")
    return code if compared.is_well else EXIT_FAILED


def _written(wanted: NewConfig, found: Inspection, environ: Mapping[str, str]) -> Config:
    """Write the file and load it. The file is removed where it is refused."""
    text = "".join(_lines(wanted, found))
    mode = _PRIVATE if redacted(wanted.place) != wanted.place else _PUBLIC
    try:
        wanted.path.touch(mode, exist_ok=False)
        wanted.path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(str(wanted.path), "a file that can be written", reason, "Name another one.") from None
    try:
        return load(wanted.path, environ)
    except ConfigError:
        wanted.path.unlink()
        raise


def _lines(wanted: NewConfig, found: Inspection) -> Iterator[str]:
    yield editor_line(wanted.path.parent)
    yield _HEAD
    for note in found.notes:
        lines = textwrap.wrap(printable(note), _WIDTH, initial_indent="# - ", subsequent_indent="#   ")
        yield "".join(f"{line}\n" for line in lines)
    yield _LAKE
    name = wanted.name or as_name(changefeed_name(found.place))
    yield f"changefeeds:\n  {name}:\n"
    for key, value in _keys(wanted, found).items():
        yield f"    # {_COMMENTS[key]}\n" if key in _COMMENTS else ""
        block = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=_WIDTH)
        yield textwrap.indent(block, "    ")


def _keys(wanted: NewConfig, found: Inspection) -> dict[str, Any]:
    """The keys of the changefeed, in the order of the file."""
    detected = found.detected
    keys: dict[str, Any] = {"sink_uri": _sink_uri(wanted.place, detected.sink_uri)}
    if wanted.config_file is not None:
        keys["config_file"] = str(wanted.config_file.absolute())
    elif detected.config:
        keys["config"] = detected.config
    keys |= detected.settings
    if "://" in wanted.place:
        keys.pop("source", None)
    if wanted.registry is not None:
        keys["schema_registry"] = {"url": wanted.registry}
    return {**keys, "time_zone": wanted.time_zone or keys.get("time_zone", "UTC")}


def _sink_uri(place: str, detected: str) -> str:
    """The URI that was given, with the options that it lacks and the source shows."""
    if "://" not in place:
        return detected
    given, parts = query_of(place), urlsplit(place)
    lacking = {name: value for name, value in query_of(detected).items() if name not in given}
    added = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in lacking.items())
    query = "&".join(filter(None, (parts.query, added)))
    return parts._replace(query=query, fragment="").geturl()
