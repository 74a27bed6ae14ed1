"""Schemas of tables that no statement of a stream makes: older than the stream, or made above what a run reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.pipeline.message_task import Told
from ticdc_assets.pipeline.stream_look import StreamLook
from ticdc_assets.protocols.avro_names import Name, sanitised
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.history import Known, fold
from ticdc_assets.schema.lineage import History, SourceName, fold_name

_FILES: Final = "schema_files"


@dataclass(frozen=True)
class SchemaGuesses:
    """What the user, rows and later statements tell of such tables. `names` are the true names of an Avro stream."""

    known: Known
    look: StreamLook
    names: Mapping[Told, Name | None]

    def added_to(self, told: Sequence[DdlEvent], high: int | None = None) -> list[DdlEvent]:
        """What is told, and what the user or rows (up to `high`) tell of tables that no statement makes."""
        events = list(told)
        history, true = fold(events, self.known), self._true()
        for schema, table, ts in sorted(self.look.first_rows.values(), key=lambda row: row[2]):
            name = true.get(fold_name(schema, table), (schema, table))
            if high is not None and ts > high:
                continue
            row = self.look.inferred.get(fold_name(schema, table))
            if name is None or (not ts and _is_borne(history, name)) or self._is_known(history, name, ts, row):
                continue
            for guess in self._of(fold_name(schema, table), name):
                history = fold([*events, guess], self.known)
                if guess.where != _FILES or _fits(history, name, row):
                    events = [*events, guess]
                    break
        return events

    def _is_known(self, history: History, name: Name, ts: int, row: DdlEvent | None) -> bool:
        """Whether a history has the table, and does not have it from a file of the user that the row contradicts."""
        found = history.as_of(*name, ts)
        return found is not None and (found[0].told_ts > 0 or _fits(history, name, row))

    def as_of(self, high: int, events: Sequence[DdlEvent]) -> list[DdlEvent]:
        """The statements up to `high`, and guesses for tables of which only later ones tell."""
        reached = [event for event in events if event.commit_ts <= high]
        later = [event for event in events if event.commit_ts > high]
        return self.added_to([*reached, *self._as_they_were(reached, later)], high)

    def _as_they_were(self, reached: Sequence[DdlEvent], later: Sequence[DdlEvent]) -> Iterator[DdlEvent]:
        """Tables that only `later` statements tell of, as they were before the first of them, if there were any."""
        history = fold(reached, self.known)
        met: set[SourceName] = set()
        for event in sorted(later, key=lambda event: event.commit_ts):
            before = event.before
            if before is not None and fold_name(before.schema, before.name) not in met:
                met.add(fold_name(before.schema, before.name))
                if not _is_borne(history, (before.schema, before.name)):
                    yield _as_it_was(event)
            if event.query:
                met.add(fold_name(event.schema, event.table))

    def _true(self) -> dict[SourceName, Name | None]:
        spelt = self.look.avro.names if self.look.avro else {}
        return {fold_name(*spelt[key]): name for key, name in self.names.items()}

    def _of(self, told: SourceName, name: Name) -> Iterator[DdlEvent]:
        """The user's schema of a table, else what its first row tells, else what its deletes tell: the key."""
        known = self.known.tables.get(fold_name(*name))
        if known is not None:
            yield DdlEvent(0, known.schema, known.name, "", after=known, where=_FILES)
        event = self.look.inferred.get(told)
        if event is None and self.look.avro is not None and told in self.look.avro.keys:
            event = DdlEvent(0, *name, "", after=self.look.avro.keys[told], where="deletes")
        if event is not None and event.after is not None:
            after = replace(event.after, schema=name[0], name=name[1])
            yield replace(event, schema=name[0], table=name[1], after=after)


def _as_it_was(event: DdlEvent) -> DdlEvent:
    before, version = event.before, event.before_version
    assert before is not None
    where = f"{event.where}, as it was before"
    return DdlEvent(version or 0, before.schema, before.name, "", after=before, version=version, where=where)


def _fits(history: History, name: Name, row: DdlEvent | None) -> bool:
    """Whether a history has the columns that a row tells, as far as the protocol can spell them."""
    if row is None or row.after is None:
        return True
    found = history.as_of(*name, row.commit_ts + 1)
    told = {sanitised(c.name).lower() for c in row.after.stored_columns}
    return found is not None and {sanitised(c.name).lower() for c in found[1].table.stored_columns} == told


def _is_borne(history: History, name: Name) -> bool:
    return any(fold_name(t.schema, t.table) == fold_name(*name) for g in history.lineages for t in g.tenures)
