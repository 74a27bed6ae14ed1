"""The parser of a command, the values that options take, and the changefeeds that they choose.

The functions of values raise ArgumentTypeError for text that is not such a value.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.printable import printable
from ticdc_assets.tso import parse_tso

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.pipeline.history.extent import Sample


class Parser(argparse.ArgumentParser):
    """Refuses unknown options with the usage of the command that lacks them, and suggests the nearest one.

    A value may not be empty, as that of an unset variable in a script is; one of the type `str` may.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", None, not_empty)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like argparse. Unknown arguments end the process."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(options, self._option_string_actions)}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += _meant([str(value)], map(str, action.choices or ()))
            raise


def command(commands: Any, name: str, does: str) -> argparse.ArgumentParser:
    """Add a command. `does` is its line in the list of commands, and the first sentence of its own help."""
    sentence = f"{does[:1].upper()}{does[1:]}."
    added: argparse.ArgumentParser = commands.add_parser(name, help=does, description=sentence)
    return added


def not_empty(text: str) -> str:
    """A text of at least one character."""
    if not text:
        raise argparse.ArgumentTypeError("expected a text, found an empty one")
    return text


def _meant(given: Iterable[str], known: Iterable[str]) -> str:
    known = list(known)
    near = [name for text in given for name in difflib.get_close_matches(text, known, n=1)]
    return f". Did you mean {' '.join(near)}?" if near else ""


INTERVAL_S_MIN: Final = 0.1
INTERVAL_S_MAX: Final = 86_400
PORT_MAX: Final = 65_535


def with_config(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options that name the config and a changefeed."""
    default = "$TICDC_ASSETS_CONFIG, else the packaged sample"
    parser.add_argument("--config", type=path, metavar="FILE", help=f"changefeeds.yaml (default: {default})")
    parser.add_argument("--changefeed", metavar="NAME", help="only this one")
    return parser


def asked(question: str, argument: str) -> str:
    """What the user types. Raises ConfigError where there is no terminal, or nothing is typed."""
    answer = input(question).strip() if sys.stdin.isatty() else ""
    if not answer:
        raise ConfigError(argument, "a value", "none", "Write it after the command.")
    return answer


def path(text: str) -> Path:
    """A path. `Path` would take an empty text as the current folder."""
    return Path(not_empty(text))


def tso(text: str) -> int:
    """A TSO, or a time in ISO 8601 with a zone."""
    try:
        return parse_tso(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def day(text: str) -> date:
    """A day in ISO 8601."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a day such as 2026-01-05") from None


def positive_number(text: str) -> int:
    """A whole number from 1 on."""
    return int(_between(int, text, 1, 1 << 62))


def sample(text: str) -> Sample:
    """A number of ranges, or a percentage."""
    from ticdc_assets.pipeline.history.extent import Sample

    try:
        return Sample.of(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a whole number of ranges, or a percentage such as 15%") from None


def interval(text: str) -> float:
    """A number of seconds."""
    return _between(float, text, INTERVAL_S_MIN, INTERVAL_S_MAX)


def address(text: str) -> tuple[str, int]:
    """A port, or `host:port`; the host is empty where it is not given."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise argparse.ArgumentTypeError("a port, or host:port, such as 9464 or 0.0.0.0:9464")
    return host.strip("[]"), int(port)


def hours(text: str) -> float:
    """The age of snapshots to keep, in hours."""
    from ticdc_assets.pipeline.maintenance import AGE_MAX, OLDER_THAN_HOURS_MIN  # imported only when needed

    return _between(float, text, OLDER_THAN_HOURS_MIN, AGE_MAX)


def days(text: str) -> int:
    """The age of records to keep, in days."""
    from ticdc_assets.pipeline.maintenance import AGE_MAX  # imported only when needed

    return int(_between(int, text, 0, AGE_MAX))


def _between(kind: type[float] | type[int], text: str, least: float, most: float) -> float:
    try:
        found = kind(text)
    except ValueError:
        found = kind(-1)
    if not least <= found <= most:
        raise argparse.ArgumentTypeError(f"a number from {least} to {most}")
    return found


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
