"""`ticdc-assets inspect`: what a capture, a bucket or a topic contains, without a config. No JVM and no row values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.output.terminal import Terminal, moment, when
from ticdc_assets.config.reading.secrets import redacted
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_source
from ticdc_assets.sources.inspection.settings import config_lines

if TYPE_CHECKING:
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
