"""The commands that bring changes into the tables: demo, run, load, capture.

Each imports what it needs when it runs, so that --help and config errors are fast.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

from ticdc_assets.command_line.arguments import (
    address,
    chosen_of,
    command,
    interval,
    only,
    path,
    positive_number,
    tso,
    with_config,
)
from ticdc_assets.errors import ConfigError

INTERVAL_S: Final = 5.0


def add_to(commands: Any) -> None:
    """Add these commands."""
    _add_demo(commands)
    _add_run(commands)
    _add_load(commands)
    _add_capture(commands)


def _add_demo(commands: Any) -> None:
    demo = command(commands, "demo", "run the packaged sample in every protocol and compare the results")
    demo.add_argument("--dir", type=path, default=Path("demo"), help="the folder to create (default: ./demo)")
    demo.add_argument("--changefeed", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    demo.set_defaults(command=_demo)


def _add_run(commands: Any) -> None:
    run = with_config(command(commands, "run", "process everything pending once; safe to repeat"))
    run.add_argument("--until", type=tso, metavar="TSO", help="stop at this TSO")
    run.add_argument("--strict", action="store_true", help="evaluate all checks afterwards, and fail if one fails")
    run.add_argument("--follow", action="store_true", help="run until SIGTERM or Ctrl-C")
    run.add_argument(
        "--interval",
        type=interval,
        metavar="S",
        help="with --follow: seconds from one run's beginning to the next one's (default: 5)",
    )
    run.add_argument("--json", action="store_true", help="with --follow: one JSON object a line for each run")
    run.add_argument(
        "--metrics", type=address, metavar="[HOST:]PORT", help="with --follow: serve OpenMetrics (HOST: 127.0.0.1)"
    )
    run.set_defaults(command=_run)


def _add_load(commands: Any) -> None:
    load = with_config(command(commands, "load", "load a Dumpling export, or TiDB's tables, before the first run"))
    load.add_argument("dump", nargs="?", metavar="DUMP", help="the folder or bucket of the export")
    load.add_argument("--from-upstream", action="store_true", help="read the tables from the upstream TiDB instead")
    load.add_argument(
        "--at", type=tso, metavar="TSO", help="the TSO (default: that of the export's `metadata`, or now)"
    )
    load.add_argument(
        "--tables", action="append", default=[], metavar="PATTERN", help="only these, a filter rule (repeatable)"
    )
    load.add_argument(
        "--without", action="append", default=[], metavar="SCHEMA.TABLE", help="not this one (repeatable)"
    )
    load.add_argument(
        "--time-zone", metavar="ZONE", help="of Dumpling's session (default: the changefeed's `time_zone`)"
    )
    flags = load.add_argument_group("the flags that Dumpling was started with, where they were not its defaults")
    flags.add_argument("--escape-backslash", choices=("true", "false"), default="true")
    flags.add_argument("--no-header", action="store_true", help="CSV files without a line of column names")
    flags.add_argument("--csv-separator", default=",", metavar="TEXT")
    flags.add_argument("--csv-delimiter", type=str, default='"', metavar="CHARACTER")
    flags.add_argument("--csv-line-terminator", metavar="TEXT")
    flags.add_argument("--csv-null-value", type=str, default="\\N", metavar="TEXT")
    flags.add_argument(
        "--csv-output-dialect", choices=("default", "snowflake", "redshift", "bigquery"), default="default"
    )
    load.set_defaults(command=_load)


def _add_capture(commands: Any) -> None:
    capture = with_config(command(commands, "capture", "copy messages of Kafka topics to files"))
    capture.add_argument("--to", type=path, required=True, metavar="FOLDER", help="the folder to add messages to")
    capture.add_argument("--max-messages", type=positive_number, metavar="N", help="read at most N offsets")
    capture.set_defaults(command=_capture)


def _run(arguments: argparse.Namespace) -> int:
    _require_fitting(arguments)
    if arguments.follow:
        try:
            return _follow(arguments)
        except KeyboardInterrupt:  # before the process handles the signals itself: nothing has begun
            return 0
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.process.run import run

    code = run(config, chosen, arguments.until, os.environ)
    if not arguments.strict:
        return code
    from ticdc_assets.commands.diagnose.check import check

    return max(code, check(config, chosen, False, os.environ))


def _follow(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.process.follow.command import FollowOptions, follow
    from ticdc_assets.commands.process.follow.report import LOOPBACK, Address

    host, port = arguments.metrics or (None, None)
    address = None if port is None else Address(host or LOOPBACK, port)
    interval_s = INTERVAL_S if arguments.interval is None else arguments.interval
    return follow(config, chosen, FollowOptions(interval_s, arguments.json, address), os.environ)


def _require_fitting(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an option of `run` that has no meaning with the other ones."""
    without = ("until", "strict") if arguments.follow else ("interval", "json", "metrics")
    for name in without:
        given = getattr(arguments, name)
        if given is not None and given is not False:
            expected, found = ("no --follow", "--follow") if arguments.follow else ("--follow", "none")
            advice = f"Leave --{name} out." if arguments.follow else f"Add --follow, or leave --{name} out."
            raise ConfigError(f"--{name}", expected, found, advice)


def _demo(arguments: argparse.Namespace) -> int:
    from ticdc_assets.commands.process.demo import demo

    return demo(arguments.dir, arguments.changefeed, os.environ)


def _load(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.process.load import LoadOptions, load_tables
    from ticdc_assets.protocols.dump.form import DIALECTS, DumpForm

    if (arguments.dump is None) != arguments.from_upstream:
        found = "both" if arguments.from_upstream else "neither"
        raise ConfigError("load", "DUMP or --from-upstream", found, "Name the one to read the rows from.")
    form = DumpForm(
        separator=arguments.csv_separator,
        delimiter=arguments.csv_delimiter,
        terminator=arguments.csv_line_terminator,
        null=arguments.csv_null_value,
        escapes_backslash=arguments.escape_backslash == "true",
        has_header=not arguments.no_header,
        binary=DIALECTS[arguments.csv_output_dialect],
    )
    tables = tuple(arguments.tables) or ("*.*",)
    options = LoadOptions(arguments.dump, arguments.at, arguments.time_zone, tables, tuple(arguments.without), form)
    return load_tables(config, only(config, chosen), options)


def _capture(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.process.capture import capture

    return capture(only(config, chosen), arguments.to, arguments.max_messages)
