"""Every version of every row of a source table (SCD type 2), folded from its changelog up to a recorded TSO.

Late rows and replays need nothing of their own: they are changes of the changelog at the recorded snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout
from ticdc_assets.changes.key_buckets import in_bucket
from ticdc_assets.changes.layout import IS_CURRENT, VALID_FROM, VALID_FROM_TIME, VALID_TO, VALIDITY_COLUMNS
from ticdc_assets.changes.row_versions import filled, row_versions
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history import passes
from ticdc_assets.pipeline.history.knowledge import Knowledge, LakeKnowledge
from ticdc_assets.pipeline.history.passes import TooManyChangesError, in_passes
from ticdc_assets.pipeline.history.refusals import conversion_refusal, undetermined, versions_between
from ticdc_assets.pipeline.history.tables import empties, version_after
from ticdc_assets.pipeline.recorded.table import required
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.tables.mirror.effects import fill_value
from ticdc_assets.tables.progress import field_ids_by_uid
from ticdc_assets.tso import LOGICAL_BITS

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.recorded.table import RecordedTable
    from ticdc_assets.schema.history.source_table import SourceTable

_OWN: Final = tuple(name for name, _ in VALIDITY_COLUMNS)
_NEEDED: Final = (layout.OP, layout.COMMIT_TS, layout.SEQ, layout.TABLE_VERSION)
_PASSES_MAX: Final = 256


@dataclass(frozen=True)
class RecordedHistory:
    """The versions of the rows of one source table up to `tso`.

    The columns are those of the changelog, also dropped ones, and before them VALIDITY_COLUMNS: `_ticdc_valid_from` and
    `_ticdc_valid_to` (TSOs), their times (UTC) and `_ticdc_is_current`. At a TSO t up to `tso` the table had the rows
    with `_ticdc_valid_from <= t` and `_ticdc_valid_to > t` or NULL. `knowledge` says from which TSO on, and what is
    missing.

    Raises:
        ConfigError: the stream has no commit_ts, or the changelog does not determine the rows.
        NotYetError: maintenance has removed the changelog's snapshot (when rows are read).
    """

    changelog: RecordedTable
    source_table: SourceTable = field(repr=False)

    def __post_init__(self) -> None:
        where = ".".join(self.source_table.name)
        if self.changelog.lake.by_arrival:
            advice = "Without commit_ts there is no TSO from which a row is valid."
            raise ConfigError(where, "a stream with commit_ts", "one without", advice)
        reason = undetermined(self.source_table, -1, self.tso) or conversion_refusal(self.source_table, self.tso)
        if reason:
            advice = "Read mirrors at recorded TSOs instead: `ticdc-assets snapshot --at TSO` lists them."
            raise ConfigError(where, "a table whose changelog determines its rows", reason, advice)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows in parts of some hundred megabytes at most; all versions of a key are in one part.

        Within a part they are ordered by key and `_ticdc_valid_from`. A key with very many versions makes its part
        larger.
        """
        names = self._selected(columns)
        return in_passes(lambda bucket, buckets: self._part(names, bucket, buckets))

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows as an Arrow table. Raises ConfigError where a column is not there."""
        return pa.concat_tables(self.parts(columns))

    def to_pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow(columns).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """The rows as a polars DataFrame. Raises MachineError where polars is not installed."""
        frame: polars.DataFrame = required("polars").from_arrow(self.to_arrow(columns))
        return frame

    def to_duckdb(
        self, columns: Sequence[str] | None = None, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, in `connection` or a new one. Raises MachineError where DuckDB is not
        installed."""
        opened = connection or required("duckdb").connect()
        relation: duckdb.DuckDBPyRelation = opened.from_arrow(self.to_arrow(columns))
        return relation

    @property
    def tso(self) -> int:
        """The TSO up to which the versions are."""
        return self.changelog.tso

    @cached_property
    def knowledge(self) -> Knowledge:
        """From which TSO on the versions are known, and what they leave out."""
        lake, history = self.changelog.lake, self.changelog.lake.history()
        known = LakeKnowledge.of(lake, lake.control.newest(), history, lake.control.ddl_events())
        return known.table(self.source_table, self.tso)

    # -- columns ------------------------------------------------------------------------------------------------------

    @cached_property
    def column_of(self) -> dict[int, str]:
        """The name here of each column that the table has had, by the uid of the source's column."""
        schema = self._schema
        there = {f.field_id: f.name for f in schema.fields}
        uids = {c.uid for v in versions_between(self.source_table, -1, self.tso) for c in v.table.stored_columns}
        places = field_ids_by_uid(self._table.properties)
        return {uid: there[ids[0]] for uid, ids in places.items() if uid in uids and ids[0] in there}

    @cached_property
    def _table(self) -> Table:
        return self.changelog.to_pyiceberg()

    @cached_property
    def _schema(self) -> Schema:
        return self.changelog.scan().projection()

    @cached_property
    def _key(self) -> list[str]:
        newest = version_after(self.source_table, self.tso).table
        return [self.column_of[column.uid] for column in newest.ordered_key]

    def _selected(self, columns: Sequence[str] | None) -> list[str]:
        every = [*_OWN, *self.column_of.values()]
        missing = [name for name in columns or () if name not in every]
        if missing:
            expected, where = f"columns of {', '.join(every)}", ".".join(self.source_table.name)
            raise ConfigError(where, expected, ", ".join(missing), "Correct `columns`.")
        return every if columns is None else list(columns)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _part(self, names: Sequence[str], bucket: int, buckets: int) -> pa.Table:
        read = {uid: name for uid, name in self.column_of.items() if name in names or name in self._key}
        emptied = [v.from_ts for v in versions_between(self.source_table, -1, self.tso) if empties(v)]
        rows = row_versions(self._changes(read, bucket, buckets), self._key, emptied, self._absences())
        rows = self._filled(rows, read)
        return pa.table({name: _own(rows, name) if name in _OWN else rows.column(name) for name in names})

    def _absences(self) -> list[tuple[int, int | None]]:
        begun = (absence for absence in self.source_table.absences if absence.dropped_ts <= self.tso)
        return [(a.dropped_ts, a.back_ts if a.back_ts is not None and a.back_ts <= self.tso else None) for a in begun]

    def _changes(self, read: dict[int, str], bucket: int, buckets: int) -> pa.Table:
        places = field_ids_by_uid(self._table.properties)
        sources = {name: self._schema.find_field(places[uid][0]).name for uid, name in read.items()}
        wanted = [*_NEEDED, *sources.values()]
        reader = self.changelog.scan(wanted, f"{layout.COMMIT_TS} <= {self.tso}").to_arrow_batch_reader()
        shown = {**{name: name for name in _NEEDED}, **sources}
        held, held_bytes = [], 0
        for batch in reader:
            changes = pa.table({name: batch.column(there) for name, there in shown.items()})
            if buckets > 1:
                changes = changes.filter(pa.array(in_bucket([changes.column(k) for k in self._key], bucket, buckets)))
            held.append(changes)
            held_bytes += changes.nbytes
            if held_bytes > passes.HELD_BYTES_MAX and buckets < _PASSES_MAX:
                raise TooManyChangesError
        if not held:
            return pa.table({name: pa.array([], reader.schema.field(there).type) for name, there in shown.items()})
        return pa.concat_tables(held)

    def _filled(self, rows: pa.Table, read: dict[int, str]) -> pa.Table:
        """The rows with the defaults of columns that were added while they existed."""
        for version in versions_between(self.source_table, -1, self.tso):
            for effect in version.effects:
                if isinstance(effect, FillColumn) and effect.uid in read:
                    value = fill_value(effect, version, self.changelog.lake.changefeed.time_zone)
                    if value is not None:
                        name = read[effect.uid]
                        rows = filled(rows, name, version.from_ts, pa.scalar(value, rows.schema.field(name).type))
        return rows


def _own(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name == IS_CURRENT:
        return pc.is_null(rows.column(VALID_TO))
    if name in (VALID_FROM, VALID_TO):
        return rows.column(name)
    tso = rows.column(VALID_FROM if name == VALID_FROM_TIME else VALID_TO)
    ms = pc.shift_right(tso, LOGICAL_BITS)
    return pc.multiply(ms, pa.scalar(1000, pa.int64())).cast(pa.timestamp("us", tz="UTC"))
