"""An argument parser that names the command and the option that were probably meant."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable
from typing import Any


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
