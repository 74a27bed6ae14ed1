"""Schemas of tables that no statement of a stream creates: they are older than the stream, or created above the run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.names.encoding import sanitised
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.stream.decode.official_canal import PositionedRow, StatementPositions
from ticdc_assets.pipeline.stream.decode.task import MessageName
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.history.fold.events import Folds
from ticdc_assets.schema.history.source_table import History, SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.schema.model import TableName

_FILES: Final = "schema_files"
_NAMES_ANOTHER: Final = re.compile(r"\b(rename|like|exchange|flashback|recover)\b")


@dataclass(frozen=True, eq=False, slots=True)
class _FirstRow:
    """The first row of a table, and its inferred schema. `sent_name` is the name in messages, `name` the true one.
    `placed` has the first row of every partition where only positions order them."""

    sent_name: SourceName
    name: TableName
    ts: int
    inferred: DdlEvent | None
    placed: tuple[PositionedRow, ...] = ()


@dataclass(frozen=True)
class SchemaGuesses:
    """Schemas of such tables from the user, rows and later statements. `names` are the true names of an Avro stream."""

    folds: Folds
    scan: StreamScan
    names: Mapping[MessageName, TableName | None]

    def added_to(self, known: Sequence[DdlEvent], high: int | None = None) -> list[DdlEvent]:
        """The events, plus schemas from the user or from rows (up to `high`) for tables that no statement creates."""
        events, history = list(known), self.folds.of(known)
        for together in _parts(self._first_rows(high), known):
            timelines = history.timelines() if any(row.placed for row in together) else {}
            positions = StatementPositions.of(events) if timelines else StatementPositions()
            unknown = [
                row for row in together if not _is_known(history, row, _source_tables(row, positions, timelines))
            ]
            guessed = self._guessed(unknown, events)
            if guessed:
                events += guessed
                history = self.folds.of(events)
        return events

    def _first_rows(self, high: int | None) -> Iterator[_FirstRow]:
        """The first row of each table, by commit_ts."""
        spelt = self.scan.avro.names if self.scan.avro else {}
        true = {fold_name(*spelt[key]): name for key, name in self.names.items()}
        for schema, table, ts in sorted(self.scan.tables.first_rows.values(), key=lambda row: row[2]):
            sent_name = fold_name(schema, table)
            name = true.get(sent_name, (schema, table))
            if name is not None and (high is None or ts <= high):
                placed = tuple(self.scan.tables.first_positioned.get(sent_name, {}).values())
                yield _FirstRow(sent_name, name, ts, self.scan.tables.inferred.get(sent_name), placed)

    def _guessed(self, rows: Sequence[_FirstRow], events: Sequence[DdlEvent]) -> list[DdlEvent]:
        """The best guess for the table of each row, if there is one; the guesses are independent of each other."""
        guesses = {row: guess for row in rows if (guess := self._of_user(row) or self._of_stream(row)) is not None}
        for row in self._contradicted(guesses, events):
            del guesses[row]
            if (guess := self._of_stream(row)) is not None:
                guesses[row] = guess
        return list(guesses.values())

    def _contradicted(self, guesses: Mapping[_FirstRow, DdlEvent], events: Sequence[DdlEvent]) -> list[_FirstRow]:
        """The rows whose columns differ from the user's files."""
        doubtful = [row for row, guess in guesses.items() if guess.where == _FILES]
        if not doubtful:
            return []
        history = self.folds.of([*events, *guesses.values()])
        return [row for row in doubtful if not _fits(history, row)]

    def as_of(self, high: int, events: Sequence[DdlEvent]) -> list[DdlEvent]:
        """The statements up to `high`, and guesses for tables that only later statements mention."""
        reached = [event for event in events if event.commit_ts <= high]
        later = [event for event in events if event.commit_ts > high]
        return self.added_to([*reached, *self._as_they_were(reached, later)], high)

    def _as_they_were(self, reached: Sequence[DdlEvent], later: Sequence[DdlEvent]) -> Iterator[DdlEvent]:
        """Tables that only `later` statements mention, as they were before the first of them."""
        history = self.folds.of(reached)
        met: set[SourceName] = set()
        for event in sorted(later, key=lambda event: event.commit_ts):
            before = event.before
            if before is not None and fold_name(before.schema, before.name) not in met:
                met.add(fold_name(before.schema, before.name))
                if not history.ever_called(before.schema, before.name):
                    yield _as_it_was(event)
            if event.query:
                met.add(fold_name(event.schema, event.table))

    def _of_user(self, row: _FirstRow) -> DdlEvent | None:
        known = self.folds.known.tables.get(fold_name(*row.name))
        return None if known is None else DdlEvent(0, known.schema, known.name, "", after=known, where=_FILES)

    def _of_stream(self, row: _FirstRow) -> DdlEvent | None:
        """The schema from the row, else the key columns from deletes."""
        event = row.inferred
        if event is None and self.scan.avro is not None and row.sent_name in self.scan.avro.keys:
            event = DdlEvent(0, *row.name, "", after=self.scan.avro.keys[row.sent_name], where="deletes")
        if event is None or event.after is None:
            return None
        schema, table = row.name
        return replace(event, schema=schema, table=table, after=replace(event.after, schema=schema, name=table))


