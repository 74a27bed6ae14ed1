"""`ticdc-assets`: every fault is one sentence, never a traceback.

Exit codes: 0 success, 1 something failed or is held, 2 the config or the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets import __version__
from ticdc_assets.commands.each import code_of, sentence_of
from ticdc_assets.errors import ConfigError
from ticdc_assets.faults import interrupted_by
from ticdc_assets.tso import parse_tso

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

EXIT_INTERRUPTED: Final = 130
USUAL_NAME: Final = "changefeeds.yaml"
INTERVAL_S: Final = 5.0
INTERVAL_S_MIN: Final = 0.1
INTERVAL_S_MAX: Final = 86_400
PORT_MAX: Final = 65_535


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(arguments.command(arguments))
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:  # noqa: BLE001  every fault is one sentence
        # Stopping Spark may fail after an interruption.
        return _interrupted() if interrupted_by(error) else _failed(sentence_of(error), code_of(error))


def _interrupted() -> int:
    return _failed("Interrupted. No partial result is visible. Run the command again to continue.", EXIT_INTERRUPTED)


def _failed(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


# -- the command line --------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("ticdc-assets", description="TiCDC change streams as exact Apache Iceberg tables.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="run the packaged sample in every protocol and compare the results")
    demo.add_argument("--dir", type=Path, default=Path("demo"), help="the folder to create (default: ./demo)")
    demo.add_argument("--changefeed", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    demo.set_defaults(command=_demo)
    _add_run(commands)
    check = _with_config(commands.add_parser("check", help="evaluate all asset checks; runs nothing"))
    check.add_argument("--json", action="store_true", help="a JSON list")
    check.set_defaults(command=_check)
    doctor = _with_config(commands.add_parser("doctor", help="test what a run needs: Java, catalog, sources, workers"))
    doctor.add_argument("--json", action="store_true", help="a JSON list")
    doctor.set_defaults(command=_doctor)
    tables = _with_config(commands.add_parser("tables", help="list source tables with state, watermark and rows"))
    tables.add_argument("--json", action="store_true", help="a JSON list")
    tables.set_defaults(command=_tables)
    _add_snapshot(commands)
    _add_diff_and_schema(commands)
    _add_verify(commands)
    inspect = commands.add_parser("inspect", help="report what a source contains, or what a config lacks")
    inspect.add_argument(
        "place",
        metavar="PLACE",
        help="messages.jsonl, a .bin file, a folder, a bucket's URI, kafka://host:port/topic; or changefeeds.yaml",
    )
    inspect.add_argument("--all", action="store_true", help="read everything (default: a bounded part)")
    inspect.add_argument("--json", action="store_true", help="a JSON object")
    inspect.set_defaults(command=_inspect)
    capture = _with_config(commands.add_parser("capture", help="copy messages of Kafka topics to files"))
    capture.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the folder to add messages to")
    capture.add_argument("--max-messages", type=_count, metavar="N", help="read at most N offsets")
    capture.set_defaults(command=_capture)
    _add_load(commands)
    _add_maintain(commands)
    replay = _with_config(commands.add_parser("replay", help="decode quarantined records again"))
    replay.add_argument("--quarantine", action="store_true", required=True, help="what to replay")
    replay.add_argument("--record", action="append", default=[], metavar="PATH:LINE", help="only this one (repeatable)")
    replay.add_argument("--with", dest="corrected", type=Path, metavar="FILE", help="the corrected bytes of the record")
    replay.add_argument(
        "--discard", action="append", default=[], metavar="PATH:LINE", help="give this record up (repeatable)"
    )
    replay.set_defaults(command=_replay)
    _add_rebuild(commands)
    discover = _with_config(commands.add_parser("discover", help="list the tables of the source"))
    discover.set_defaults(command=_discover)
    return parser


def _add_snapshot(commands: Any) -> None:
    snapshot = _with_config(commands.add_parser("snapshot", help="list or pin the snapshots to read together at a TSO"))
    snapshot.add_argument("--at", type=_tso, metavar="TSO", help="the newest record up to this TSO or time")
    snapshot.add_argument("--pin", metavar="NAME", help="keep that record, and tag its snapshots with this name")
    snapshot.add_argument("--list", action="store_true", dest="lists", help="list the pins")
    snapshot.add_argument("--release", metavar="NAME", help="remove a pin and its tags")
    form = snapshot.add_mutually_exclusive_group()
    readers = ("spark", "duckdb", "polars", "pyiceberg")
    form.add_argument("--reader", choices=readers, help="print the code that reads all mirrors as of the record")
    form.add_argument("--json", action="store_true", help="JSON")
    snapshot.set_defaults(command=_snapshot)


def _add_diff_and_schema(commands: Any) -> None:
    diff = _with_config(commands.add_parser("diff", help="count the rows that differ between two TSOs"))
    diff.add_argument(
        "after", type=_tso, metavar="TSO1", help="the earlier TSO, or a time such as 2025-07-31T20:00:00Z"
    )
    diff.add_argument("until", type=_tso, metavar="TSO2", help="the later one")
    diff.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="only this one (repeatable)")
    form = diff.add_mutually_exclusive_group()
    form.add_argument("--rows", action="store_true", help="print each row that differs as a line of JSON")
    form.add_argument("--json", action="store_true", help="a JSON object with the counts")
    diff.set_defaults(command=_diff)
    schema = _with_config(commands.add_parser("schema", help="list the columns of a table at a TSO"))
    schema.add_argument("table", metavar="SCHEMA.TABLE", help="its name at that TSO")
    schema.add_argument("--at", type=_tso, required=True, metavar="TSO", help="a TSO, or a time: 2025-07-31T20:00:00Z")
    schema.add_argument("--json", action="store_true", help="a JSON object")
    schema.set_defaults(command=_schema)


def _add_run(commands: Any) -> None:
    run = _with_config(commands.add_parser("run", help="process everything pending once; safe to repeat"))
    run.add_argument("--until", type=_tso, metavar="TSO", help="stop at this TSO")
    run.add_argument("--strict", action="store_true", help="evaluate all checks afterwards, and fail if one fails")
    run.add_argument("--follow", action="store_true", help="go on until SIGTERM or Ctrl-C")
    run.add_argument(
        "--interval",
        type=_interval,
        metavar="S",
        help="with --follow: seconds from one run's beginning to the next one's (default: 5)",
    )
    run.add_argument("--json", action="store_true", help="with --follow: one JSON object a line for each run")
    run.add_argument(
        "--metrics", type=_address, metavar="[HOST:]PORT", help="with --follow: serve OpenMetrics (HOST: 127.0.0.1)"
    )
    run.set_defaults(command=_run)


def _add_load(commands: Any) -> None:
    load = _with_config(commands.add_parser("load", help="load a Dumpling export before the first run"))
    load.add_argument("dump", metavar="DUMP", help="the folder or bucket of the export")
    load.add_argument("--at", type=_tso, metavar="TSO", help="the TSO of the export (default: that of its `metadata`)")
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
    flags.add_argument("--csv-delimiter", default='"', metavar="CHARACTER")
    flags.add_argument("--csv-line-terminator", metavar="TEXT")
    flags.add_argument("--csv-null-value", default="\\N", metavar="TEXT")
    flags.add_argument(
        "--csv-output-dialect", choices=("default", "snowflake", "redshift", "bigquery"), default="default"
    )
    load.set_defaults(command=_load)


def _add_verify(commands: Any) -> None:
    verify = _with_config(commands.add_parser("verify", help="compare mirrors with the upstream TiDB at a TSO"))
    verify.add_argument("--at", type=_tso, metavar="TSO", help="the newest record up to this TSO (default: the newest)")
    verify.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="only this (repeatable)")
    verify.add_argument("--chunk-rows", type=_count, default=20_000, metavar="N", help="rows that one statement reads")
    verify.add_argument("--keys", action="store_true", help="also print the keys of rows that differ")
    verify.add_argument("--json", action="store_true", help="a JSON list")
    verify.set_defaults(command=_verify)


def _add_maintain(commands: Any) -> None:
    maintain = _with_config(commands.add_parser("maintain", help="expire old snapshots and remove orphan files"))
    maintain.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    maintain.add_argument("--older-than-hours", type=_hours, metavar="N", help="keep everything younger than N hours")
    maintain.add_argument("--keep-days", type=_days, metavar="N", help="keep the last record of each day for N days")
    maintain.add_argument("--compact", action="store_true", help="also rewrite small files (needs Java)")
    pins = maintain.add_mutually_exclusive_group()
    pins.add_argument("--pin", type=_tso, metavar="TSO", help="only pin the record that `snapshot --at TSO` returns")
    pins.add_argument("--unpin", type=_tso, metavar="TSO", help="only unpin that record")
    maintain.add_argument("--json", action="store_true", help="a JSON list")
    maintain.set_defaults(command=_maintain)


def _add_rebuild(commands: Any) -> None:
    rebuild = _with_config(commands.add_parser("rebuild", help="rebuild mirrors, or changelogs and mirrors"))
    rebuild.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="this one (repeatable)")
    rebuild.add_argument(
        "--from",
        dest="origin",
        choices=("changelog", "source"),
        default="changelog",
        help="the mirror from its changelog (default), or changelog and mirror from the source",
    )
    rebuild.add_argument(
        "--at", type=_tso, metavar="TSO", help="rebuild the mirror as of this TSO; the next run continues from there"
    )
    rebuild.add_argument("--json", action="store_true", help="a JSON list")
    rebuild.set_defaults(command=_rebuild)


def _with_config(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    default = "$TICDC_ASSETS_CONFIG, else the packaged sample"
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"changefeeds.yaml (default: {default})")
    parser.add_argument("--changefeed", metavar="NAME", help="only this one")
    return parser


def _tso(text: str) -> int:
    try:
        return parse_tso(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    return int(_between(int, text, 1, 1 << 62))


def _interval(text: str) -> float:
    return _between(float, text, INTERVAL_S_MIN, INTERVAL_S_MAX)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise argparse.ArgumentTypeError("a port, or host:port, such as 9464 or 0.0.0.0:9464")
    return host.strip("[]"), int(port)


def _hours(text: str) -> float:
    from ticdc_assets.pipeline.maintenance import AGE_MAX, OLDER_THAN_HOURS_MIN  # imported only when needed

    return _between(float, text, OLDER_THAN_HOURS_MIN, AGE_MAX)


def _days(text: str) -> int:
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


# -- the commands; each imports what it needs, so that --help and config errors are fast ------------------------------


def _chosen(arguments: argparse.Namespace) -> tuple[Config, tuple[Changefeed, ...]]:
    from ticdc_assets.config import CONFIG_VARIABLE, load

    config = load(arguments.config, os.environ)
    if arguments.config is None and not os.environ.get(CONFIG_VARIABLE):
        here = f" There is one here: --config {USUAL_NAME}." if Path(USUAL_NAME).is_file() else ""
        advice = f"Give --config FILE, or set {CONFIG_VARIABLE}."
        print(f"No config is given: this is the packaged sample. {advice}{here}", file=sys.stderr)
    named = arguments.changefeed
    chosen = (config.changefeed(named),) if named else config.changefeeds
    for changefeed in chosen:
        for sentence in changefeed.warnings:
            print(f"warning: {changefeed.name}: {sentence}", file=sys.stderr)
    return config, chosen


def _only(config: Config, chosen: Sequence[Changefeed]) -> Changefeed:
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(changefeed.name for changefeed in chosen)
    advice = "Name one with --changefeed: TSOs of different changefeeds are recorded apart."
    raise ConfigError(str(config.path), "one changefeed", f"{listed}", advice)


def _demo(arguments: argparse.Namespace) -> int:
    from ticdc_assets.commands.demo import demo

    return demo(arguments.dir, arguments.changefeed, os.environ)


def _run(arguments: argparse.Namespace) -> int:
    _require_fitting(arguments)
    config, chosen = _chosen(arguments)
    if arguments.follow:
        from ticdc_assets.commands.follow.command import Options, follow
        from ticdc_assets.commands.follow.metrics_server import LOOPBACK, Address

        host, port = arguments.metrics or (None, None)
        address = None if port is None else Address(host or LOOPBACK, port)
        interval_s = INTERVAL_S if arguments.interval is None else arguments.interval
        return follow(config, chosen, Options(interval_s, arguments.json, address), os.environ)
    from ticdc_assets.commands.run import run

    code = run(config, chosen, arguments.until, os.environ)
    if not arguments.strict:
        return code
    from ticdc_assets.commands.check import check

    return max(code, check(config, chosen, False, os.environ))


def _require_fitting(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an option of `run` that has no meaning with the other ones."""
    without = ("until", "strict") if arguments.follow else ("interval", "json", "metrics")
    for name in without:
        given = getattr(arguments, name)
        if given is not None and given is not False:
            expected, found = ("no --follow", "--follow") if arguments.follow else ("--follow", "none")
            advice = f"Leave --{name} out." if arguments.follow else f"Add --follow, or leave --{name} out."
            raise ConfigError(f"--{name}", expected, found, advice)


