"""Repairs chosen rows of a live table: those with given keys, or those that match a condition.

A condition is SQL text. TiDB takes it to find keys at the TSO, Spark to find keys of the mirror, so that a row is found
too that only the mirror has, or that matches there alone. TiDB is then asked for each of these keys. Where both read
the text in different ways, other rows are compared; what is repaired is always a row that differs.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.errors import ConfigError, DecodeError, NotYetError
from ticdc_assets.names import column_name, quote_path
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.history.table_sums import key_in
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.pipeline.history.verification import refusal
from ticdc_assets.pipeline.history.verify import TableVerdict, upstream_of
from ticdc_assets.pipeline.reconcile.copy import live_tables
from ticdc_assets.pipeline.reconcile.repair import rebuild_changed_by_others, repair, verification
from ticdc_assets.pipeline.reconcile.resync import ResyncReport
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.schema.model import Kind
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import selected, table_reference, value

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceName
    from ticdc_assets.schema.model import Column, TableSchema
    from ticdc_assets.sources.upstream.key_ranges import Key
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

_TIMES: Final = frozenset({Kind.DATETIME, Kind.TIMESTAMP})


def resync_rows(
    lake: Lake, name: SourceName, where: str | None, lines: Sequence[str], jvm: Callable[[], JvmCatalog]
) -> ResyncReport:
    """Repair the rows that match `where`, or whose keys are in `lines`: JSON values, lists of the key's columns or
    objects. The mirror follows in `mirror.run`.

    Raises:
        ConfigError: the table is not live or has no key, or a condition or a line is not understood.
        NotYetError: the mirror cannot follow its changelog, or TiDB cannot be read.
    """
    upstream, shown, report = upstream_of(lake), ".".join(name), ResyncReport()
    ids = list(live_tables(lake, [name]))
    source_table = lake.history().by_id().get(ids[0]) if ids else None
    if source_table is None:
        advice = "Leave --where and --keys out: a table that is held is copied as a whole."
        raise ConfigError(shown, "a live table", "none of that name", advice)
    rebuilt, errors = rebuild_changed_by_others(lake, jvm, ids)
    followed = run_mirrors(lake, uuid.uuid4().hex, jvm)
    faults = [*errors.values(), *(followed.record.texts(followed.errors).values() if followed else ())]
    record = lake.recorded(lake.control.newest())[source_table.id]
    if faults or not record.mirror:
        raise NotYetError(shown, "a mirror that has its changelog", " ".join(faults) or "none", "Run again.")
    report.rebuilt, tso = list(rebuilt.values()), record.watermark
    table, mirror = version_after(source_table, tso).table, lake.catalog.load_table(tuple(record.mirror))
    if not table.key or refusal(table):
        raise ConfigError(shown, "a table whose rows have a key", refusal(table) or "none", "Resync it as a whole.")
    with UpstreamRows(upstream) as rows:
        keys = {_key(table, line) for line in lines if line.strip()}
        if where is not None:
            keys = {*_matching(rows, name, table, where, tso), *_matching_in(jvm(), mirror, table, where)}
        comparison = verification(lake, source_table, record, tso).compare_keys(list(keys))
        names = tuple(column.name for column in table.ordered_key)
        repaired = repair(lake, [TableVerdict(source_table.id, name, names, tso, comparison)], rows)
    report.tsos[shown], report.compared = tso, len(keys)
    if repaired.errors:
        report.errors[shown] = repaired.errors[source_table.id]
    else:
        report.added[shown] = repaired.added.get(source_table.id, 0)
    report.run_ids += [repaired.run_id] if repaired.added else []
    return report


# -- keys --------------------------------------------------------------------------------------------------------------


def _key(table: TableSchema, line: str) -> Key:
    """The key of a line. A line that is no JSON is the text of the only key column."""
    columns = table.ordered_key
    try:
        found = json.loads(line)
    except ValueError:
        found = line.strip()
    if isinstance(found, Mapping) and "b64" not in found:
        by_name = {fold(str(column)): cell for column, cell in found.items()}
        found = [by_name.get(fold(column.name)) for column in columns]
    cells = found if isinstance(found, list) else [found]
    if len(cells) != len(columns) or any(cell is None for cell in cells):
        listed = ", ".join(column.name for column in columns)
        raise ConfigError("--keys", f"a value for each of {listed}", line.strip(), "Write one key a line.")
    try:
        return tuple(value(column, _cell(column, cell), "") for column, cell in zip(columns, cells, strict=True))
    except DecodeError as error:
        raise ConfigError("--keys", error.expected, error.found, "Write one key a line.") from None


def _cell(column: Column, cell: Any) -> Any:
    """The cell as TiDB spells it: times come in ISO 8601 from `verify --keys`."""
    if isinstance(cell, str) and column.type.kind in _TIMES:
        return cell.replace("T", " ").removesuffix("+00:00")
    return cell


def _matching(rows: UpstreamRows, name: SourceName, table: TableSchema, where: str, tso: int) -> Iterator[Key]:
    columns = table.ordered_key
    listed, condition = ", ".join(map(selected, columns)), where.replace("%", "%%")
    statement = f"SELECT {listed} FROM {table_reference(*name)} WHERE ({condition})"  # noqa: S608
    for answer in rows.answers(statement, [], tso):
        yield key_in(columns, answer)


def _matching_in(jvm: JvmCatalog, mirror: Table, table: TableSchema, where: str) -> Iterable[Key]:
    names = [column_name(column.name) for column in table.ordered_key]
    shown = quote_path((jvm.name, *mirror.name()))
    try:
        found = jvm.spark.table(shown).where(where).select(*(f"`{name}`" for name in names)).toArrow()
    except Exception as error:
        if "ParseException" not in type(error).__name__ and "AnalysisException" not in type(error).__name__:
            raise
        advice = "Write it so that Spark understands it too, or give the keys with --keys."
        raise ConfigError("--where", "a condition that Spark can read as well", "another", advice) from None
    return zip(*(found.column(name).to_pylist() for name in names), strict=True)
