"""What a task reports of the rows of one name."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import DISPLACED
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.stream.decode.row_schemas import NameState, no_schema, no_table
from ticdc_assets.pipeline.tasks import FileReport, FileState
from ticdc_assets.protocols.events import Op, RowEvent, RowHints
from ticdc_assets.sources.capture import Message


def test_a_name_without_a_problem_is_read():
    state = NameState(rows=5, above=4, repeats=3, zero_dates=2, ambiguous_times=1)

    assert state.report(("s", "t")) == FileReport(
        "s.t", ("s", "t"), FileState.READ, 5, 4, 3, 2, (), None, shapes=(), ambiguous_times=1
    )
    assert NameState().report(("s", "t")) == FileReport("s.t", ("s", "t"), FileState.READ)


def test_a_stopped_table_does_not_wait():
    later, bad = Note(NoteCode.INPUT, "later"), Note(NoteCode.INPUT, "bad")
    waits, stopped = NameState(), NameState()
    stopped.stops(bad)
    for state in (waits, stopped):
        state.waits(later)

    assert (waits.state, waits.problem) == (FileState.WAITING, later)
    assert (stopped.state, stopped.problem) == (FileState.STOPPED, bad)


@pytest.mark.parametrize(("version", "named"), [(None, "the schema that its"), (7, "the schema version 7 that its")])
def test_a_row_waits_for_the_schema_that_it_names(version: int | None, named: str):
    row = RowEvent("s", "t", Op.INSERT, 1, {}, hints=RowHints(schema_version=version))

    assert no_schema(row).detail == f"s.t: expected {named} rows were written with, found none yet."
    assert f"s.t: {DISPLACED}" in no_table(row, Message("feed", 0, 1, None, b"", 0)).detail
