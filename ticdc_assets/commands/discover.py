"""`ticdc-assets discover`: which tables the source has, so that they have assets when the code location loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ticdc_assets.amounts import counted
from ticdc_assets.assets.known_tables import remember, state_folder, tables_of
from ticdc_assets.commands.each import each
from ticdc_assets.commands.terminal import Terminal
from ticdc_assets.errors import MachineError
from ticdc_assets.pipeline.lake import Lake, to_look_at
from ticdc_assets.pipeline.runs import run_of

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


def discover(config: Config, chosen: Sequence[Changefeed]) -> int:
    """Rewrites the small file of each changefeed."""
    terminal = Terminal()
    return each(chosen, lambda changefeed: _discover(terminal, config, changefeed), terminal.note)


def _discover(terminal: Terminal, config: Config, changefeed: Changefeed) -> bool:
    lake = Lake(to_look_at(config), changefeed)
    found = tables_of(run_of(lake).look().history, lake.follows)
    problem = remember(config, changefeed.name, found)
    if problem:
        todo = "Make the folder writable, or put the config where it is."
        raise MachineError(str(state_folder(config)), "a folder that can be written", problem, todo)
    terminal.tell(f"{changefeed.name}: {counted(len(found), 'table')}; reload the code location to see their assets.")
    return True
