"""A source table is found by its names and versions exactly where they begin and end."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import (
    History,
    NamePeriod,
    SchemaGap,
    SchemaPeriod,
    SourceTable,
    Version,
    fold_name,
    same_name,
)
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.schema.history.histories import event

ONE, TWO, THREE = (Version(ts, TableSchema("s", "t", ())) for ts in (10, 20, 40))
RENAMED = SourceTable("s.t@10", (NamePeriod("s", "t", 10, 30), NamePeriod("s", "U", 30, 50)), (ONE, TWO, THREE), 50)
NEXT = SourceTable("s.t@30", (NamePeriod("S", "T", 30),), (Version(30, TableSchema("s", "t", ())),))
HISTORY = History((RENAMED, NEXT))


def test_names_are_compared_without_regard_to_case():
    assert fold_name("Shop", "ORDERS") == ("shop", "orders")
    assert same_name(("S", "t"), ("s", "T"))
    assert not same_name(("s", "t"), ("s", "u"))


@pytest.mark.parametrize(
    ("ts", "name"), [(9, None), (10, ("s", "t")), (29, ("s", "t")), (30, ("s", "U")), (49, ("s", "U")), (50, None)]
)
def test_a_table_is_called_what_its_statements_up_to_a_ts_call_it(ts: int, name: tuple[str, str] | None):
    assert RENAMED.name_at(ts) == name


def test_a_table_has_its_newest_name_and_all_earlier_ones():
    assert RENAMED.name == ("s", "U")
    assert RENAMED.was_ever(lambda _schema, table: table == "t")
    assert not RENAMED.was_ever(lambda _schema, table: table == "v")


def test_a_table_first_appears_at_the_ts_in_its_id():
    assert RENAMED.first_event_ts == 10
    assert SourceTable("a@b.c@7", RENAMED.name_periods, RENAMED.versions).first_event_ts == 7


@pytest.mark.parametrize(("ts", "version"), [(5, ONE), (10, ONE), (20, ONE), (21, TWO), (40, TWO), (41, THREE)])
def test_a_row_has_the_version_of_the_last_statement_below_its_ts(ts: int, version: Version):
    assert RENAMED.version_at(ts) is version
    assert RENAMED.newest is THREE.table


@pytest.mark.parametrize(
    ("name", "ts", "found"),
    [
        ("t", 10, None),
        ("T", 11, (RENAMED, ONE)),
        ("t", 30, (RENAMED, TWO)),
        ("t", 31, (NEXT, NEXT.versions[0])),
        ("u", 30, None),
        ("u", 31, (RENAMED, TWO)),
        ("u", 50, (RENAMED, THREE)),
        ("u", 51, None),
        ("v", 30, None),
    ],
)
def test_a_row_is_of_the_table_that_had_its_name_at_its_ts(name: str, ts: int, found: object):
    assert HISTORY.as_of("S", name, ts) == found


def test_the_tables_that_ever_had_a_name_are_found_once_each():
    again = SourceTable("s.a@1", (NamePeriod("s", "a", 1, 2), NamePeriod("s", "b", 2, 3), NamePeriod("s", "A", 3)), ())

    assert list(HISTORY.ever_called("S", "t")) == [RENAMED, NEXT]
    assert list(History((again,)).ever_called("s", "a")) == [again]
    assert list(HISTORY.ever_called("s", "v")) == []
    assert HISTORY.by_id() == {"s.t@10": RENAMED, "s.t@30": NEXT}


def test_a_name_has_a_period_for_each_table_and_version_and_the_gaps_between_them():
    assert HISTORY.timelines() == {
        ("s", "t"): (
            SchemaPeriod(10, RENAMED.id, ONE),
            SchemaPeriod(20, RENAMED.id, TWO),
            SchemaPeriod(30, NEXT.id, NEXT.versions[0]),
        ),
        ("s", "u"): (
            SchemaPeriod(30, RENAMED.id, TWO),
            SchemaPeriod(40, RENAMED.id, THREE),
            SchemaGap(50),
        ),
    }
    backwards = History((NEXT, RENAMED)).timelines()
    assert backwards == HISTORY.timelines()


def test_a_version_at_the_end_of_a_name_is_no_part_of_it():
    table = SourceTable("s.t@10", (NamePeriod("s", "t", 10, 20), NamePeriod("s", "u", 20)), (ONE, TWO))

    assert History((table,)).timelines() == {
        ("s", "t"): (SchemaPeriod(10, table.id, ONE), SchemaGap(20)),
        ("s", "u"): (SchemaPeriod(20, table.id, TWO),),
    }


def test_a_version_one_tso_after_the_name_begins_there():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(11, "t", "ALTER TABLE `t` ADD COLUMN `v` INT"),
    ])  # fmt: skip

    periods = history.timelines()["shop", "t"]

    assert [(p.after_ts, len(p.version.table.columns)) for p in periods if isinstance(p, SchemaPeriod)] == [
        (10, 1),
        (11, 2),
    ]