def _check(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.check import check

    return check(config, chosen, arguments.json, os.environ)


def _doctor(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.doctor import doctor

    return doctor(config, chosen, arguments.json)


def _tables(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.listing import tables

    return tables(config, chosen, arguments.json)


def _snapshot(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.snapshot import Asked, snapshot

    asked = Asked(
        at=arguments.at,
        pin=arguments.pin,
        release=arguments.release,
        lists=arguments.lists,
        reader=arguments.reader,
        as_json=arguments.json,
    )
    return snapshot(config, _only(config, chosen), asked)


def _diff(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.diff import Asked, diff

    asked = Asked(arguments.after, arguments.until, tuple(arguments.table), arguments.rows, arguments.json)
    return diff(config, _only(config, chosen), asked)


def _verify(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.verify import Asked, verify_mirrors

    asked = Asked(arguments.at, tuple(arguments.table), arguments.chunk_rows, arguments.keys, arguments.json)
    return verify_mirrors(config, _only(config, chosen), asked)


def _schema(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.schema import schema

    return schema(config, _only(config, chosen), arguments.table, arguments.at, arguments.json)


def _inspect(arguments: argparse.Namespace) -> int:
    from ticdc_assets.commands.inspect import inspect
    from ticdc_assets.commands.inspect_config import inspect_config, is_config

    if is_config(arguments.place):
        return inspect_config(arguments.place, arguments.all, arguments.json)
    return inspect(arguments.place, arguments.all, arguments.json)


def _capture(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.capture import capture

    return capture(_only(config, chosen), arguments.to, arguments.max_messages)


def _load(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.load import Asked, load_dump
    from ticdc_assets.protocols.dump.form import DIALECTS, DumpForm

    form = DumpForm(
        separator=arguments.csv_separator,
        delimiter=arguments.csv_delimiter,
        terminator=arguments.csv_line_terminator,
        null=arguments.csv_null_value,
        escapes_backslash=arguments.escape_backslash == "true",
        has_header=not arguments.no_header,
        binary=DIALECTS[arguments.csv_output_dialect],
    )
    asked = Asked(arguments.dump, arguments.at, arguments.time_zone, tuple(arguments.without), form)
    return load_dump(config, _only(config, chosen), asked)


def _maintain(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.maintain import Asked, change_pins, maintain_all

    asked = Asked(
        older_than_hours=arguments.older_than_hours,
        days_kept=arguments.keep_days,
        compact=arguments.compact,
        dry_run=arguments.dry_run,
        as_json=arguments.json,
        pin=arguments.pin,
        unpin=arguments.unpin,
    )
    if asked.pin is not None or asked.unpin is not None:
        return change_pins(config, _only(config, chosen), asked)
    return maintain_all(config, chosen, asked)


def _replay(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.replay import replay

    return replay(config, chosen, arguments.record, arguments.corrected, arguments.discard)


def _rebuild(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.rebuild import Asked, rebuild

    asked = Asked(tuple(arguments.table), arguments.origin == "source", arguments.at, arguments.json)
    if asked.tables or asked.at is not None:
        chosen = (_only(config, chosen),)
    return rebuild(config, chosen, asked)


def _discover(arguments: argparse.Namespace) -> int:
    config, chosen = _chosen(arguments)
    from ticdc_assets.commands.discover import discover

    return discover(config, chosen)


if __name__ == "__main__":
    sys.exit(main())
