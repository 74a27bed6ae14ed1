"""The pins of `ticdc-assets snapshot`: made and released, with a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.terminal import moment
from ticdc_assets.pipeline.history.pins import pin, release
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.commands.output.terminal import Terminal
    from ticdc_assets.config import Config
    from ticdc_assets.pipeline.lake import Lake


def make_pin(terminal: Terminal, lake: Lake, config: Config, name: str, at: int, together: Sequence[str]) -> None:
    """Pin the newest record up to the TSO `at`, and print its TSO."""
    with spark_stopped_after(config, "maintain.log"):
        made = pin(lake, jvm_of(config), name, at, together)
    earlier = "" if made.tso == at else f", the newest record up to {at}"
    tagged = counted(len(made.tables), "table")
    terminal.note(f"{made.name} pins {moment(made.tso)}{earlier}: {tagged} tagged.")


def release_pin(terminal: Terminal, lake: Lake, config: Config, name: str, as_json: bool) -> int:
    """Remove a pin and its tags. Returns the exit code."""
    with spark_stopped_after(config, "maintain.log"):
        tso = release(lake, jvm_of(config), name)
    if as_json:
        terminal.json({"released": name, "tso": tso})
    else:
        terminal.result(f"{name} is released: `ticdc-assets maintain` decides about the snapshots of {moment(tso)}.")
    return 0
