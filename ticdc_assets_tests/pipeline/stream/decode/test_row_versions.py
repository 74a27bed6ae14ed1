"""The schema version of a row, by the time that the stream gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.place import NO_PERIOD, by_name
from ticdc_assets.pipeline.stream.decode.task import Decoding, MessageTask, RowOrder, Schemas, VersionClock
from ticdc_assets.protocols.columnar.event_rows import tables_of
from ticdc_assets.protocols.events import Op, RowEvent, RowHints, RowTime
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import Timeline
from ticdc_assets.sources.capture import Message, MessagePosition
from ticdc_assets.sources.message_block import MessageBlock
from ticdc_assets.tso import LOGICAL_BITS
from ticdc_assets_tests.schema.history.histories import event

T = ("shop", "t")
CREATE, ADD = "CREATE TABLE `t` (`id` INT PRIMARY KEY)", "ALTER TABLE `t` ADD COLUMN `v` INT"
BLOCK = MessageBlock.of([(MessagePosition(), Message("feed", 0, 0, b"", b"", 0))])


def timeline(*statements: tuple[int, str]) -> Timeline:
    return fold(event(ts, "t", text) for ts, text in statements).timelines()[T]


DROPPED = timeline((10, CREATE), (20, ADD), (30, "DROP TABLE `t`"), (40, CREATE))


def version_of(
    known: Timeline,
    row: RowEvent,
    clock: VersionClock = VersionClock.COMMIT_TS,
    *,
    protocol: str = "canal-json",
    ordinal: int = 0,
    placed: dict[int, int] | None = None,
    versions: dict[Any, int] | None = None,
    given: frozenset[tuple[str, str]] = frozenset(),
) -> int | None:
    """The TSO after which the row's version is in effect."""
    schemas = Schemas({T: known}, versions or {}, {}, given, TableFilter(()), clock)
    task = MessageTask(
        "run", 0, 99, None, Decoding(protocol, None, "UTC"), schemas, RowOrder(False, {}, placed=placed or {}), {}
    )  # type: ignore[arg-type]
    [table] = tables_of([(0, 0, row)])
    [found] = by_name(task, MessageBatch(np.array([ordinal]), BLOCK), table)
    [period], [has_schema] = found.periods, found.has_schema
    assert has_schema or period == NO_PERIOD or period in range(len(known))
    return known[period].after_ts if has_schema else None


def row(commit_ts: int | None = None, *columns: str, version: int | None = None, ms: int | None = None) -> RowEvent:
    wire = dict.fromkeys(columns, "1")
    hints, time = RowHints(schema_version=version), RowTime(commit_ms=ms)
    return RowEvent("shop", "t", Op.INSERT, commit_ts, wire, hints=hints, time=time)


@pytest.mark.parametrize(
    ("commit_ts", "version"), [(10, None), (11, 10), (20, 10), (21, 20), (30, 20), (31, None), (40, None), (41, 40)]
)
def test_a_row_has_the_columns_from_before_a_statement_of_its_own_commit_ts(commit_ts: int, version: int | None):
    """Between a drop and the next table of the name there is no version."""
    assert version_of(DROPPED, row(commit_ts)) == version


def test_a_row_of_a_name_that_nothing_is_known_of_has_no_version():
    assert version_of((), row(11)) is None


# -- rows with the time of their commit in milliseconds ----------------------------------------------------------------

IN_MS = timeline(
    (1 << LOGICAL_BITS, CREATE), ((5 << LOGICAL_BITS) + 3, ADD), ((5 << LOGICAL_BITS) + 9, ADD.replace("`v`", "`w`"))
)


@pytest.mark.parametrize(
    ("ms", "columns", "version"),
    [
        (4, ("id",), 1 << LOGICAL_BITS),
        (4, ("id", "v"), 1 << LOGICAL_BITS),
        (5, ("id",), 1 << LOGICAL_BITS),
        (5, ("ID", "V"), (5 << LOGICAL_BITS) + 3),
        (5, ("id", "v", "w"), (5 << LOGICAL_BITS) + 9),
        (5, ("id", "other"), 1 << LOGICAL_BITS),
        (6, ("id",), (5 << LOGICAL_BITS) + 9),
    ],
)
def test_a_row_in_the_millisecond_of_a_statement_is_from_before_it_unless_it_has_the_columns_from_after_it(
    ms: int, columns: tuple[str, ...], version: int
):
    assert version_of(IN_MS, row(None, *columns, ms=ms), VersionClock.COMMIT_MS) == version


def test_a_row_in_the_millisecond_in_which_a_table_took_a_free_name_is_of_that_table_if_it_has_its_columns():
    again = timeline(
        (1 << LOGICAL_BITS, CREATE), (4 << LOGICAL_BITS, "DROP TABLE `t`"), ((5 << LOGICAL_BITS) + 3, CREATE)
    )

    assert version_of(again, row(None, "id", ms=5), VersionClock.COMMIT_MS) == (5 << LOGICAL_BITS) + 3
    assert version_of(again, row(None, "id", "v", ms=5), VersionClock.COMMIT_MS) is None


# -- deletes without any time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("placed", "version"), [(0, 10), (10, 10), (11, 10), (21, 20), (35, 20), (40, 20), (41, 40)])
def test_a_delete_without_a_time_is_of_the_newest_table_before_its_place(placed: int, version: int):
    """Before the first table, it is of that one; after a drop, of the table that was dropped."""
    assert version_of(DROPPED, row(), ordinal=7, placed={7: placed, 8: 0}) == version


def test_a_delete_that_was_given_no_place_is_of_the_first_table():
    assert version_of(DROPPED, row(), ordinal=6, placed={7: 41}) == 10


# -- rows that name the version of their schema ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ordinal", "version", "found"),
    [(25, 1, 10), (11, 2, 20), (25, None, 20), (20, None, 20), (19, None, 10), (5, 3, 10)],
)
def test_by_position_a_row_has_the_version_that_it_names_else_the_one_at_its_own_position(
    ordinal: int, version: int | None, found: int
):
    versions = {(T, 1): 10, (T, 2): 20, (T, 3): 4}

    assert version_of(DROPPED, row(version=version), VersionClock.POSITION, ordinal=ordinal, versions=versions) == found


@pytest.mark.parametrize(
    ("version", "given", "found"),
    [(1, frozenset(), 20), (2, frozenset(), None), (2, frozenset({T}), 20), (None, frozenset({T}), 20)],
)
def test_a_row_of_simple_waits_for_the_version_that_it_names_unless_the_user_gave_the_schema(
    version: int | None, given: frozenset[tuple[str, str]], found: int | None
):
    named = row(25, version=version)

    assert version_of(DROPPED, named, protocol="simple", versions={(T, 1): 10}, given=given) == found
