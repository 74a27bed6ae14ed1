"""Writes the rows that an EXCHANGE PARTITION moves into the changelogs of both tables, as D and I at its commit_ts.

A mirror stops at the statement until its changelog has these changes. The first table's changes are read from both
mirrors as of the statement. The second table's changes are read from the first changelog, so a run may end between the
two. Each commit is fenced and records the statement, so no change is written twice.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ticdc_assets.errors import SchemaError
from ticdc_assets.faults import of_one_table
from ticdc_assets.names import quote, quote_path
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.mirror.exchange_worker import ANSWER, MovedRows, write_moved
from ticdc_assets.pipeline.mirror.pending import mirror_of
from ticdc_assets.pipeline.mirror.segments import segments
from ticdc_assets.schema.evolution.schema_state import ExchangedRows
from ticdc_assets.tables import changelog
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.properties import VERSION
from ticdc_assets.tables.iceberg.written_file import WrittenFile
from ticdc_assets.tables.mirror import exchanged_rows as exchange_sql
from ticdc_assets.tables.mirror.branch import snapshot_id
from ticdc_assets.tables.mirror.exchanged_rows import exchange_in, exchanges_of, with_exchange
from ticdc_assets.tables.mirror.partition_conditions import doubt_condition, rows_condition
from ticdc_assets.tables.mirror.sql import any_row
from ticdc_assets.tables.progress import Progress, field_ids_by_uid, progress_of, source_table_of
from ticdc_assets.tables.replayed import unfollowed

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.schema.history.source_table import History, SourceTable, Version
    from ticdc_assets.tables.control.records import TableRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


@dataclass(frozen=True, slots=True)
class Exchange:
    """One statement: its TSO, the partition, and the source tables after it, the partitioned one first."""

    ts: int
    moved: ExchangedRows
    sides: tuple[SourceTable, ...]

    @property
    def tables(self) -> tuple[str, str]:
        """Both source tables, also where one of them ends at the statement."""
        return (self.moved.partitioned, self.moved.table)


def exchanges_in(history: History) -> list[Exchange]:
    """All exchanges of a history, in commit order."""
    found: dict[tuple[int, str], tuple[ExchangedRows, list[SourceTable]]] = {}
    for source_table in (table for table in history.source_tables if not table.is_contained):
        for version in source_table.versions:
            moved = exchange_in(version)
            if moved is not None:
                found.setdefault((version.from_ts, moved.partitioned), (moved, []))[1].append(source_table)
    return [
        Exchange(ts, moved, tuple(sorted(sides, key=lambda side: side.id != moved.partitioned)))
        for (ts, _), (moved, sides) in sorted(found.items(), key=lambda item: item[0])
    ]


class Exchanges:
    """The exchanges of a changefeed. `advance` writes those up to the recorded watermarks."""

    def __init__(self, lake: Lake, jvm: Callable[[], JvmCatalog] | None, plan: Plan) -> None:
        self._lake = lake
        self._jvm_of = jvm
        self._source_tables = plan.source_tables
        self._recorded = plan.recorded
        self._places = plan.locations
        self._all = exchanges_in(plan.history)
        self.errors: dict[str, Note] = {}

    def with_partners(self, only: set[str]) -> set[str]:
        """The source tables, and those that they exchange rows with."""
        tables = [set(exchange.tables) for exchange in self._all]
        wider = set(only)
        while more := {i for both in tables if both & wider for i in both} - wider:
            wider |= more
        return wider

    def awaited(self) -> frozenset[str]:
        """The source tables whose mirrors an exchange still needs, dropped tables included."""
        return frozenset(
            source_table_id
            for exchange in self._all
            if any(not self._is_done(exchange, side) for side in exchange.sides)
            for source_table_id in exchange.tables
        )

    def late(self) -> dict[str, Note]:
        """By source table, why it is held: late rows of this table or of its partner precede an exchange that is done.
        Such a row may belong to either table, so neither mirror can be exact."""
        found: dict[str, Note] = {}
        for exchange in self._all:
            done = [side for side in exchange.sides if self._is_done(exchange, side)]
            if done and any(self._has_late(source_table_id, exchange.ts) for source_table_id in exchange.tables):
                fault = _fault(exchange, self._source_tables, "no earlier rows after it was applied", "late rows")
                found.update(dict.fromkeys((side.id for side in done), Note.of(NoteCode.MIRROR, fault)))
        return found

    def _has_late(self, source_table_id: str, ts: int) -> bool:
        table = self._changelog(source_table_id)
        mark = unfollowed(table, self._mirror(source_table_id)) if table is not None else None
        return mark is not None and mark.first <= ts

    def undone(self) -> dict[str, Note]:
        """By source table, why it waits for the rows of an exchange."""
        found: dict[str, Note] = {}
        for exchange in self._all:
            for side in exchange.sides:
                if self._is_due(exchange, side):
                    fault = _fault(exchange, self._source_tables, "its rows in both changelogs", "none yet")
                    found.setdefault(side.id, Note.of(NoteCode.MIRROR, fault))
        return found

    def advance(self, failed: set[str], only: set[str] | None) -> set[str]:
        """Write the changes of the exchanges that both mirrors have reached, for the source tables `only` where given.

        Returns:
            The source tables whose changelogs gained changes. `errors` then says which tables stay behind, and why.

        Raises:
            StaleRunError: another run committed first.
        """
        self.errors = self.late()
        advanced: set[str] = set()
        for exchange in self._all:
            faults: dict[str, Note] = {}
            for side in exchange.sides:
                if not self._is_due(exchange, side):
                    continue
                try:
                    if only is not None and side.id not in only:
                        wanted, found = "a run that includes its mirror", "one that includes other mirrors only"
                        raise _fault(exchange, self._source_tables, wanted, found)
                    self._write(exchange, side, failed)
                    advanced.add(side.id)
                except Exception as error:  # noqa: BLE001  raised again where it is not of one table
                    faults[side.id] = Note.of(NoteCode.MIRROR, of_one_table(error))
            self.errors = {**faults, **self.errors}
        return advanced

    # -- what is there ------------------------------------------------------------------------------------------------

    def with_snapshot(self, record: TableRecord) -> TableRecord:
        """The table record with the changelog's present snapshot, where rows were exchanged since it was written."""
        if not any(side.id == record.source_table for exchange in self._all for side in exchange.sides):
            return record
        table = self._changelog(record.source_table)
        snapshot = table.current_snapshot() if table is not None else None
        if table is None or snapshot is None or progress_of(table).watermark > record.watermark:
            return record
        return replace(record, changelog_snapshot_id=snapshot.snapshot_id)

    def _jvm(self) -> JvmCatalog:
        assert self._jvm_of is not None, "only a run of mirrors writes exchanges"
        return self._jvm_of()

    def _changelog(self, source_table_id: str) -> Table | None:
        try:
            found = load_or_none(self._lake.catalog, self._places[source_table_id].changelog)
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            of_one_table(error)
            return None  # the pending work of the table reports the error
        return found if found is not None and source_table_of(found) == source_table_id else None

    def _mirror(self, source_table_id: str) -> Table | None:
        try:
            return mirror_of(self._lake, source_table_id, self._places[source_table_id])
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            of_one_table(error)
            return None

    def _watermark(self, source_table_id: str) -> int:
        return self._recorded[source_table_id].watermark if source_table_id in self._recorded else 0

    def _is_done(self, exchange: Exchange, side: SourceTable) -> bool:
        table = self._changelog(side.id)
        return table is not None and exchange.ts in exchanges_of(table)

    def _is_due(self, exchange: Exchange, side: SourceTable) -> bool:
        is_kept = side.id in self._recorded and self._watermark(side.id) >= exchange.ts
        return is_kept and not self._is_done(exchange, side)

    # -- what is written ----------------------------------------------------------------------------------------------

    def _write(self, exchange: Exchange, side: SourceTable, failed: set[str]) -> None:
        if self._lake.by_arrival:
            found = "one without commit_ts, where the time of a statement is not known"
            raise _fault(exchange, self._source_tables, "a stream with commit_ts", found)
        table = self._changelog(side.id)
        other = next(i for i in exchange.tables if i != side.id)
        if table is None:
            raise _fault(exchange, self._source_tables, "the changelogs of both tables", "none of one")
        other_changelog = self._changelog(other)
        if other_changelog is not None and exchange.ts in exchanges_of(other_changelog):
            query = self._moved_back(exchange, side, other_changelog)
        else:
            query = self._moved_rows(exchange, side, failed)
        files = self._files(table, exchange, side, query)
        parent = progress_of(table)
        progress = Progress(parent.watermark, parent.position, uuid.uuid4().hex, parent.files)
        mark = with_exchange(table, exchange.ts)
        changelog.publish(table, self._lake.changefeed.name, files, parent, progress, mark)

    def _moved_rows(self, exchange: Exchange, side: SourceTable, failed: set[str]) -> str:
        mirrors = [self._mirror_before(exchange, source_table_id, failed) for source_table_id in exchange.tables]
        sources = [f"{self._quoted(mirror)} VERSION AS OF {snapshot_id(mirror)}" for mirror in mirrors]
        zone = self._lake.changefeed.time_zone
        conditions = [rows_condition((exchange.moved.rows,), zone), "true"]
        names = [
            self._names(source_table_id, mirror, exchange)
            for source_table_id, mirror in zip(exchange.tables, mirrors, strict=True)
        ]
        columns = [fold(c.name) for c in _before(side, exchange).table.stored_columns]
        spelt = ", ".join(f"{quote(names[1][column])} AS {quote(names[0][column])}" for column in columns)
        # The tables may spell a column in different case, and the condition has the names of the partitioned one.
        self._check_places(exchange, [sources[0], f"(SELECT {spelt} FROM {sources[1]})"], conditions[0])  # noqa: S608
        own = exchange.tables.index(side.id)
        pairs = [(names[own][column], names[1 - own][column]) for column in columns]
        return exchange_sql.moved_rows(sources[own], conditions[own], sources[1 - own], conditions[1 - own], pairs)

    def _mirror_before(self, exchange: Exchange, source_table_id: str, failed: set[str]) -> Table:
        """The mirror as of just before the statement."""
        source_table, mirror, table = (
            self._source_tables[source_table_id],
            self._mirror(source_table_id),
            self._changelog(source_table_id),
        )
        name = ".".join(source_table.name)
        behind = (
            source_table_id in failed
            or source_table_id in self.errors
            or self._watermark(source_table_id) < exchange.ts
        )
        if mirror is None or table is None or behind:
            raise _fault(exchange, self._source_tables, "both tables to be complete up to it", f"{name}, which is not")
        at = min(self._watermark(source_table_id), exchange.ts)
        is_there = not any(segments(source_table, table, mirror, at, by_arrival=False))
        if not is_there or int(mirror.properties[VERSION]) >= exchange.ts:
            found = f"the mirror of {name} at another one"
            raise _fault(exchange, self._source_tables, "mirrors at the statement", found)
        return mirror

    def _check_places(self, exchange: Exchange, sources: list[str], inside: str) -> None:
        """Raise where a row is outside the partition: with WITHOUT VALIDATION TiDB accepts such rows."""
        session = self._jvm().thread_session()
        doubt = doubt_condition((exchange.moved.rows,))
        if doubt is not None and any(session.sql(any_row(source, doubt)).take(1) for source in sources):
            found = "rows without a date, where the source may have had an invalid date"
            raise _fault(exchange, self._source_tables, "valid dates, which determine the partition of each row", found)
        if session.sql(any_row(sources[1], f"NOT ({inside})")).take(1):
            raise _fault(
                exchange, self._source_tables, "rows that belong to the partition", "others (WITHOUT VALIDATION)"
            )

    def _moved_back(self, exchange: Exchange, side: SourceTable, other_changelog: Table) -> str:
        other = next(self._source_tables[i] for i in exchange.tables if i != side.id)
        places, schema = field_ids_by_uid(other_changelog.properties), other_changelog.schema()
        uids = {fold(c.name): c.uid for c in _before(other, exchange).table.stored_columns}
        columns = [fold(c.name) for c in _before(side, exchange).table.stored_columns]
        names = [schema.find_field(places[uids[column]][0]).name for column in columns]
        return exchange_sql.moved_back(self._quoted(other_changelog), exchange.ts, names)

    def _names(self, source_table_id: str, mirror: Table, exchange: Exchange) -> dict[str, str]:
        """The mirror's column names, by the source's names in lower case."""
        places, schema = field_ids_by_uid(mirror.properties), mirror.schema()
        columns = _before(self._source_tables[source_table_id], exchange).table.stored_columns
        return {fold(c.name): schema.find_field(places[c.uid][0]).name for c in columns}

    def _quoted(self, table: Table) -> str:
        return quote_path((self._jvm().name, *table.name()))

    def _files(self, table: Table, exchange: Exchange, side: SourceTable, query: str) -> list[WrittenFile]:
        version = _before(side, exchange)
        task = MovedRows(
            prefix=f"{table.location().rstrip('/')}/data/{uuid.uuid4().hex}-exchange",
            schema=changelog.write_schema(table, [c.uid for c in version.table.stored_columns]),
            ts=exchange.ts,
            version_ts=version.from_ts,
            io_properties=self._lake.io_properties,
        )
        rows = self._jvm().thread_session().sql(query).coalesce(self._lake.cores)
        return list(_written_files(rows.mapInArrow(partial(write_moved, task), ANSWER).collect()))


def _written_files(rows: list[Any]) -> Iterator[WrittenFile]:
    for row in rows:
        yield pickle.loads(row.file)  # noqa: S301  our own bytes


def _before(source_table: SourceTable, exchange: Exchange) -> Version:
    """The version in effect at the statement's own commit_ts: the one before it."""
    return source_table.version_at(exchange.ts)


def _fault(exchange: Exchange, source_tables: Mapping[str, SourceTable], expected: str, found: str) -> SchemaError:
    one, other = (".".join(source_tables[source_table_id].name) for source_table_id in exchange.tables)
    partition = exchange.moved.rows.partition
    return SchemaError(
        f"EXCHANGE PARTITION {partition} of {one} with {other} at {exchange.ts}",
        expected,
        found,
        "Both changelogs are complete except for the rows that it moved. Correct the table that is named, or load both "
        "tables again.",
    )
