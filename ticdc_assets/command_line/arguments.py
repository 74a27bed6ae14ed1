"""The values that options take. Each function raises ArgumentTypeError for text that is not such a value."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Final

from ticdc_assets.command_line.parser import not_empty
from ticdc_assets.tso import parse_tso

INTERVAL_S_MIN: Final = 0.1
INTERVAL_S_MAX: Final = 86_400
PORT_MAX: Final = 65_535


def with_config(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options that name the config and a changefeed."""
    default = "$TICDC_ASSETS_CONFIG, else the packaged sample"
    parser.add_argument("--config", type=path, metavar="FILE", help=f"changefeeds.yaml (default: {default})")
    parser.add_argument("--changefeed", metavar="NAME", help="only this one")
    return parser


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
