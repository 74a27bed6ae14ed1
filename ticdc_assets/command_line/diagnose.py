"""The commands that make or test a set-up, and its data: init, config, check, doctor, inspect.

Each imports what it needs when it runs, so that --help and config errors are fast.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ticdc_assets.command_line.arguments import asked, chosen_of, command, path, with_config
from ticdc_assets.printable import printable


def add_to(commands: Any) -> None:
    """Add these commands."""
    _add_init(commands)
    _add_config(commands)
    _add_check(commands)
    _add_doctor(commands)
    _add_inspect(commands)


def _add_init(commands: Any) -> None:
    init = command(commands, "init", "write changefeeds.yaml for a stream, and test it")
    init.add_argument("place", metavar="SINK_URI", nargs="?", help="or a path, as for inspect; asked for if left out")
    init.add_argument("--config", type=path, metavar="FILE", default=Path("changefeeds.yaml"), help="the file to write")
    init.add_argument("--name", metavar="NAME", help="the changefeed's name (default: from the URI)")
    init.add_argument("--config-file", type=path, metavar="TOML", help="the file given to cdc with --config")
    init.add_argument("--time-zone", metavar="ZONE", help="the zone in which TiCDC writes TIMESTAMP (default: UTC)")
    init.add_argument("--schema-registry", metavar="URL", help="that of the Avro protocol")
    init.set_defaults(command=_init)


def _add_config(commands: Any) -> None:
    config = with_config(command(commands, "config", "check changefeeds.yaml; connects to nothing"))
    config.add_argument("--schema", action="store_true", help="print the file's JSON Schema, for editors, in its place")
    config.set_defaults(command=_config)


def _add_check(commands: Any) -> None:
    check = with_config(command(commands, "check", "evaluate all asset checks; runs nothing"))
    check.add_argument("--json", action="store_true", help="a JSON list")
    check.set_defaults(command=_check)


def _add_doctor(commands: Any) -> None:
    doctor = with_config(command(commands, "doctor", "test what a run needs: Java, catalog, sources, workers"))
    doctor.add_argument("--json", action="store_true", help="a JSON list")
    doctor.add_argument(
        "--prepare", action="store_true", help="make the archive from which Java starts with less processor time"
    )
    doctor.set_defaults(command=_doctor)


def _add_inspect(commands: Any) -> None:
    inspect = command(commands, "inspect", "report what a source contains, or what a config lacks")
    inspect.add_argument(
        "place",
        metavar="PLACE",
        help="messages.jsonl, a .bin file, a folder, a bucket's URI, kafka://host:port/topic; or changefeeds.yaml",
    )
    inspect.add_argument("--all", action="store_true", help="read everything (default: a bounded part)")
    inspect.add_argument("--json", action="store_true", help="a JSON object")
    inspect.set_defaults(command=_inspect)


def _init(arguments: argparse.Namespace) -> int:
    from ticdc_assets.commands.diagnose.init import NewConfig, init

    place = arguments.place or asked("The sink URI of the changefeed: ", "SINK_URI")
    wanted = NewConfig(
        path=arguments.config,
        place=place,
        name=arguments.name,
        config_file=arguments.config_file,
        time_zone=arguments.time_zone,
        registry=arguments.schema_registry,
    )
    return init(wanted, os.environ)


def _config(arguments: argparse.Namespace) -> int:
    if arguments.schema:
        from ticdc_assets.config import SCHEMA

        print(SCHEMA.read_text(encoding="utf-8"), end="")
        return 0
    config, chosen = chosen_of(arguments)
    for changefeed in chosen:
        print(printable(f"{changefeed.name}: {changefeed.sink.protocol}, {changefeed.redacted_sink_uri}"))
    print(printable(f"{config.path} has no faults."))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.diagnose.check import check

    return check(config, chosen, arguments.json, os.environ)


def _doctor(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.diagnose.doctor import doctor

    return doctor(config, chosen, arguments.json, arguments.prepare)


def _inspect(arguments: argparse.Namespace) -> int:
    from ticdc_assets.commands.diagnose.inspect import inspect, inspect_config, is_config

    if is_config(arguments.place):
        return inspect_config(arguments.place, arguments.all, arguments.json)
    return inspect(arguments.place, arguments.all, arguments.json)
