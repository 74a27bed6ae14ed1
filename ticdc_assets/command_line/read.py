"""The commands that read the tables at a TSO: tables, snapshot, diff, schema, verify.

Each imports what it needs when it runs, so that --help and config errors are fast.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from ticdc_assets.command_line.arguments import chosen_of, command, only, positive_number, sample, tso, with_config

_GARBAGE_AFTER: Final = 200_000
"""The number of new objects before a garbage collection. Imports make many objects and no garbage."""


def add_to(commands: Any) -> None:
    """Add these commands."""
    _add_tables(commands)
    _add_snapshot(commands)
    _add_diff_and_schema(commands)
    _add_verify(commands)


def _add_tables(commands: Any) -> None:
    tables = with_config(command(commands, "tables", "list source tables with state, watermark and rows"))
    tables.add_argument("--json", action="store_true", help="a JSON list")
    tables.set_defaults(command=_tables)


def _add_snapshot(commands: Any) -> None:
    snapshot = with_config(command(commands, "snapshot", "list or pin the snapshots to read together at a TSO"))
    snapshot.add_argument("--at", type=tso, metavar="TSO", help="the newest record up to this TSO or time")
    snapshot.add_argument("--pin", metavar="NAME", help="keep that record, and tag its snapshots with this name")
    must = "a table that must be complete in it, or *.* (repeatable)"
    snapshot.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help=must)
    snapshot.add_argument("--list", action="store_true", dest="lists", help="list the pins")
    snapshot.add_argument("--release", metavar="NAME", help="remove a pin and its tags")
    form = snapshot.add_mutually_exclusive_group()
    readers = ("spark", "duckdb", "polars", "pyiceberg")
    form.add_argument("--reader", choices=readers, help="print the code that reads all mirrors as of the record")
    form.add_argument("--json", action="store_true", help="a JSON object; with --list a JSON list")
    snapshot.set_defaults(command=_snapshot)


def _add_diff_and_schema(commands: Any) -> None:
    diff = with_config(command(commands, "diff", "count the rows that differ between two TSOs"))
    diff.add_argument("after", type=tso, metavar="TSO1", help="the earlier TSO, or a time such as 2025-07-31T20:00:00Z")
    diff.add_argument("until", type=tso, metavar="TSO2", help="the later one")
    diff.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="only this one (repeatable)")
    form = diff.add_mutually_exclusive_group()
    form.add_argument("--rows", action="store_true", help="print each row that differs as a line of JSON")
    form.add_argument("--json", action="store_true", help="a JSON object with the counts")
    diff.set_defaults(command=_diff)
    schema = with_config(command(commands, "schema", "list the columns of a table at a TSO"))
    schema.add_argument("table", metavar="SCHEMA.TABLE", help="its name at that TSO")
    schema.add_argument("--at", type=tso, required=True, metavar="TSO", help="a TSO, or a time: 2025-07-31T20:00:00Z")
    schema.add_argument("--json", action="store_true", help="a JSON object")
    schema.set_defaults(command=_schema)


def _add_verify(commands: Any) -> None:
    verify = with_config(command(commands, "verify", "compare mirrors with the upstream TiDB at a TSO"))
    verify.add_argument("--at", type=tso, metavar="TSO", help="the newest record up to this TSO (default: the newest)")
    verify.add_argument("--table", action="append", default=[], metavar="SCHEMA.TABLE", help="only this (repeatable)")
    verify.add_argument(
        "--chunk-rows",
        type=positive_number,
        default=20_000,
        metavar="N",
        help="rows that one statement reads (default: 20000)",
    )
    extent = verify.add_mutually_exclusive_group()
    extent.add_argument(
        "--sample",
        type=sample,
        metavar="N",
        help="only N ranges of each table, or N%% of them: those compared longest ago",
    )
    extent.add_argument("--changed", action="store_true", help="only keys that changed since they were compared")
    verify.add_argument("--keys", action="store_true", help="also print the keys of rows that differ")
    verify.add_argument("--repair", action="store_true", help="add TiDB's rows where mirrors differ (needs Java)")
    verify.add_argument("--json", action="store_true", help="a JSON list")
    verify.set_defaults(command=_verify)


def _tables(arguments: argparse.Namespace) -> int:
    _start_quickly()
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.read.listing import tables

    return tables(config, chosen, arguments.json)


def _snapshot(arguments: argparse.Namespace) -> int:
    _start_quickly()
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.read.snapshot import SnapshotOptions, snapshot

    options = SnapshotOptions(
        at=arguments.at,
        pin=arguments.pin,
        release=arguments.release,
        lists=arguments.lists,
        reader=arguments.reader,
        as_json=arguments.json,
        together=tuple(arguments.table),
    )
    return snapshot(config, only(config, chosen), options)


def _diff(arguments: argparse.Namespace) -> int:
    _start_quickly()
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.read.diff import DiffOptions, diff

    options = DiffOptions(arguments.after, arguments.until, tuple(arguments.table), arguments.rows, arguments.json)
    return diff(config, only(config, chosen), options)


def _schema(arguments: argparse.Namespace) -> int:
    _start_quickly()
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.read.schema import schema

    return schema(config, only(config, chosen), arguments.table, arguments.at, arguments.json)


def _verify(arguments: argparse.Namespace) -> int:
    config, chosen = chosen_of(arguments)
    from ticdc_assets.commands.read.verify import VerifyOptions, verify_mirrors
    from ticdc_assets.pipeline.history.extent import Extent

    options = VerifyOptions(
        arguments.at,
        tuple(arguments.table),
        arguments.chunk_rows,
        arguments.keys,
        arguments.json,
        Extent(arguments.sample, arguments.changed),
    )
    if arguments.repair:
        from ticdc_assets.commands.repair.repair import repair_mirrors

        return repair_mirrors(config, only(config, chosen), options)
    return verify_mirrors(config, only(config, chosen), options)


def _start_quickly() -> None:
    """Import pyarrow without pandas, and collect garbage less often. Does nothing to a process that has pyarrow.

    pyarrow imports pandas when it makes its first value, which takes longer than all that such a command does. If it
    does not find pandas then, it searches again when a data frame is requested.
    """
    if "pyarrow" in sys.modules:
        return
    gc.set_threshold(_GARBAGE_AFTER)
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow.dataset  # noqa: F401  it makes values as it is imported
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    """A module finder that reports pandas as not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)
        return None
