"""`ticdc-assets demo`: the packaged sample changefeeds into a fresh lake of their own, and whether they agree."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from ticdc_assets.assets.known_tables import MARKER, STATE_FOLDER
from ticdc_assets.commands.listing import table_rows
from ticdc_assets.commands.moments import when
from ticdc_assets.commands.run import run_all, summary
from ticdc_assets.commands.terminal import Terminal
from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.spark import require_java
from ticdc_assets.tables.catalog import load_or_none

if TYPE_CHECKING:
    from ticdc_assets.commands.through_dagster import Ran
    from ticdc_assets.config import Changefeed, Config

SAMPLE: Final = Path(__file__).parents[1] / "sample"
HOME: Final = "dagster_home"
_OURS: Final = ("lake", HOME, STATE_FOLDER, "csv", "canal_json", "changefeeds.yaml", "README.md")


def demo(folder: Path, environ: Mapping[str, str]) -> int:
    """The exit code: 0 where every table came out, equal from both changefeeds. Raises MachineError without Java."""
    require_java(environ)
    terminal = Terminal()
    folder = folder.expanduser().absolute()
    prepare(folder)
    environ = {**environ, "DAGSTER_HOME": str(folder / HOME)}
    config = load(folder / "changefeeds.yaml", environ)
    terminal.note(f"A fresh lake in {folder / 'lake'}; both changefeeds carry the same workload.")
    results = run_all(terminal, config, config.changefeeds, None, environ, folder / STATE_FOLDER / "run.log")
    lines = compared(config)
    terminal.out.print(_as_table(config.changefeeds, lines, _changes(results)))
    for ran in results:
        terminal.tell(summary(ran))
    faults = [*(sentence for ran in results for sentence in ran.faults), *(d for line in lines for d in line.faults)]
    for sentence in faults:
        terminal.note(sentence)
    terminal.tell(_agreement(lines, faults))
    terminal.tell("\nLook at the assets, their checks and charts:\n  " + _dagster_dev(folder))
    terminal.tell(f"List the tables:\n  ticdc-assets tables --config {folder / 'changefeeds.yaml'}")
    return 1 if faults else 0


def prepare(folder: Path) -> None:
    """A demo folder with the sample in it and nothing else. Clears an older demo; any other folder is left alone."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        todo = "Name a new folder with --dir."
        raise ConfigError(str(folder), "a new folder, or one that an earlier demo made", "other files in it", todo)
    for name in _OURS:
        _remove(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text("Made by `ticdc-assets demo`, which clears it when it runs again.\n")
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    home = folder / HOME
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\nnux:\n  enabled: false\n")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- do they agree -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One source table in all changefeeds: its rows in each, and whether they hold the same."""

    table: str
    rows: Mapping[str, int | None]
    states: tuple[str, ...]
    watermark: int
    same: bool

    @property
    def faults(self) -> tuple[str, ...]:
        if self.same:
            return ()
        return (f"{self.table}: expected equal rows from all changefeeds, found different ones. Run the demo again.",)


def compared(config: Config) -> list[Line]:
    """Every table that any changefeed has, compared row by row."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    lakes = {changefeed.name: Lake(config, changefeed) for changefeed in config.changefeeds}
    for name, lake in lakes.items():
        for row in table_rows(lake):
            found.setdefault(f"{row['schema']}.{row['table']}", {})[name] = row
    return [_line(table, by_feed, lakes) for table, by_feed in sorted(found.items())]


def _line(table: str, by_feed: Mapping[str, dict[str, Any]], lakes: Mapping[str, Lake]) -> Line:
    contents = [_content(lakes[name], by_feed[name]["mirror"]) if name in by_feed else None for name in lakes]
    return Line(
        table=table,
        rows={name: by_feed[name]["rows"] if name in by_feed else None for name in lakes},
        states=tuple(dict.fromkeys(row["state"] for row in by_feed.values())),
        watermark=min(row["watermark"] for row in by_feed.values()),
        same=contents[0] is not None and all(content == contents[0] for content in contents),
    )


def _content(lake: Lake, mirror: Sequence[str] | None) -> list[str] | None:
    """A mirror's rows in an order of their own; the sample is small."""
    table = load_or_none(lake.catalog, tuple(mirror)) if mirror else None
    return None if table is None else sorted(repr(sorted(row.items())) for row in table.scan().to_arrow().to_pylist())


# -- in words ----------------------------------------------------------------------------------------------------------


def _changes(results: Sequence[Ran]) -> dict[str, int]:
    return {table: sum(counts.values()) for ran in results for table, counts in ran.changes.items()}


def _as_table(changefeeds: Sequence[Changefeed], lines: Sequence[Line], changes: Mapping[str, int]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("table", overflow="fold")
    for name in ("changes read", *(f"rows, {changefeed.name}" for changefeed in changefeeds)):
        table.add_column(name, justify="right")
    for name in ("same rows", "state", "complete up to (UTC)"):
        table.add_column(name)
    for line in lines:
        rows = ["" if count is None else str(count) for count in line.rows.values()]
        read = str(changes.get(line.table, 0))
        table.add_row(
            line.table, read, *rows, "yes" if line.same else "NO", ", ".join(line.states), when(line.watermark)
        )
    return table


def _agreement(lines: Sequence[Line], faults: Sequence[str]) -> str:
    if faults:
        return "The changefeeds do not agree, or not everything came out."
    return f"Both changefeeds agree: {len(lines)} tables, every row equal."


def _dagster_dev(folder: Path) -> str:
    return (
        f"DAGSTER_HOME={folder / HOME} TICDC_ASSETS_CONFIG={folder / 'changefeeds.yaml'} "
        "dagster dev -m ticdc_assets.definitions"
    )
