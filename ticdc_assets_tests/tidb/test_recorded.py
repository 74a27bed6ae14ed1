"""What statements do to tables and rows, as a TiDB server did it: recorded once, replayed without a server."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ticdc_assets_tests.tidb.evaluated import evaluate
from ticdc_assets_tests.tidb.recorded import KINDS, recorded
from ticdc_assets_tests.tidb.replayed import Step, differences, steps_of

LEAST = {"random": 700, "conversions": 1100, "defaults": 50, "partitions": 200}
"""How many schemas there are of each kind; fewer would be a corpus that is cut."""


@cache
def steps(kind: str) -> list[Step]:
    return [step for history in recorded(kind) for step in steps_of(history)]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_become_what_the_server_made_of_them(kind: str):
    assert len(recorded(kind)) >= LEAST[kind]

    plain = [step for step in steps(kind) if not (step.converts or step.deletes)]

    assert differences(plain) == []
    assert sum(not step.held for step in plain) >= len(recorded(kind))


@pytest.mark.long
@pytest.mark.spark
def test_rows_become_what_the_server_made_of_them_or_hold_their_table(tmp_path: Path):
    changed = [step for kind in KINDS for step in steps(kind) if step.converts or step.deletes]
    evaluate([e for step in changed for e in (*step.converts.values(), *step.deletes)], tmp_path)

    assert differences(changed) == []
    converted = [step for step in changed if step.converts]
    assert len(converted) >= 1100
    # A conversion that refuses everything would be right too.
    exact = [value for step in converted for value in step.known_values()]
    assert len(exact) >= 7000