def _parts(rows: Iterable[_FirstRow], known: Sequence[DdlEvent]) -> Iterator[list[_FirstRow]]:
    """The rows in groups. A guess for one row's table may affect another row's table only where a statement names both.
    Rows that no such statement concerns are one first group; the others follow one by one."""
    texts = "\n".join(query for event in known if _NAMES_ANOTHER.search(query := fold(event.query)))
    alone: dict[SourceName, _FirstRow] = {}
    named: list[_FirstRow] = []
    for row in rows:
        is_named = fold(row.name[1]).replace("`", "``") in texts
        if is_named or alone.setdefault(fold_name(*row.name), row) is not row:
            named.append(row)
    yield list(alone.values())
    yield from ([row] for row in named)


def _as_it_was(event: DdlEvent) -> DdlEvent:
    before, version = event.before, event.hints.before_version
    assert before is not None
    where = f"{event.where}, as it was before"
    hints = DdlHints(version=version)
    return DdlEvent(version or 0, before.schema, before.name, "", after=before, hints=hints, where=where)


def _source_tables(
    row: _FirstRow, positions: StatementPositions, timelines: Mapping[SourceName, Timeline]
) -> list[str | None]:
    """The source tables of rows that only positions order."""
    timeline = timelines.get(row.sent_name, ())
    found = [positions.period(timeline, placed) for placed in row.placed]
    return [period.source_table_id if isinstance(period, SchemaPeriod) else None for period in found]


def _is_known(history: History, row: _FirstRow, placed: Sequence[str | None] = ()) -> bool:
    """Whether a history has the row's table, except from a user file that the row contradicts."""
    if placed:
        born = {source_table.id: source_table.first_event_ts for source_table in history.ever_called(*row.name)}
        return all(
            source_table is not None and (born.get(source_table, 0) > 0 or _fits(history, row))
            for source_table in placed
        )
    if not row.ts:
        return bool(history.ever_called(*row.name))
    found = history.as_of(*row.name, row.ts)
    return found is not None and (found[0].first_event_ts > 0 or _fits(history, row))


def _fits(history: History, row: _FirstRow) -> bool:
    """Whether the history's columns match the row's, as far as the protocol can spell them."""
    if row.inferred is None or row.inferred.after is None:
        return True
    found = history.as_of(*row.name, row.inferred.commit_ts + 1)
    columns = {fold(sanitised(c.name)) for c in row.inferred.after.stored_columns}
    return found is not None and {fold(sanitised(c.name)) for c in found[1].table.stored_columns} == columns
