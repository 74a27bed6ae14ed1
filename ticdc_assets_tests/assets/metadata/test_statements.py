"""The statements of a table as its asset shows them: of all its names, the newest first, and never more than text."""

from __future__ import annotations

import pytest

from ticdc_assets.assets.stages.changelogs import SHOWN_MAX, by_name, statement_list
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable, Version
from ticdc_assets.schema.model import TableSchema


def event(ts: int, table: str, query: str) -> DdlEvent:
    return DdlEvent(commit_ts=ts, schema="shop", table=table, query=query)


def of(periods: list[NamePeriod], *events: DdlEvent) -> str:
    source_table = SourceTable("shop.t@1", tuple(periods), (Version(1, TableSchema("shop", "t", ())),))
    return statement_list(source_table, by_name(events))


def test_a_table_has_the_statements_of_the_names_that_it_had_then():
    periods = [NamePeriod("shop", "Old", 1, 5), NamePeriod("shop", "new", 5, None)]

    text = of(
        periods,
        event(1, "old", "CREATE a"),
        event(5, "new", "RENAME b"),
        event(7, "old", "CREATE another"),
        event(3, "new", "CREATE before"),
        event(9, "NEW", "ALTER c"),
        event(9, "new", "ALTER c"),
        event(8, "new", ""),
    )

    assert [line for line in text.splitlines() if line[:1].isupper() and not line.startswith("TSO")] == [
        "ALTER c",
        "RENAME b",
        "CREATE a",
    ]


def test_only_the_newest_statements_are_shown_and_the_others_are_counted():
    text = of([NamePeriod("shop", "t", 0, None)], *(event(n, "t", f"ALTER {n}") for n in range(1, SHOWN_MAX + 4)))

    assert "ALTER 4\n" in text
    assert "ALTER 3\n" not in text
    assert text.endswith("3 older in the control table `schemas`.")


def test_a_text_with_backticks_stays_inside_its_block():
    text = of([NamePeriod("shop", "t", 0, None)], event(1, "t", "ALTER `a```\n# not a heading`"))

    opened, *_, closed = [line for line in text.splitlines() if set(line) - set("sql") == {"`"}]
    assert (opened, closed) == ("````sql", "````")


SHOWN = {
    "ALTER TABLE t ADD c CHAR(9) DEFAULT 'Ann' AFTER b": "ALTER TABLE t ADD c CHAR(9) DEFAULT '...' AFTER b",
    'ALTER TABLE t ADD c INT DEFAULT 7 /* Ann */ COMMENT "it\'s"': "ALTER TABLE t ADD c INT DEFAULT 7 COMMENT '...'",
    "ALTER TABLE t PARTITION p VALUES IN (x'416e6e', 0x41)": "ALTER TABLE t PARTITION p VALUES IN ('...', '...')",
    "ALTER TABLE t DEFAULT 'Ann": "ALTER TABLE t DEFAULT ...",
    "FROB 'Ann' \\ 'Bob'": "FROB '...' ...",
}


@pytest.mark.parametrize("query", SHOWN)
def test_texts_in_quotes_and_comments_are_not_shown(query: str):
    assert of([NamePeriod("shop", "t", 0, None)], event(1, "t", query)).splitlines()[2] == SHOWN[query]
