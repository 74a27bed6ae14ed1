"""Repairs rows of mirrors that differ from TiDB: reads them at the TSO of the comparison and adds them to changelogs.

A repair that is killed has added all rows of a table or none. The mirrors follow in `mirror.run`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import NotYetError, TicdcAssetsError
from ticdc_assets.pipeline.history.table_sums import MirrorRows
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.pipeline.history.verification import Reading, TableVerification
from ticdc_assets.pipeline.history.verify import CONNECTIONS, upstream_of
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.pipeline.reconcile.changes import Image, Reconciled, add
from ticdc_assets.pipeline.record import record_changelogs
from ticdc_assets.sources.upstream.sql import image, listed, table_reference, with_keys
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.foreign_writes import foreign_writes
from ticdc_assets.tables.iceberg.stored_rows import StoredTable
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.history.verify import TableVerdict
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import TableSchema
    from ticdc_assets.sources.upstream.key_ranges import Key
    from ticdc_assets.sources.upstream.rows import UpstreamRows
    from ticdc_assets.tables.control.records import TableRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

_KEYS_PER_STATEMENT: Final = 256
_STATEMENTS_PER_CHUNK: Final = 40


@dataclass(slots=True)
class RepairReport:
    """The number of changes that changelogs gained, and the errors, by source table."""

    run_id: str
    added: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def rebuild_changed_by_others(
    lake: Lake, jvm: Callable[[], JvmCatalog], source_tables: Collection[str], on_progress: OnProgress = no_progress
) -> tuple[dict[str, str], dict[str, str]]:
    """Rebuild the mirrors and history tables of these source tables that another writer changed, before they are
    compared: such a mirror may equal TiDB where its changelog does not, and a repair sees only rows of the mirror that
    differ.

    Returns:
        By source table, the names of the rebuilt tables, and the errors of those that could not be rebuilt.
    """
    recorded = lake.recorded(lake.control.newest())
    changed = [recorded[i] for i in source_tables if i in recorded and _is_changed_by_others(lake, recorded[i])]
    names = {table.source_table: f"{table.schema}.{table.table}" for table in changed}
    if not names:
        return {}, {}
    report = rebuild_tables(lake, jvm, RebuildRequest(tuple(names.values())), on_progress)
    return {i: name for i, name in names.items() if i not in report.errors}, report.errors


def _is_changed_by_others(lake: Lake, table: TableRecord) -> bool:
    loaded = (load_or_none(lake.catalog, tuple(name)) for name in (table.mirror, table.history_table) if name)
    return any(foreign_writes(found) for found in loaded if found is not None)


def verification(
    lake: Lake, source_table: SourceTable, record: TableRecord, tso: int, on_progress: OnProgress = no_progress
) -> TableVerification:
    """The comparison of a table's present mirror with TiDB at any TSO at which it has the same columns."""
    mirror = lake.catalog.load_table(tuple(record.mirror or ()))
    snapshot, table = mirror.current_snapshot(), version_after(source_table, tso).table
    if snapshot is None:
        raise NotYetError(".".join(source_table.name), "a mirror with rows", "none", "Run `ticdc-assets run`.")
    reading = Reading(upstream_of(lake), LocalWorkers(CONNECTIONS), CONNECTIONS, on_progress=on_progress)
    rows = StoredTable(mirror.metadata_location, lake.io_properties, snapshot.snapshot_id)
    return TableVerification(reading, source_table.name, table, tso, MirrorRows(rows, table.stored_columns))


def repair(lake: Lake, verdicts: Iterable[TableVerdict], rows: UpstreamRows) -> RepairReport:
    """Add the rows that differ to the changelogs, table by table, and record the changelogs. Of a table with an error
    nothing is published; the others go on."""
    report, changelogs = RepairReport(uuid.uuid4().hex), {}
    source_tables = lake.history().by_id()
    for verdict in verdicts:
        if verdict.comparison is None or verdict.is_equal:
            continue
        i = verdict.source_table
        if not verdict.key:
            report.errors[i] = "it has no key: `ticdc-assets resync` copies it"
            continue
        try:
            changelogs[i], report.added[i] = added(lake, verdict, source_tables[i], rows, report.run_id)
        except TicdcAssetsError as error:
            report.errors[i] = str(error)
    record_changelogs(lake, report.run_id, changelogs)
    return report


def added(
    lake: Lake, verdict: TableVerdict, source_table: SourceTable, rows: UpstreamRows, run_id: str
) -> tuple[Table, int]:
    """Add the rows that differ to the changelog. Returns and raises as `add`, and NotYetError where TiDB cannot be
    read."""
    differences = verdict.comparison.differences if verdict.comparison is not None else []
    gone = [row.key for row in differences if row.kind == "extra"]
    wanted = [row.key for row in differences if row.kind != "extra"]
    table = version_after(source_table, verdict.tso).table
    found = Reconciled(source_table, verdict.tso, _read(rows, verdict.name, table, wanted, verdict.tso), gone)
    return add(lake, found, run_id)


def _read(
    rows: UpstreamRows, name: tuple[str, str], table: TableSchema, keys: Sequence[Key], tso: int
) -> Iterator[list[Image]]:
    """The rows of TiDB with these keys, in chunks."""
    columns, step = table.stored_columns, _KEYS_PER_STATEMENT
    for chunk in range(0, len(keys), step * _STATEMENTS_PER_CHUNK):
        found: list[Image] = []
        for begin in range(chunk, min(chunk + step * _STATEMENTS_PER_CHUNK, len(keys)), step):
            where, parameters = with_keys(table.ordered_key, keys[begin : begin + step])
            statement = f"SELECT {listed(columns)} FROM {table_reference(*name)} WHERE {where}"  # noqa: S608
            found += [image(columns, answer) for answer in rows.answers(statement, parameters, tso)]
        yield found
