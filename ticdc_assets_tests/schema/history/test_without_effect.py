"""Statements that change no column, key or row of a table leave it as it is and stop nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable

CASES = [
    line
    for line in (Path(__file__).parent / "data" / "without_effect.sql").read_text().splitlines()
    if line and not line.startswith("--")
]
CREATE = (
    "CREATE TABLE `t` (`id` INT NOT NULL,`a` INT DEFAULT 3,`v` VARCHAR(20),`at` DATETIME,PRIMARY KEY(`id`))"
    " PARTITION BY HASH (`id`) PARTITIONS 2"
)
BEFORE = DdlEvent(1, "s", "t", CREATE)


def ddl(line: str) -> DdlEvent:
    return DdlEvent(2, "s", "", line[1:]) if line.startswith("@") else DdlEvent(2, "s", "t", line)


def only(events: list[DdlEvent]) -> SourceTable:
    [source_table] = fold(events).source_tables
    return source_table


@pytest.mark.parametrize("line", CASES)
def test_a_statement_without_effect_leaves_its_table_as_it_was(line: str):
    source_table = only([BEFORE, ddl(line)])

    assert source_table.stop is None
    assert source_table.dropped_ts is None
    [version] = source_table.versions
    before = only([BEFORE]).versions[0].table
    assert (version.table.columns, version.table.key) == (before.columns, before.key)
    assert version.effects == ()


@pytest.mark.parametrize("line", CASES)
def test_a_statement_without_effect_does_not_stop_a_table_that_appears_later(line: str):
    [source_table] = fold([ddl(line), DdlEvent(3, "s", "t", CREATE)]).source_tables

    assert source_table.stop is None
