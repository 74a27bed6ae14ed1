"""`ticdc-assets verify`: every mirror against the upstream TiDB at a recorded TSO. Needs no JVM without a cluster."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.jvm import spark_stopped_after
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.commands.read.diff import plain_value
from ticdc_assets.pipeline.history.extent import Extent
from ticdc_assets.pipeline.history.verify import WHOLE, TableVerdict, extent_text, verify
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

KINDS: Final = {
    "missing": "missing in the mirror",
    "extra": "only in the mirror",
    "different": "with other values",
}


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of `verify`; `at` is None for the newest record. With `keys` the keys of rows are printed."""

    at: int | None
    tables: tuple[str, ...]
    chunk_rows: int
    keys: bool
    as_json: bool
    extent: Extent = WHOLE


def verify_mirrors(config: Config, changefeed: Changefeed, options: VerifyOptions) -> int:
    """Print the verdict of each table. Returns the exit code: 1 if a table differs or could not be compared."""
    terminal = Terminal()
    with spark_stopped_after(config):
        found = compared(terminal, Lake(read_only_config(config), changefeed), options)
    if options.as_json:
        terminal.json([as_object(verdict, options.keys) for verdict in found])
    return 0 if all(verdict.is_equal for verdict in found) else 1


def compared(terminal: Terminal, lake: Lake, options: VerifyOptions) -> list[TableVerdict]:
    """The verdict of each table, which is printed unless the output is JSON."""
    found, name = [], lake.changefeed.name
    on_progress = named(name, terminal.on_progress)
    verdicts = verify(lake, options.at, options.tables, options.chunk_rows, on_progress, extent=options.extent)
    for verdict in terminal.waiting(f"{name}: reading the record", verdicts):
        found.append(verdict)
        if not options.as_json:
            _print(terminal, verdict, options.keys)
    return found


def as_object(verdict: TableVerdict, with_keys: bool) -> dict[str, Any]:
    """The verdict as JSON values: names and counts, and with `with_keys` the key of each row that differs."""
    comparison = verdict.comparison
    differences = comparison.differences if comparison else []
    kinds = Counter(row.kind for row in differences)
    return {
        "schema": verdict.name[0],
        "table": verdict.name[1],
        "tso": verdict.tso,
        "equal": verdict.is_equal if comparison else None,
        "reason": verdict.reason,
        "mirror_rows": comparison.mirror_rows if comparison else None,
        "upstream_rows": comparison.upstream_rows if comparison else None,
        "statements": comparison.statements if comparison else 0,
        "extent": verdict.row.extent if verdict.row else None,
        "compared_ranges": verdict.row.compared_ranges if verdict.row else None,
        **{kind: kinds[kind] for kind in KINDS},
        "key": list(verdict.key),
        "columns": sorted({name for row in differences for name in row.columns}),
        "rows": [{"kind": row.kind, "key": json.loads(_key_text(row.key)), "columns": row.columns}
                 for row in differences] if with_keys else None,
    }  # fmt: skip


def _print(terminal: Terminal, verdict: TableVerdict, with_keys: bool) -> None:
    name, comparison = ".".join(verdict.name), verdict.comparison
    if comparison is None:
        terminal.result(f"{name}: not compared: {verdict.reason.rstrip('.')}.")
        return
    if verdict.unkept:
        terminal.note(f"{name}: the control table `verified` does not have this comparison: {verdict.unkept}")
    if verdict.is_equal:
        extent = extent_text(verdict)
        terminal.result(f"{name}: equal at {moment(verdict.tso)}: {counted(comparison.mirror_rows, 'row')}{extent}")
        return
    kinds = Counter(row.kind for row in comparison.differences)
    listed = ", ".join(f"{counted(kinds[kind], 'row')} {text}" for kind, text in KINDS.items() if kinds[kind])
    columns = sorted({column for row in comparison.differences for column in row.columns})
    of = f", in the columns {', '.join(columns)}" if columns else ""
    rows = f"{comparison.mirror_rows:,} in the mirror, {comparison.upstream_rows:,} in TiDB"
    terminal.result(f"{name}: differs at {moment(verdict.tso)}: {listed}{of}; {rows}; key: {', '.join(verdict.key)}")
    for row in comparison.differences if with_keys else ():
        terminal.result(f"  {KINDS[row.kind]}: {_key_text(row.key)} {' '.join(row.columns)}".rstrip())


def _key_text(key: tuple[Any, ...]) -> str:
    return json.dumps(list(key), ensure_ascii=False, default=plain_value)
