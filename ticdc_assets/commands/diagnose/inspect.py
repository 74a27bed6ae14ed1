"""`ticdc-assets inspect`: what a capture, a bucket or a topic contains, without a config; of a config, what its
changefeeds lack. No JVM and no row values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.output.terminal import Terminal, moment, when
from ticdc_assets.config import CaptureSource, KafkaSource, MessagesSource, StorageSource, load
from ticdc_assets.config.reading.secrets import redacted
from ticdc_assets.errors import ConfigError, TicdcAssetsError
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_kafka, inspect_source
from ticdc_assets.sources.inspection.comparison import Difference, option_differences
from ticdc_assets.sources.inspection.settings import config_lines
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed
    from ticdc_assets.sources.inspection.report import PartitionSeen, TableSeen


LISTED_MAX: Final = 60
"""Tables or partitions listed on a terminal; --json lists all."""

_PROTOCOLS: Final = {"csv": "CSV"} | {protocol.name: protocol.title for protocol in REGISTRY.values()}


def inspect(place: str, everything: bool, as_json: bool) -> int:
    """Returns the exit code: 1 if the stream has a fault."""
    terminal = Terminal()
    bounds = Bounds(None, None) if everything else Bounds()
    with terminal.working(f"looking into {redacted(place)}"):
        found = inspect_source(place, bounds, terminal.on_progress)
    if as_json:
        terminal.json(as_object(found))
    else:
        _print(terminal, found)
    return 1 if found.problems else 0


def as_object(found: Inspection) -> dict[str, Any]:
    """The whole inspection as JSON values."""
    return {
        "place": found.place,
        "kind": found.kind,
        "protocol": found.protocol,
        "options": found.detected.options,
        "files": found.read.files,
        "files_read": found.read.files_read,
        "messages": found.read.messages,
        "whole": found.read.whole,
        "rows": _counts(found.counts),
        "statements": found.events.statements,
        "schemas": found.events.schemas,
        "watermarks": found.events.watermarks,
        "watermark": found.events.watermark,
        "tables": [_table(table) for table in _tables(found)],
        "partitions": [_partition(partition) for _, partition in sorted(found.partitions.items())],
        "problems": [
            {"where": p.where, "expected": p.expected, "found": p.found, "todo": p.advice, "count": p.count}
            for p in found.problems.values()
        ],
        "notes": found.notes,
        "config": config_lines(found),
    }


def _counts(counts: Any) -> dict[str, int]:
    return {
        "insert": counts.inserts,
        "update": counts.updates,
        "delete": counts.deletes,
        "insert_or_update": counts.upserts,
    }


def _table(table: TableSeen) -> dict[str, Any]:
    return {
        "schema": table.schema,
        "table": table.table,
        **_counts(table.counts),
        "statements": table.statements,
        "schemas": table.schemas,
        "first_ts": table.first_ts,
        "last_ts": table.last_ts,
    }


def _partition(seen: PartitionSeen) -> dict[str, Any]:
    return {
        "topic": seen.topic,
        "partition": seen.partition,
        "messages": seen.messages,
        "first_offset": seen.first_offset,
        "last_offset": seen.last_offset,
        "missing": seen.missing,
        "repeats": seen.repeats,
        "watermark": seen.watermark,
    }


def _tables(found: Inspection) -> list[TableSeen]:
    return [table for _, table in sorted(found.tables.items())]


# -- on a terminal -----------------------------------------------------------------------------------------------------


def _print(terminal: Terminal, found: Inspection) -> None:
    for number, line in enumerate(headlines(found)):
        terminal.result(line, "bold" if not number else None)
    if found.tables:
        terminal.result("")
        _print_tables(terminal, found)
    if found.partitions:
        terminal.result("")
        _print_partitions(terminal, found)
    if found.notes:
        terminal.lines("\nGood to know:")
        for sentence in found.notes:
            terminal.result(f"- {sentence}")
    verdict, style = ("Faults:", "bold red") if found.problems else ("No fault was found.", "bold green")
    terminal.result("")
    terminal.result(verdict, style)
    for problem in found.problems.values():
        terminal.result(f"- {problem.sentence}")
    terminal.lines("\nIn changefeeds.yaml (where TiCDC's own configuration differs, use that):\n")
    terminal.lines(config_lines(found).rstrip())


def headlines(found: Inspection) -> Iterator[str]:
    """Lines on the kind, the amount of data and the progress of the source."""
    yield f"{found.place}: {_name(found)}."
    seen = [f"{name} {_shown(value)}" for name, value in found.detected.options.items()]
    if seen:
        yield f"options:  {', '.join(seen)}"
    yield f"rows:     {_sum(found)}"
    schemas = f", {counted(found.events.schemas, 'schema')}" if found.events.schemas else ""
    yield f"schemas:  {counted(found.events.statements, 'statement')}{schemas}"
    yield f"complete: {_complete(found)}"


def _name(found: Inspection) -> str:
    name = _PROTOCOLS[found.protocol]
    if found.kind == "storage":
        return f"a storage sink's folder, {name}, {counted(found.read.files, 'data file')}"
    topics = len({topic for topic, _ in found.partitions})
    partitions = counted(len(found.partitions), "partition")
    return f"{name}, {counted(found.read.messages, 'message')} of {counted(topics, 'topic')} and {partitions}"


def _sum(found: Inspection) -> str:
    counts = found.counts
    kinds = {
        "inserts": counts.inserts,
        "updates": counts.updates,
        "deletes": counts.deletes,
        "inserts or updates (the stream does not show which)": counts.upserts,
    }
    by_kind = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    partly = "" if found.read.whole else ", counted in part"
    return f"{counts.rows:,}{f' ({by_kind})' if by_kind else ''} of {counted(len(found.tables), 'table')}{partly}"


def _complete(found: Inspection) -> str:
    if found.events.watermark is not None:
        return f"up to {moment(found.events.watermark)}"
    if found.kind == "storage":
        return "unknown, the checkpoint is missing"
    return "the stream has no watermarks; progress is by arrival" if not found.events.watermarks else "not known yet"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)


def _print_tables(terminal: Terminal, found: Inspection) -> None:
    upserts = bool(found.counts.upserts)
    numbers = ("rows", "inserts", "updates", "deletes", *(("either",) if upserts else ()), "statements")
    rows = [_cells_of_table(table, upserts) for table in _tables(found)]
    _print_listed(terminal, ("table", *numbers, "first (UTC)", "last (UTC)"), rows, numbers)


def _cells_of_table(table: TableSeen, upserts: bool) -> tuple[str, ...]:
    counts = table.counts
    numbers = (counts.rows, counts.inserts, counts.updates, counts.deletes, *((counts.upserts,) if upserts else ()))
    name = ".".join(part for part in (table.schema, table.table) if part)
    shown = (f"{number:,}" for number in (*numbers, table.statements))
    return (name, *shown, when(table.first_ts or 0), when(table.last_ts or 0))


def _print_partitions(terminal: Terminal, found: Inspection) -> None:
    numbers = ("partition", "messages", "offsets", "missing")
    rows = [_cells_of_partition(partition) for _, partition in sorted(found.partitions.items())]
    _print_listed(terminal, ("topic", *numbers, "complete up to (UTC)"), rows, numbers)


def _cells_of_partition(seen: PartitionSeen) -> tuple[str, ...]:
    offsets = f"{seen.first_offset} - {seen.last_offset}" if seen.messages else ""
    numbers = (str(seen.partition), f"{seen.messages:,}", offsets, f"{seen.missing:,}")
    return (seen.topic, *numbers, when(seen.watermark or 0))


def _print_listed(
    terminal: Terminal, names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]
) -> None:
    terminal.columns(names, rows[:LISTED_MAX], right)
    if len(rows) > LISTED_MAX:
        terminal.result(f"... {len(rows) - LISTED_MAX:,} more; --json lists all")


# -- a config compared with its sources --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one changefeed. `problem`: its source could not be read."""

    changefeed: str
    missing: Sequence[Difference] = ()
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_well(self) -> bool:
        return not (self.missing or self.faults or self.problem)

    def as_object(self) -> dict[str, Any]:
        """The whole comparison as JSON values."""
        missing = [
            {"option": d.option, "path": d.path, "seen": d.seen, "configured": d.configured} for d in self.missing
        ]
        return {
            "changefeed": self.changefeed,
            "missing": missing,
            "warnings": list(self.warnings),
            "problems": [*self.faults, *filter(None, [self.problem])],
        }


