"""`ticdc-assets snapshot`: the snapshots to read together at a TSO; `pins` has the pins that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.commands.read.listing import list_pins, recorded_snapshot
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.history.knowledge import Lack, without
from ticdc_assets.pipeline.lake import Lake, read_only_config

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


_PYICEBERG: Final = """from pyiceberg.catalog import load_catalog

catalog = load_catalog({catalog!r})
snapshots = {snapshots}
tables = {{name: catalog.load_table(name).scan(snapshot_id=i).to_arrow() for name, i in snapshots.items()}}"""

_POLARS: Final = """import polars
from pyiceberg.catalog import load_catalog

catalog = load_catalog({catalog!r})
snapshots = {snapshots}
tables = {{name: polars.scan_iceberg(catalog.load_table(name), snapshot_id=i) for name, i in snapshots.items()}}"""

_DUCKDB: Final = """import duckdb
from pyiceberg.catalog import load_catalog

duckdb.sql("LOAD avro; LOAD iceberg")
catalog = load_catalog({catalog!r})
snapshots = {snapshots}
files = {{name: catalog.load_table(name).metadata_location for name in snapshots}}
scan = "SELECT * FROM iceberg_scan('{{}}', snapshot_from_id = {{}})"
tables = {{name: duckdb.sql(scan.format(files[name], i)) for name, i in snapshots.items()}}"""


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The options of `snapshot`; `at` is None where it is not given, `pin` and `release` are names of pins, `together`
    patterns of tables that must be complete."""

    at: int | None
    pin: str | None
    release: str | None
    lists: bool
    reader: str | None
    as_json: bool
    together: tuple[str, ...] = ()


def snapshot(config: Config, changefeed: Changefeed, options: SnapshotOptions) -> int:
    """Show, pin, list or release. Returns the exit code.

    Raises ConfigError where the options do not go together.
    """
    if sum((options.at is not None, options.lists, options.release is not None)) != 1 or (
        options.pin and options.at is None
    ):
        found = "none or several of them" if options.at is None else "another option with it"
        advice = "Give --at TSO, with --pin NAME to keep it; or --list; or --release NAME."
        raise ConfigError("snapshot", "one of --at, --list and --release", found, advice)
    if options.together and options.at is None:
        raise ConfigError("--table", "--at TSO with it", "none", "Add --at TSO, or leave --table out.")
    if options.reader and options.at is None:
        raise ConfigError("--reader", "--at TSO with it", "none", "Add --at TSO, or leave --reader out.")
    terminal, lake = Terminal(), Lake(read_only_config(config), changefeed)
    if options.pin is None and options.release is None and not options.lists:
        return _show(terminal, lake, options)
    if options.lists:
        return list_pins(terminal, lake, options.as_json)
    # Maintenance and Spark take longer to import than a record takes to read.
    from ticdc_assets.commands.read import pins

    if options.release is not None:
        return pins.release_pin(terminal, lake, config, options.release, options.as_json)
    pins.make_pin(terminal, lake, config, options.pin or "", options.at or 0, options.together)
    return _show(terminal, lake, options)


def _show(terminal: Terminal, lake: Lake, options: SnapshotOptions) -> int:
    found = recorded_snapshot(lake, options.at or 0, options.together)
    for table in found["held"] if not options.as_json else ():
        terminal.note(f"{table['schema']}.{table['table']} is held, and not of this TSO: {table['note'] or 'behind'}")
    if options.pin:
        found = {"pin": options.pin, **found}
    if options.reader:
        terminal.lines(snippet(options.reader, lake.config.catalog.name, found["tables"]))
        return 0
    if options.as_json:
        terminal.json(found)
        return 0
    terminal.result(f"recorded at {moment(found['tso'])}")
    for table in found["tables"]:
        mirror = ".".join(table["mirror"] or ("no mirror",))
        place = f"{mirror} at snapshot {table['snapshot_id']}"
        missing = without([Lack(**lack) for lack in table["leaves_out"]])
        terminal.result(f"{table['schema']}.{table['table']}: {place}{missing}")
    return 0


def _spark(catalog: str, snapshots: Mapping[tuple[str, ...], int]) -> str:
    lines = [
        f"    {name!r}: spark.sql({_select(catalog, name, snapshot_id)!r})," for name, snapshot_id in snapshots.items()
    ]
    return "\n".join(("tables = {", *lines, "}"))


def _select(catalog: str, name: tuple[str, ...], snapshot_id: int) -> str:
    return f"SELECT * FROM {quote_path((catalog, *name))} VERSION AS OF {snapshot_id}"  # noqa: S608


def _filled(template: str) -> Callable[[str, Mapping[tuple[str, ...], int]], str]:
    def fill(catalog: str, snapshots: Mapping[tuple[str, ...], int]) -> str:
        lines = "".join(f"    {name!r}: {snapshot_id},\n" for name, snapshot_id in snapshots.items())
        return template.format(catalog=catalog, snapshots=f"{{\n{lines}}}")

    return fill


_READERS: Final[Mapping[str, Callable[[str, Mapping[tuple[str, ...], int]], str]]] = {
    "spark": _spark,
    "pyiceberg": _filled(_PYICEBERG),
    "polars": _filled(_POLARS),
    "duckdb": _filled(_DUCKDB),
}


def snippet(reader: str, catalog: str, tables: Iterable[Mapping[str, Any]]) -> str:
    """The code for one of spark, pyiceberg, polars and duckdb. It sets `tables`: by identifier, the mirror's rows.

    `tables` are those of `recorded_snapshot`; `catalog` is the name in pyiceberg's own configuration and in Spark.
    """
    snapshots = {tuple(table["mirror"]): table["snapshot_id"] for table in tables if table["mirror"]}
    return _READERS[reader](catalog, snapshots)
