"""`ticdc-assets demo`: loads the packaged sample in every protocol into a new lake and compares the results."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ticdc_assets.assets.known_tables import MARKER, STATE_FOLDER
from ticdc_assets.commands.demo.sample_check import Line, checked
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.commands.output.tso_text import when
from ticdc_assets.commands.process.run import run_all, summary
from ticdc_assets.config import PACKAGED_SAMPLE, editor_line, load
from ticdc_assets.errors import ConfigError
from ticdc_assets.plurals import counted
from ticdc_assets.spark.requirements import require_java

HOME: Final = "dagster_home"
_OLDER: Final = ("csv",)
"""Files of demos of earlier versions."""

_COUNTS: Final = ("changes read", "mirror rows")
_NAMES: Final = ("table", *_COUNTS, "state", "complete up to (UTC)", "as it must be", "carried by")

_DAGSTER_YAML: Final = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""


def demo(folder: Path, names: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the demo for the changefeeds in `names`; for all if it is empty.

    Returns:
        The exit code: 0 if every table is complete and equal in every protocol.

    Raises:
        MachineError: Java is missing.
        ConfigError: the sample has no changefeed of such a name.
    """
    shown = [load(PACKAGED_SAMPLE / "changefeeds.yaml", environ).changefeed(name).name for name in names]
    require_java(environ)
    terminal = Terminal()
    folder = folder.expanduser().absolute()
    _prepare_or_refuse(folder)
    environ = {**environ, "DAGSTER_HOME": str(folder / HOME)}
    config = load(folder / "changefeeds.yaml", environ)
    chosen = [changefeed for changefeed in config.changefeeds if not shown or changefeed.name in shown]
    terminal.note(f"A new lake in {folder / 'lake'}; {counted(len(chosen), 'changefeed')}, one for each protocol.")
    results = run_all(terminal, config, chosen, None, environ, folder / STATE_FOLDER / "run.log")
    lines = checked(config, folder, {changefeed.name for changefeed in chosen})
    terminal.columns(_NAMES, [_cells(line) for line in lines], right=_COUNTS)
    for ran in results:
        terminal.result(summary(ran))
    faults = [*(sentence for ran in results for sentence in ran.faults), *(fault for x in lines for fault in x.faults)]
    for sentence in faults:
        terminal.note(sentence)
    for sentence in _agreement(lines, faults):
        terminal.result(sentence)
    for sentence in _next(folder, chosen[0].name):
        terminal.result(sentence)
    return 1 if faults else 0


def prepare(folder: Path) -> None:
    """Make a demo folder with only the sample in it. An older demo is deleted.

    Raises:
        ConfigError: the folder is of something else, or its config was edited.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(str(folder), "a folder", "a file", "Name a new folder with --dir.")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        advice = "Name a new folder with --dir."
        raise ConfigError(str(folder), "a new folder, or one that an earlier demo made", "other files in it", advice)
    config = folder / "changefeeds.yaml"
    if _was_edited(folder / MARKER, config):
        advice = "Name a new folder with --dir, or move the file away."
        raise ConfigError(
            str(config), "the file as the demo wrote it, which a new demo replaces", "an edited one", advice
        )
    for name in ("lake", HOME, STATE_FOLDER, *_OLDER, *(path.name for path in PACKAGED_SAMPLE.iterdir())):
        _remove(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(PACKAGED_SAMPLE, folder, dirs_exist_ok=True)
    config.write_text(editor_line(folder) + config.read_text(encoding="utf-8"), encoding="utf-8")
    made = "Made by `ticdc-assets demo`, which clears it when it runs again."
    (folder / MARKER).write_text(f"{made}\n{_digest(config)}\n")
    home = folder / HOME
    home.mkdir()
    (home / "dagster.yaml").write_text(_DAGSTER_YAML)


def _was_edited(marker: Path, config: Path) -> bool:
    """Whether the demo that wrote the marker wrote another config."""
    return marker.is_file() and config.is_file() and _digest(config) not in marker.read_text(encoding="utf-8")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _prepare_or_refuse(folder: Path) -> None:
    """Prepare the folder. Raises ConfigError where this user cannot write it."""
    try:
        prepare(folder)
    except OSError as error:
        found = error.strerror or type(error).__name__
        advice = "Name another folder with --dir."
        raise ConfigError(str(folder), "a folder that this process's user can write", found, advice) from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- in words ----------------------------------------------------------------------------------------------------------


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.table,
        f"{line.changes:,}",
        f"{line.rows:,}",
        ", ".join(line.states),
        when(line.watermark),
        "yes" if line.agrees else "NO",
        line.changefeeds[0] if len(line.changefeeds) == 1 else f"{len(line.changefeeds)} changefeeds",
    )


def _agreement(lines: Sequence[Line], faults: Sequence[str]) -> list[str]:
    """Which changefeeds were compared with each other: the sample has several workloads."""
    if faults:
        return ["The results of the protocols differ, or are not complete."]
    shared = [line for line in lines if len(line.changefeeds) > 1]
    single = [line for line in lines if len(line.changefeeds) == 1]
    feeds = list(dict.fromkeys(name for line in shared for name in line.changefeeds))
    sentences = []
    if feeds:
        sentences.append(
            f"All agree: {', '.join(feeds)} carry one workload, and every change and every row of its {len(shared)} "
            "tables is equal in all of them, and equal to the source's."
        )
    alone = list(dict.fromkeys(name for line in single for name in line.changefeeds))
    if alone:
        carry = "carry separate workloads" if feeds or len(alone) > 1 else "is shown alone"
        sentences.append(f"{' and '.join(alone)} {carry}: every row is equal to the source's.")
    return sentences


def _next(folder: Path, changefeed: str) -> list[str]:
    """What a reader can open next: two commands, and what the first one shows."""
    return [
        "\nOpen Dagster, and in it http://127.0.0.1:3000/asset-groups:\n  " + _dagster_dev(folder),
        f"  The group `{changefeed}` is the graph from the source to the mirrors. Each mirror has its columns, a chart "
        "of its rows and its checks; `watermarks` has the TSO up to which all tables are complete.",
        f"List the tables:\n  {called('ticdc-assets')} tables --config {folder / 'changefeeds.yaml'}",
    ]


def _dagster_dev(folder: Path) -> str:
    return (
        f"DAGSTER_HOME={folder / HOME} TICDC_ASSETS_CONFIG={folder / 'changefeeds.yaml'} "
        f"{called('dagster')} dev -m ticdc_assets.definitions"
    )


def called(name: str) -> str:
    """How to call a command of this environment: its name if the shell finds it there, else its path."""
    installed = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    return name if not installed.exists() or (found and Path(found).parent == installed.parent) else str(installed)
