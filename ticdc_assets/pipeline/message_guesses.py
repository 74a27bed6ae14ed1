"""Schemas of tables that no statement of a stream makes: older than the stream, or made above what a run reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.pipeline.message_task import Told
from ticdc_assets.pipeline.placed_rows import PlacedRow, Places
from ticdc_assets.pipeline.stream_look import StreamLook
from ticdc_assets.protocols.avro_names import Name, sanitised
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.folds import Folds
from ticdc_assets.schema.lineage import History, Slot, SourceName, fold_name

_FILES: Final = "schema_files"
_NAMES_ANOTHER: Final = re.compile(r"\b(rename|like|exchange|flashback|recover)\b")


@dataclass(frozen=True, eq=False, slots=True)
class _FirstRow:
    """The first row of a table, and what it tells of it. Messages said `said` for what is truly called `name`. `placed`
    has the first row of every partition where only places order them."""

    said: SourceName
    name: Name
    ts: int
    inferred: DdlEvent | None
    placed: tuple[PlacedRow, ...] = ()


@dataclass(frozen=True)
class SchemaGuesses:
    """What the user, rows and later statements tell of such tables. `names` are the true names of an Avro stream."""

    folds: Folds
    look: StreamLook
    names: Mapping[Told, Name | None]

    def added_to(self, told: Sequence[DdlEvent], high: int | None = None) -> list[DdlEvent]:
        """What is told, and what the user or rows (up to `high`) tell of tables that no statement makes."""
        events, history = list(told), self.folds.of(told)
        for together in _parts(self._first_rows(high), told):
            slots = history.timelines() if any(row.placed for row in together) else {}
            places = Places.of(events) if slots else Places()
            unknown = [row for row in together if not _is_known(history, row, _lineages(row, places, slots))]
            guessed = self._guessed(unknown, events)
            if guessed:
                events += guessed
                history = self.folds.of(events)
        return events

    def _first_rows(self, high: int | None) -> Iterator[_FirstRow]:
        """The first row of each table, by commit_ts."""
        spelt = self.look.avro.names if self.look.avro else {}
        true = {fold_name(*spelt[key]): name for key, name in self.names.items()}
        for schema, table, ts in sorted(self.look.first_rows.values(), key=lambda row: row[2]):
            said = fold_name(schema, table)
            name = true.get(said, (schema, table))
            if name is not None and (high is None or ts <= high):
                placed = tuple(self.look.first_placed.get(said, {}).values())
                yield _FirstRow(said, name, ts, self.look.inferred.get(said), placed)

    def _guessed(self, rows: Sequence[_FirstRow], events: Sequence[DdlEvent]) -> list[DdlEvent]:
        """The best guess for the table of each row, if there is any; no guess may have to do with another."""
        guesses = {row: guess for row in rows if (guess := self._of_user(row) or self._of_stream(row)) is not None}
        for row in self._contradicted(guesses, events):
            del guesses[row]
            if (guess := self._of_stream(row)) is not None:
                guesses[row] = guess
        return list(guesses.values())

    def _contradicted(self, guesses: Mapping[_FirstRow, DdlEvent], events: Sequence[DdlEvent]) -> list[_FirstRow]:
        """The rows that tell other columns than the user's files."""
        doubtful = [row for row, guess in guesses.items() if guess.where == _FILES]
        if not doubtful:
            return []
        history = self.folds.of([*events, *guesses.values()])
        return [row for row in doubtful if not _fits(history, row)]

    def as_of(self, high: int, events: Sequence[DdlEvent]) -> list[DdlEvent]:
        """The statements up to `high`, and guesses for tables of which only later ones tell."""
        reached = [event for event in events if event.commit_ts <= high]
        later = [event for event in events if event.commit_ts > high]
        return self.added_to([*reached, *self._as_they_were(reached, later)], high)

    def _as_they_were(self, reached: Sequence[DdlEvent], later: Sequence[DdlEvent]) -> Iterator[DdlEvent]:
        """Tables that only `later` statements tell of, as they were before the first of them, if there were any."""
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
        """What the row tells, else what deletes tell: the key."""
        event = row.inferred
        if event is None and self.look.avro is not None and row.said in self.look.avro.keys:
            event = DdlEvent(0, *row.name, "", after=self.look.avro.keys[row.said], where="deletes")
        if event is None or event.after is None:
            return None
        schema, table = row.name
        return replace(event, schema=schema, table=table, after=replace(event.after, schema=schema, name=table))


def _parts(rows: Iterable[_FirstRow], told: Sequence[DdlEvent]) -> Iterator[list[_FirstRow]]:
    """The rows in parts: a guess for the table of one may tell of the table of another only where a statement names
    both. What is in none of these comes first and at once, the others one by one."""
    texts = "\n".join(query for event in told if _NAMES_ANOTHER.search(query := event.query.lower()))
    alone: dict[SourceName, _FirstRow] = {}
    named: list[_FirstRow] = []
    for row in rows:
        is_named = row.name[1].lower().replace("`", "``") in texts
        if is_named or alone.setdefault(fold_name(*row.name), row) is not row:
            named.append(row)
    yield list(alone.values())
    yield from ([row] for row in named)


def _as_it_was(event: DdlEvent) -> DdlEvent:
    before, version = event.before, event.before_version
    assert before is not None
    where = f"{event.where}, as it was before"
    return DdlEvent(version or 0, before.schema, before.name, "", after=before, version=version, where=where)


def _lineages(row: _FirstRow, places: Places, slots: Mapping[SourceName, Sequence[Slot]]) -> list[str | None]:
    """The tables that rows belong to which their places order."""
    of_name = slots.get(row.said, ())
    found = [places.slot(of_name, placed) for placed in row.placed]
    return [slot.lineage_id if slot is not None else None for slot in found]


def _is_known(history: History, row: _FirstRow, placed: Sequence[str | None] = ()) -> bool:
    """Whether a history has the row's table, and does not have it from a file of the user that the row contradicts."""
    if placed:
        born = {lineage.id: lineage.told_ts for lineage in history.ever_called(*row.name)}
        return all(lineage is not None and (born.get(lineage, 0) > 0 or _fits(history, row)) for lineage in placed)
    if not row.ts:
        return bool(history.ever_called(*row.name))
    found = history.as_of(*row.name, row.ts)
    return found is not None and (found[0].told_ts > 0 or _fits(history, row))


def _fits(history: History, row: _FirstRow) -> bool:
    """Whether a history has the columns that a row tells, as far as the protocol can spell them."""
    if row.inferred is None or row.inferred.after is None:
        return True
    found = history.as_of(*row.name, row.inferred.commit_ts + 1)
    told = {sanitised(c.name).lower() for c in row.inferred.after.stored_columns}
    return found is not None and {sanitised(c.name).lower() for c in found[1].table.stored_columns} == told
