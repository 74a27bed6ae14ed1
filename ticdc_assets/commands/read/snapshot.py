"""`ticdc-assets snapshot`: the snapshots to read together at a TSO, and the pins that keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import state_folder
from ticdc_assets.commands.jvm import jvm_of
from ticdc_assets.commands.output.terminal import Terminal, noise_kept_in
from ticdc_assets.commands.output.tso_text import moment
from ticdc_assets.commands.read.listing import recorded_snapshot
from ticdc_assets.commands.read.reader_snippets import snippet
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history.pins import pin, pins_of, release
from ticdc_assets.pipeline.lake import Lake, to_look_at
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


@dataclass(frozen=True, slots=True)
class Options:
    """The command line's options; `at` is None where it is not given, `pin` and `release` are names of pins."""

    at: int | None
    pin: str | None
    release: str | None
    lists: bool
    reader: str | None
    as_json: bool


def snapshot(config: Config, changefeed: Changefeed, options: Options) -> int:
    """Show, pin, list or release. Returns the exit code.

    Raises ConfigError where the options do not go together.
    """
    if sum((options.at is not None, options.lists, options.release is not None)) != 1 or (
        options.pin and options.at is None
    ):
        found = "none or several of them" if options.at is None else "others with it"
        advice = "Give --at TSO, with --pin NAME to keep it; or --list; or --release NAME."
        raise ConfigError("snapshot", "one of --at, --list and --release", found, advice)
    terminal, lake = Terminal(), Lake(to_look_at(config), changefeed)
    if options.lists:
        return _list(terminal, lake, options)
    if options.release is not None:
        return _release(terminal, lake, config, options.release, options.as_json)
    if options.pin is not None:
        _pin(terminal, lake, config, options)
    return _show(terminal, lake, options)


def _show(terminal: Terminal, lake: Lake, options: Options) -> int:
    found = recorded_snapshot(lake, options.at or 0)
    if options.pin:
        found = {"pin": options.pin, **found}
    if options.reader:
        terminal.result(snippet(options.reader, lake.config.catalog.name, found["tables"]))
        return 0
    if options.as_json:
        terminal.json(found)
        return 0
    terminal.result(f"recorded at {moment(found['tso'])}")
    for table in found["tables"]:
        mirror = ".".join(table["mirror"] or ("no mirror",))
        terminal.result(f"{table['schema']}.{table['table']}: {mirror} at snapshot {table['snapshot_id']}")
    return 0


def _pin(terminal: Terminal, lake: Lake, config: Config, options: Options) -> None:
    with noise_kept_in(state_folder(config) / "maintain.log"):
        try:
            made = pin(lake, jvm_of(config), options.pin or "", options.at or 0)
        finally:
            spark.stop()
    earlier = "" if made.tso == options.at else f", the newest record up to {options.at}"
    tagged = counted(len(made.tables), "table")
    terminal.note(f"{made.name} pins {moment(made.tso)}{earlier}: {tagged} tagged.")


def _list(terminal: Terminal, lake: Lake, options: Options) -> int:
    pins = pins_of(lake)
    if options.as_json:
        terminal.json([{"pin": name, "tso": tso} for name, tso in pins.items()])
        return 0
    for name, tso in pins.items():
        terminal.result(f"{name}: {moment(tso)}")
    if not pins:
        terminal.note("No pin.")
    return 0


def _release(terminal: Terminal, lake: Lake, config: Config, name: str, as_json: bool) -> int:
    with noise_kept_in(state_folder(config) / "maintain.log"):
        try:
            tso = release(lake, jvm_of(config), name)
        finally:
            spark.stop()
    if as_json:
        terminal.json({"released": name, "tso": tso})
    else:
        terminal.result(f"{name} is released: `ticdc-assets maintain` decides about the snapshots of {moment(tso)}.")
    return 0
