"""The config and the changefeeds that a command works on."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.printable import printable

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

USUAL_NAME: Final = "changefeeds.yaml"


def chosen_of(arguments: argparse.Namespace) -> tuple[Config, tuple[Changefeed, ...]]:
    """The config, and the changefeed that is named or all of them. Prints the warnings of each."""
    from ticdc_assets.config import CONFIG_VARIABLE, load

    config = load(arguments.config, os.environ)
    if arguments.config is None and not os.environ.get(CONFIG_VARIABLE):
        here = f" There is one here: --config {USUAL_NAME}." if Path(USUAL_NAME).is_file() else ""
        advice = f"Give --config FILE, or set {CONFIG_VARIABLE}."
        print(f"No config is given: this is the packaged sample. {advice}{here}", file=sys.stderr)
    named = arguments.changefeed
    chosen = (config.changefeed(named),) if named is not None else config.changefeeds
    for changefeed in chosen:
        for sentence in changefeed.warnings:
            print(printable(f"warning: {changefeed.name}: {sentence}"), file=sys.stderr)
    return config, chosen


def only(config: Config, chosen: Sequence[Changefeed]) -> Changefeed:
    """The one changefeed. Raises ConfigError if there are several."""
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(changefeed.name for changefeed in chosen)
    advice = "Name one with --changefeed: this command works on one of them."
    raise ConfigError(str(config.path), "one changefeed", listed, advice)
