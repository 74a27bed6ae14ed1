"""The interface of a source of changes. All other steps are in `pipeline.run` and are the same for every source.

A source is where a changefeed's changes are read: a bucket, or Kafka messages. The steps of one run:

1. `ChangeSource.scan` finds what is pending, on the driver.
2. `ChangeSource.batch` cuts that into tasks, once each table's changelog is ready.
3. Workers call `SourceBatch.decode` with one task each. It reads the task's records and writes them as Parquet files.
4. `SourceBatch` interprets the answers: new schemas, held tables, bad records, the next cursor.

`pipeline.sources` lists the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from ticdc_assets.notes import Note
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, with_holds
from ticdc_assets.schema.history.source_table import History, SourceTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.pipeline.tasks import TaskReport
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.sources.storage.scan_result import Problem
    from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord, WatermarkRecord
    from ticdc_assets.tables.progress import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The result of a scan. Each source adds what its own tasks need.

    `high` is the TSO to which the run advances every table that is not held. `plan` has the newest record, the history
    and what the run may add to each table. `new_events` are statements and schemas that the lake does not keep yet;
    `changed_events` are kept ones whose content differs now. The tables in `again` are read from their beginning,
    because a statement came late.
    """

    run_id: str
    high: int
    plan: Plan
    new_events: tuple[DdlEvent, ...] = ()
    changed_events: tuple[DdlEvent, ...] = ()
    again: frozenset[str] = frozenset()

    @property
    def record(self) -> WatermarkRecord | None:
        """The newest record of the lake; None before the first run."""
        return self.plan.record

    @property
    def history(self) -> History:
        """The history of all statements that are known now."""
        return self.plan.history

    @property
    def commit_ranges(self) -> Mapping[str, CommitRange]:
        """By source table, what the run may add."""
        return self.plan.commit_ranges

    def with_held(self, held: Mapping[str, Hold]) -> Self:
        """The same with these tables held."""
        return replace(self, plan=self.plan.with_ranges(with_holds(self.commit_ranges, held)))

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing."""
        raise NotImplementedError

    @property
    def beyond(self) -> frozenset[str]:
        """The tables that a run has published beyond the record without recording it. The record's cursor may be ahead
        of what that run has read, since another run has recorded meanwhile."""
        if self.record is None:
            return frozenset()
        lows = {i: table.watermark for i, table in self.plan.recorded.items()}
        return frozenset(i for i, n in self.commit_ranges.items() if n.low > lows.get(i, 0))

    @property
    def checkpoint(self) -> int:
        """The TSO up to which the source is complete, 0 where it has none."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the scan holds tables."""
        return ()

    @property
    def foreign_topics(self) -> frozenset[str]:
        """The topics of other producers, whose messages cannot be read with any config."""
        return frozenset()

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the source that hold no table, a sentence each."""
        return ()


P = TypeVar("P", bound=Pending)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a source no longer has."""

    expected: str
    found: str


class SourceBatch(Protocol):
    """The input of one run: tasks for the workers, and the interpretation of their answers.

    A class of a source inherits from this one what it does not need: the methods with a result here.

    `amount` is the amount of input as text ("3 files"), `records` the number of files or messages.
    `deliveries_are_known` is true if the source separates the deliveries of equal rows (see
    `pipeline.changelog.late_rows`).
    """

    amount: str
    records: int
    deliveries_are_known: bool
    tasks: Sequence[Any]

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        """The function that a worker calls with one task. It is a module-level function, so that it pickles."""

    def new_schemas(self, reports: Sequence[TaskReport]) -> Sequence[DdlEvent]:
        """Schemas in the rows that the lake does not keep. If there are any, the run reads everything again."""
        return ()

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """By source table, why a file or message holds it back."""

    def bad_records(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> list[QuarantinedRecord]:
        """The records that cannot be decoded, of tables that advance. Those of held tables are read again later."""
        return []

    def consumed(self, tables: Mapping[str, Table]) -> dict[str, Files]:
        """By source table, the files that its changelog has after this run, where progress is by file."""
        return {}

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> str:
        """Where the next scan begins."""

    def warnings(self, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
        """The warnings about a table for the record."""
        return ()

    def with_unknown_tables(self, records: list[TableRecord], reports: Sequence[TaskReport]) -> list[TableRecord]:
        """The records, plus those of tables that wait for a schema or for the statements of another changefeed."""
        return records


class ChangeSource(Protocol, Generic[P]):
    """Where a changefeed's changes are read. A source inherits from this class what it does not need."""

    def scan(self) -> P:
        """Find what is pending. Needs no JVM and writes nothing.

        Raises:
            SourceError: the source cannot be read, or is not the one that the lake was filled from.
        """

    def prepare(self, pending: P) -> P:
        """Store in the lake what later runs need before any table is written. A run calls it each time it reads, before
        it stores `new_events`."""
        return pending

    def batch(self, pending: P, tables: dict[str, Table]) -> SourceBatch:
        """Cut what is pending into tasks. `tables` has the changelogs by source table."""

    def checkpoint(self) -> int | None:
        """The TSO up to which the source is complete; None where only a scan finds it."""
        return None

    def missing_since(self, cursor: str, pending: P) -> Missing | None:
        """What a rebuild from the source would miss: input that the runs up to `cursor` have read and that the source
        no longer has. None if the source still has all of it, or a rebuild compares the changes themselves."""
        return None

    def cursor_with(self, kept: str, made: str, source_table: SourceTable, history: History) -> str:
        """The cursor to record after a rebuild has read one table alone. `kept` is the lake's cursor, `made` the cursor
        of the rebuild."""
        return kept
