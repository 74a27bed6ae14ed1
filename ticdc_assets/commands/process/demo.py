"""`ticdc-assets demo`: loads the packaged sample in every protocol into a new lake and compares the results."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.assets.known_tables import LOG_FOLDER, MARKER
from ticdc_assets.changes import layout
from ticdc_assets.commands.output.terminal import Terminal, when
from ticdc_assets.commands.process.run import run_all, summary
from ticdc_assets.commands.read.listing import table_rows
from ticdc_assets.config import PACKAGED_SAMPLE, editor_line, load
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.plurals import counted
from ticdc_assets.spark.requirements import require_java
from ticdc_assets.tables.catalog import load_or_none

if TYPE_CHECKING:
    from ticdc_assets.config import Config


HOME: Final = "dagster_home"

_COUNTS: Final = ("changes read", "mirror rows")
_NAMES: Final = ("table", *_COUNTS, "state", "complete up to (UTC)", "as it must be", "carried by")

_DAGSTER_YAML: Final = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""
EXPECTED: Final = "expected.json"
_ADVICE: Final = "Run the demo again; if this happens again, please report it."
OURS: Final = "_ticdc_"
"""The prefix of columns that this project adds."""


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
    results = run_all(terminal, config, chosen, None, environ, folder / LOG_FOLDER / "run.log")
    lines = checked(config, folder, {changefeed.name for changefeed in chosen})
    terminal.columns(_NAMES, [_cells(line) for line in lines], right=_COUNTS)
    for ran in results:
        terminal.result(summary(ran))
    faults = [*(sentence for ran in results for sentence in ran.faults), *(fault for x in lines for fault in x.faults)]
    for sentence in faults:
        terminal.note(sentence)
    for sentence in _agreement(lines, faults):
        terminal.result(sentence)
    for text in _next(folder, chosen[0].name):
        terminal.lines(text)
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
    for name in ("lake", HOME, LOG_FOLDER, *(path.name for path in PACKAGED_SAMPLE.iterdir())):
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


# Checks the result of the packaged sample, table by table, over all changefeeds of a workload.
#
# Changefeeds of one workload must have equal changelogs (operation, commit_ts and values) and equal mirrors. Every
# mirror must also equal the final rows of its source table, given as digests in `expected.json`.


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """One changefeed's result for a table: its changes and its rows as comparable texts."""

    changes: Counter[str]
    rows: Counter[str]
    digest: str
    state: str
    watermark: int


@dataclass(frozen=True, slots=True)
class Line:
    """One source table over the changefeeds of its workload; `faults` names the differences."""

    table: str
    changefeeds: tuple[str, ...]
    changes: int
    rows: int
    states: tuple[str, ...]
    watermark: int
    faults: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether the table is correct in every changefeed."""
        return not self.faults


def checked(config: Config, sample: Path, names: Collection[str]) -> list[Line]:
    """Every table of each workload of the named changefeeds, in the order of the sample."""
    lakes = {changefeed.name: Lake(config, changefeed) for changefeed in config.changefeeds if changefeed.name in names}
    listed = {
        name: {f"{row['schema']}.{row['table']}": row for row in table_rows(lake)} for name, lake in lakes.items()
    }
    lines = []
    for workload in json.loads((sample / EXPECTED).read_text()):
        feeds = [name for name in workload["changefeeds"] if name in lakes]
        if not feeds:
            continue
        wanted: dict[str, dict[str, Any]] = workload["tables"]
        tables = dict.fromkeys([*wanted, *sorted(table for name in feeds for table in listed[name])])
        for table in tables:
            outcomes = {name: _outcome(lakes[name], listed[name].get(table)) for name in feeds}
            lines.append(line(table, outcomes, wanted.get(table)))
    return lines


def _outcome(lake: Lake, row: Mapping[str, Any] | None) -> SampleOutcome | None:
    if row is None:
        return None
    changes, rows = (_content(lake, row[kind]) for kind in ("changelog", "mirror"))
    return SampleOutcome(
        changes=texts(changes, (layout.OP, layout.COMMIT_TS)),
        rows=texts(rows),
        digest=digest(rows),
        state=row["state"],
        watermark=row["watermark"] or row["messages_read"] or 0,
    )


def _content(lake: Lake, identifier: Sequence[str] | None) -> list[dict[str, Any]]:
    """All rows of a table; the sample is small."""
    table = load_or_none(lake.catalog, tuple(identifier)) if identifier else None
    return [] if table is None else table.scan().to_arrow().to_pylist()


def line(table: str, found: Mapping[str, SampleOutcome | None], wanted: Mapping[str, Any] | None) -> Line:
    """The result of one table. `wanted` has the number of its rows and their digest; None for an unexpected table."""
    outcomes = {name: outcome for name, outcome in found.items() if outcome is not None}
    first = next(iter(outcomes.values()), None)
    return Line(
        table=table,
        changefeeds=tuple(found),
        changes=first.changes.total() if first else 0,
        rows=first.rows.total() if first else 0,
        states=tuple(dict.fromkeys(outcome.state for outcome in outcomes.values())),
        watermark=min((outcome.watermark for outcome in outcomes.values()), default=0),
        faults=tuple(_faults(table, found, wanted)),
    )


def _faults(table: str, found: Mapping[str, SampleOutcome | None], wanted: Mapping[str, Any] | None) -> Iterator[str]:
    reference = next((name for name, outcome in found.items() if outcome is not None), None)
    for name, outcome in found.items():
        if outcome is None or wanted is None:
            yield _fault(table, name, "a table" if wanted else "no such table", "none" if wanted else "one")
            continue
        first = found[reference] if reference else None
        assert first is not None
        changes = differing_rows(outcome.changes, first.changes)
        if changes:
            yield _fault(
                table, name, f"the {counted(first.changes.total(), 'change')} of {reference}", f"{changes:,} others"
            )
        if outcome.digest != wanted["sha256"]:
            yield _fault(table, name, f"the {counted(wanted['rows'], 'row')} of its source", _rows(outcome, wanted))


def _rows(outcome: SampleOutcome, wanted: Mapping[str, Any]) -> str:
    count = outcome.rows.total()
    return counted(count, "row") + ("" if count != wanted["rows"] else " with other values")


def _fault(table: str, changefeed: str, expected: str, found: str) -> str:
    return f"{table}, {changefeed}: expected {expected}, found {found}. {_ADVICE}"


def texts(rows: Iterable[Mapping[str, Any]], kept: Iterable[str] = ()) -> Counter[str]:
    """Each row as one text, independent of column order: the source's columns, and those in `kept`."""
    wanted = frozenset(kept)
    return Counter(
        repr(sorted((n, _text(v)) for n, v in row.items() if n in wanted or not n.startswith(OURS))) for row in rows
    )


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """One digest of all rows, independent of their order."""
    whole = hashlib.sha256()
    for text, count in sorted(texts(rows).items()):
        whole.update(f"{count}:{text}\n".encode())
    return whole.hexdigest()


def differing_rows(found: Counter[str], wanted: Counter[str]) -> int:
    """How many rows are in one collection and not in the other."""
    return (found - wanted).total() + (wanted - found).total()


def _text(cell: Any) -> str:
    if isinstance(cell, datetime):
        moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        return f"{moment.isoformat(' ', 'microseconds')}{'Z' if cell.tzinfo else ''}"
    if isinstance(cell, list | tuple):
        return "[" + ", ".join(_text(item) for item in cell) + "]"
    if isinstance(cell, Decimal) and cell.as_tuple().exponent == 0:
        return repr(int(cell))  # unsigned BIGINT is an int or a Decimal, depending on the protocol
    return repr(cell)
