"""Where rows belong: their schema periods, and what a run does with them."""

from __future__ import annotations

import numpy as np

from ticdc_assets.pipeline.rows.place import NO_PERIOD, by_period, have_schema, in_range, periods_at
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, Timeline, Version
from ticdc_assets_tests.schema.history.histories import table

FIRST, SECOND = (SchemaPeriod(ts, f"t@{ts}", Version(ts, table("t", "id"))) for ts in (10, 30))
TIMELINE: Timeline = (FIRST, SchemaGap(20), SECOND)
TIMES = np.array([10, 11, 20, 21, 30, 31])
EVERY = np.ones(len(TIMES), np.bool_)


def test_a_statement_takes_effect_after_the_rows_of_its_own_tso():
    assert periods_at(TIMELINE, TIMES).tolist() == [NO_PERIOD, 0, 0, 1, 1, 2]


def test_rows_before_the_first_period_and_in_gaps_have_no_schema():
    periods = periods_at(TIMELINE, TIMES)

    assert have_schema(TIMELINE, periods).tolist() == [False, True, True, False, False, True]
    assert have_schema((), periods_at((), TIMES)).tolist() == [False] * 6


def test_rows_are_found_by_their_schema_period():
    periods = periods_at(TIMELINE, TIMES)

    found = [(period, rows.tolist()) for period, rows in by_period(TIMELINE, periods, EVERY)]
    of_some = [(period, rows.tolist()) for period, rows in by_period(TIMELINE, periods, TIMES != 11)]

    assert found == [(FIRST, [1, 2]), (SECOND, [5])]
    assert of_some == [(FIRST, [2]), (SECOND, [5])]


def test_rows_up_to_the_watermark_are_repeats_where_an_earlier_run_has_read_them_and_else_late():
    found = in_range(10, 30, TIMES, np.array([True, True, False, True, False, True]))
    unread = in_range(10, 30, TIMES, ~EVERY)

    assert [mask.nonzero()[0].tolist() for mask in found] == [[1, 2, 3, 4], [5], [0], []]
    assert [mask.nonzero()[0].tolist() for mask in unread] == [[1, 2, 3, 4], [5], [], [0]]
