"""`ticdc-assets discover`: lists the tables of the source, so that they have assets when the code location loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ticdc_assets.assets.known_tables import remember, state_folder, tables_with_assets
from ticdc_assets.commands.output.each import each
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import MachineError
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.plurals import counted
from ticdc_assets.tables import messages as messages_table

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


def discover(config: Config, chosen: Sequence[Changefeed]) -> int:
    """Update the file of known tables of each changefeed."""
    terminal = Terminal()
    return each(chosen, lambda changefeed: _discover(terminal, config, changefeed), terminal.note)


def _discover(terminal: Terminal, config: Config, changefeed: Changefeed) -> bool:
    lake = Lake(read_only_config(config), changefeed)
    if isinstance(changefeed.source, KafkaSource) and not _has_landed(lake):
        how = f"`ticdc-assets run --changefeed {changefeed.name}`"
        terminal.result(f"{changefeed.name}: no tables are known before the first landing: {how} lands the topics.")
        return True
    with terminal.working(f"{changefeed.name}: reading the source"):
        found = tables_with_assets(run_of(lake).scan().history, lake.follows)
    problem = remember(config, changefeed.name, found)
    if problem:
        advice = "Make the folder writable, or put the config where it is."
        raise MachineError(str(state_folder(config)), "a folder that can be written", problem, advice)
    terminal.result(f"{changefeed.name}: {counted(len(found), 'table')}; reload the code location to see their assets.")
    return True


def _has_landed(lake: Lake) -> bool:
    table = messages_table.load(lake.catalog, lake.control.namespace)
    return table is not None and messages_table.landed_offsets(table).messages > 0
