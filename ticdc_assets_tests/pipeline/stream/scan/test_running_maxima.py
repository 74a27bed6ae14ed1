"""The running maxima of a partition equal those of a list of its messages."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.pipeline.stream.scan.result import RunningMaxima

NUMBERS = st.integers(0, 6)
ROWS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=4), max_size=4)


@given(ROWS, NUMBERS)
def test_batches_tell_what_all_their_rows_tell(batches: list[list[tuple[int, int, int]]], bound: int):
    maxima, rows = RunningMaxima(), [row for batch in batches for row in batch]
    for batch in batches:
        maxima.add(*np.array(batch, np.int64).reshape(-1, 3).T)

    assert maxima.newest == (rows[-1][1] if rows else -1)
    assert maxima.first_offset_above(bound) == min((offset for offset, ts, _ in rows if ts > bound), default=None)
    assert maxima.first_ordinal_above(bound) == next((ordinal for _, ts, ordinal in rows if ts > bound), None)
    assert maxima.first_offset_from(bound) == min((offset for offset, _, _ in rows if offset >= bound), default=None)
