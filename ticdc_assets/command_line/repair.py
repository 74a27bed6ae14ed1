"""The commands that keep tables small and repair them: maintain, replay, rebuild, resync.

Each imports what it needs when it runs, so that --help and config errors are fast.
"""

from __future__ import annotations

import argparse
from typing import Any

from ticdc_assets.command_line.arguments import chosen_of, command, day, days, hours, only, path, tso, with_config


def add_to(commands: Any) -> None:
    """Add these commands."""
    _add_maintain(commands)
    _add_replay(commands)
    _add_rebuild(commands)
    _add_resync(commands)


def _add_maintain(commands: Any) -> None:
    maintain = with_config(command(commands, "maintain", "expire old snapshots and remove orphan files"))
    maintain.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    maintain.add_argument(
        "--older-than-hours", type=hours, metavar="N", help="keep everything younger than N hours (default: 24)"
    )
    maintain.add_argument(
        "--keep-days", type=days, metavar="N", help="keep the last record of each day for N days (default: 30)"
    )
    maintain.add_argument("--compact", action="store_true", help="also rewrite small files (needs Java)")
    pins = maintain.add_mutually_exclusive_group()
    pins.add_argument("--pin", type=tso, metavar="TSO", help="only pin the record that `snapshot --at TSO` returns")
    pins.add_argument("--unpin", type=tso, metavar="TSO", help="only unpin that record")
    maintain.add_argument("--json", action="store_true", help="a JSON list")
    maintain.set_defaults(command=_maintain)


def _add_replay(commands: Any) -> None:
    replay = with_config(command(commands, "replay", "decode quarantined records again"))
    replay.add_argument("--quarantine", action="store_true", required=True, help="what to replay")
    replay.add_argument("--record", action="append", default=[], metavar="PATH:LINE", help="only this one (repeatable)")
    replay.add_argument("--with", dest="corrected", type=path, metavar="FILE", help="the corrected bytes of the record")
    replay.add_argument(
        "--discard", action="append", default=[], metavar="PATH:LINE", help="give this record up (repeatable)"
    )
    replay.set_defaults(command=_replay)


def _add_rebuild(commands: Any) -> None:
    rebuild = with_config(command(commands, "rebuild", "rebuild mirrors, or changelogs and mirrors"))
    rebuild.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="this one (repeatable)")
    rebuild.add_argument(
        "--from",
        dest="origin",
        choices=("changelog", "source"),
        default="changelog",
        help="the mirror from its changelog (default), or changelog and mirror from the source",
    )
    rebuild.add_argument(
        "--at", type=tso, metavar="TSO", help="rebuild the mirror as of this TSO; the next run continues from there"
    )
    rebuild.add_argument(
        "--day", type=day, metavar="DAY", help="with --from source: only the changes of this UTC day of commits"
    )
    rebuild.add_argument("--json", action="store_true", help="a JSON list")
    rebuild.set_defaults(command=_rebuild)


def _add_resync(commands: Any) -> None:
    resync = with_config(command(commands, "resync", "copy or repair tables from the upstream TiDB"))
    resync.add_argument("tables", nargs="*", metavar="SCHEMA.TABLE", help="a table to bring to what TiDB has")
    resync.add_argument(
        "--all", action="store_true", help="all tables: the stream was lost, and begins anew at a later TSO"
    )
    rows = resync.add_mutually_exclusive_group()
    rows.add_argument("--where", metavar="SQL", help="only rows of one live table that match in TiDB or in the mirror")
    rows.add_argument("--keys", type=path, metavar="FILE", help="only rows of one live table: their keys, one a line")
    resync.add_argument("--at", type=tso, metavar="TSO", help="the TSO of copies and of --all (default: now)")
    resync.add_argument("--json", action="store_true", help="a JSON list")
    resync.set_defaults(command=_resync)


def _maintain(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.repair.maintain import MaintainOptions, change_pins, maintain_all

    options = MaintainOptions(
        older_than_hours=arguments.older_than_hours,
        days_kept=arguments.keep_days,
        compact=arguments.compact,
        dry_run=arguments.dry_run,
        as_json=arguments.json,
        pin=arguments.pin,
        unpin=arguments.unpin,
    )
    if options.pin is not None or options.unpin is not None:
        return change_pins(config, only(config, chosen), options)
    return maintain_all(config, chosen, options)


def _replay(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.repair.replay import replay

    return replay(config, chosen, arguments.record, arguments.corrected, arguments.discard)


def _rebuild(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.repair.rebuild import RebuildOptions, rebuild

    options = RebuildOptions(
        tuple(arguments.table), arguments.origin == "source", arguments.at, arguments.json, arguments.day
    )
    if options.tables or options.at is not None:
        chosen = (only(config, chosen),)
    return rebuild(config, chosen, options)


def _resync(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.repair.repair import ResyncOptions, resync
    from ticdc_assets.errors import ConfigError

    if arguments.all == bool(arguments.tables):
        found = "both" if arguments.all else "neither"
        raise ConfigError("resync", "tables or --all", found, "Name the tables, or take all.")
    if (arguments.where or arguments.keys) and (len(arguments.tables) != 1 or arguments.at is not None):
        advice = "Rows are compared at the TSO that the mirror of one table has."
        raise ConfigError("--where or --keys", "one table and no --at", "something else", advice)
    options = ResyncOptions(tuple(arguments.tables), arguments.at, arguments.where, arguments.keys, arguments.json)
    return resync(config, only(config, chosen), options)