def is_config(place: str) -> bool:
    """Whether this is the path of a config file and not a source."""
    return "://" not in place and Path(place).suffix in (".yaml", ".yml")


def inspect_config(place: str, everything: bool, as_json: bool) -> int:
    """Returns the exit code: 1 where a config lacks something or a source has faults."""
    terminal, bounds = Terminal(), Bounds(None, None) if everything else Bounds()
    compared = []
    for changefeed in load(Path(place), os.environ, "Check the path.").changefeeds:
        with terminal.working(f"looking into the source of {changefeed.name}"):
            compared.append(compared_with_source(changefeed, bounds, terminal.on_progress))
    if as_json:
        terminal.json([one.as_object() for one in compared])
    else:
        for one in compared:
            print_comparison(terminal, one)
    return 0 if all(one.is_well for one in compared) else 1


def compared_with_source(changefeed: Changefeed, bounds: Bounds, on_progress: OnProgress) -> Compared:
    """Read a bounded part of the changefeed's source. A source that cannot be read is the `problem` of the result."""
    try:
        found = _inspected(changefeed, bounds, on_progress)
    except TicdcAssetsError as error:
        return Compared(changefeed.name, warnings=changefeed.warnings, problem=str(error))
    faults = tuple(problem.sentence for problem in found.problems.values())
    return Compared(changefeed.name, option_differences(found, changefeed.sink), changefeed.warnings, faults)


def _inspected(changefeed: Changefeed, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    match changefeed.source:
        case StorageSource(storage):
            return inspect_source(storage.uri, bounds, on_progress)
        case CaptureSource(path):
            return inspect_source(str(path), bounds, on_progress)
        case MessagesSource(other):
            found, advice = f"the messages that {other} has landed", f"Inspect {other}."
            raise ConfigError(f"changefeed {changefeed.name}", "a bucket, a capture or topics", found, advice)
        case KafkaSource():
            return inspect_kafka(changefeed.source, changefeed.schemas.registry, bounds, on_progress)


def print_comparison(terminal: Terminal, one: Compared) -> None:
    """Print what to correct, and the warnings."""
    sentences = [*(d.sentence for d in one.missing), *one.faults, *filter(None, [one.problem])]
    if one.is_well:
        verdict = "its configuration has what its source shows."
    else:
        verdict = f"{counted(len(sentences), 'thing')} to correct:"
    terminal.result(f"{one.changefeed}: {verdict}")
    for sentence in sentences:
        terminal.result(f"- {sentence}")
    for sentence in one.warnings:
        terminal.note(f"{one.changefeed}: {sentence}")
