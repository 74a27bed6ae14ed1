"""The begin, names and versions of a table, by the first event of it."""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.schema.model import Default, TableSchema
from ticdc_assets_tests.schema.history.histories import event, table

T = table("t", "id", key=("id",))
MORE = table("t", "id", "v", key=("id",))
CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"
ADD = "ALTER TABLE `t` ADD COLUMN `v` INT"
Life = tuple[str, list[tuple[str, int, int | None]], list[tuple[int, int]], int | None]
"""Id, names with their periods, versions as (from_ts, number of columns), drop."""


def lives(history: History) -> list[Life]:
    return [
        (
            found.id,
            [(period.table, period.after_ts, period.until_ts) for period in found.name_periods],
            [(version.from_ts, len(version.table.columns)) for version in found.versions],
            found.dropped_ts,
        )
        for found in history.source_tables
    ]


def shown(ts: int, after: TableSchema) -> DdlEvent:
    """A schema without a statement."""
    return event(ts, after.name, "", after=after)


def test_a_table_that_is_made_in_the_stream_begins_there():
    history = fold([event(10, "t", CREATE)])

    assert lives(history) == [("shop.t@10", [("t", 10, None)], [(10, 1)], None)]
    assert history.source_tables[0].marks == ()


def test_a_table_that_is_shown_is_older_than_the_stream():
    history = fold([shown(10, T)])

    assert lives(history) == [("shop.t@10", [("t", 0, None)], [(0, 1)], None)]
    assert history.source_tables[0].marks == ("older than the stream",)


def test_a_table_whose_name_another_one_had_begins_where_it_is_shown():
    history = fold([event(10, "t", CREATE), event(20, "t", "DROP TABLE `t`"), shown(30, MORE)])

    assert lives(history) == [
        ("shop.t@10", [("t", 10, 20)], [(10, 1)], 20), ("shop.t@30", [("t", 30, None)], [(30, 2)], None),
    ]  # fmt: skip


def test_a_table_whose_first_event_is_an_alter_had_the_columns_that_the_stream_says():
    altered = event(20, "t", ADD, after=MORE)

    folded = fold([replace(altered, before=T, hints=DdlHints(before_version=7))])
    assert lives(folded) == [("shop.t@7", [("t", 0, None)], [(0, 1), (20, 2)], None)]
    versions = folded.source_tables[0].versions
    assert {(version.table.schema, version.table.name) for version in versions} == {("shop", "t")}
    without = fold([replace(altered, before=T)])
    assert lives(without) == [("shop.t@0", [("t", 0, None)], [(0, 1), (20, 2)], None)]
    after_alone = fold([altered])
    assert lives(after_alone) == [("shop.t@20", [("t", 0, None)], [(0, 2)], None)]


def test_a_table_whose_first_event_is_a_drop_existed_until_then():
    history = fold(
        [event(20, "t", "DROP TABLE `t`"), replace(event(30, "u", "DROP TABLE `u`"), before=table("u", "a"))]
    )

    assert lives(history) == [("shop.u@0", [("u", 0, 30)], [(0, 1)], 30)]


def test_a_table_whose_first_event_is_a_rename_had_the_old_name():
    renamed = event(20, "u", "RENAME TABLE `t` TO `u`", after=replace(T, name="u"))

    folded = fold([replace(renamed, before=T, hints=DdlHints(before_version=7, old_name=("shop", "t")))])
    assert lives(folded) == [("shop.t@7", [("t", 0, 20), ("u", 20, None)], [(0, 1)], None)]
    after_alone = fold([renamed])
    assert lives(after_alone) == [("shop.u@20", [("u", 20, None)], [(20, 1)], None)]


def test_a_table_that_is_made_again_was_dropped():
    history = fold([event(10, "t", CREATE), event(20, "t", CREATE)])

    assert lives(history) == [
        ("shop.t@10", [("t", 10, 20)], [(10, 1)], 20), ("shop.t@20", [("t", 20, None)], [(20, 1)], None),
    ]  # fmt: skip


def test_a_dropped_database_takes_its_tables():
    history = fold([
        event(10, "t", CREATE), event(11, "t", CREATE, schema="other"), event(20, "", "DROP DATABASE `SHOP`"),
    ])  # fmt: skip

    assert [found.dropped_ts for found in history.source_tables] == [20, None]


def test_a_table_from_the_config_is_shown_as_in_the_config():
    changed = replace(T, columns=(replace(T.columns[0], default=Default("5")),))

    same = fold([shown(10, T)], Known({("shop", "t"): changed})).source_tables[0]
    assert (same.newest.columns[0].default, same.marks) == (Default("5"), ())
    other = fold([shown(10, T)], Known({("shop", "t"): MORE})).source_tables[0]
    assert len(other.newest.columns) == 1
    assert other.marks == ("older than the stream", "schema_files describe other columns")


def test_a_key_that_the_user_names_is_the_tables():
    keyless = table("t", "id")

    named = fold([shown(10, keyless)], Known(key_of=lambda _schema, name: ("ID",) if name == "t" else None))
    assert (named.source_tables[0].newest.key, named.source_tables[0].marks) == (("id",), ("older than the stream",))
    assert len(fold([shown(10, keyless)]).source_tables[0].marks) == 2


# -- shapes that rows show ---------------------------------------------------------------------------------------------


def inferred(of: TableSchema, ts: int, version: int | None) -> DdlEvent:
    return replace(shown(ts, replace(of, inferred=True)), hints=DdlHints(version=version))


def test_a_registered_schema_with_another_column_tells_what_older_rows_hold():
    defaulted = replace(MORE, columns=(MORE.columns[0], replace(MORE.columns[1], default=Default("5"))))
    for after, fill in ((MORE, Default()), (defaulted, Default("5"))):
        [found] = fold([inferred(T, 10, 1), inferred(after, 20, 2)]).source_tables
        assert [(v.from_ts, len(v.table.columns)) for v in found.versions] == [(0, 1), (20, 2)]
        assert found.versions[1].effects == (FillColumn(2, "v", MORE.columns[1].type, fill),)
    [less] = fold([inferred(MORE, 10, 1), inferred(T, 20, 2)]).source_tables
    assert less.versions[-1].effects == ()


def test_a_registered_schema_of_another_key_is_of_another_table():
    other = table("t", "id", "v", key=("v",))

    assert lives(fold([inferred(T, 10, 1), inferred(other, 20, 2)])) == [
        ("shop.t@10", [("t", 0, 20)], [(0, 1)], 20), ("shop.t@20", [("t", 20, None)], [(20, 2)], None),
    ]  # fmt: skip


def test_rows_with_more_columns_widen_their_table():
    [found] = fold([inferred(T, 10, None), inferred(MORE, 20, None)]).source_tables
    assert [(v.from_ts, len(v.table.columns), v.effects) for v in found.versions] == [(0, 1, ()), (20, 2, ())]

    [stopped] = fold([inferred(T, 10, None), inferred(table("t", "id", "v", key=("v",)), 20, None)]).source_tables
    assert stopped.stop is not None
    assert stopped.stop.ts == 20


def test_a_table_that_is_shown_otherwise_than_its_statements_lead_to_stops():
    [stopped] = fold([event(10, "t", CREATE), shown(20, MORE)]).source_tables
    [same] = fold([event(10, "t", CREATE), shown(20, T)]).source_tables

    assert stopped.stop is not None
    assert (stopped.stop.ts, same.stop) == (20, None)


# -- names that change hands -------------------------------------------------------------------------------------------


def test_a_name_that_exists_only_inside_a_statement_is_no_name():
    history = fold([event(10, "t", CREATE), event(20, "tmp", "RENAME TABLE `t` TO `tmp`"),
                    event(20, "u", "RENAME TABLE `tmp` TO `u`")])  # fmt: skip

    assert lives(history) == [("shop.t@10", [("t", 10, 20), ("u", 20, None)], [(10, 1)], None)]


def test_a_table_in_the_way_of_a_rename_was_dropped():
    history = fold([event(10, "t", CREATE), event(11, "u", CREATE.replace("`t`", "`u`")),
                    event(20, "u", "RENAME TABLE `t` TO `u`")])  # fmt: skip

    assert lives(history) == [
        ("shop.t@10", [("t", 10, 20), ("u", 20, None)], [(10, 1)], None),
        ("shop.u@11", [("u", 11, 20)], [(11, 1)], 20),
    ]


def test_a_table_that_was_shown_under_its_new_name_had_the_old_one_before():
    shown_first = replace(shown(10, replace(T, name="u")), hints=DdlHints(version=10))
    renamed = replace(event(20, "u", "RENAME TABLE `t` TO `u`", after=replace(T, name="u")), hints=DdlHints(version=10))

    assert lives(fold([shown_first, replace(renamed, hints=replace(renamed.hints, old_name=("shop", "t")))])) == [
        ("shop.u@10", [("t", 0, 20), ("u", 20, None)], [(0, 1)], None)
    ]


def test_a_table_that_an_event_does_not_name_has_the_name_in_its_statement():
    unnamed = replace(event(10, "", "CREATE TABLE `T` (`id` INT PRIMARY KEY)"), table="")

    assert [table.name for table in fold([unnamed]).source_tables] == [("shop", "T")]


def test_a_rename_that_came_again_while_its_old_name_is_free_or_its_new_one_is_gone_stops_nothing():
    def written(ts: int, name: str, query: str, place: int) -> DdlEvent:
        return replace(event(ts, name, query), origin=DdlOrigin(True, commit_ms=0, place=("feed", 0, place)))

    renamed = "RENAME TABLE `t` TO `u`"
    first = [written(10, "t", CREATE, 1), written(20, "u", renamed, 2)]
    same = fold([*first, written(30, "u", renamed, 3)])
    other = fold([*first, written(25, "u", "DROP TABLE `u`", 3), written(26, "t", CREATE.replace("id", "no"), 4),
                  written(30, "u", renamed, 5)])  # fmt: skip

    assert [(source_table.name[1], source_table.stop) for source_table in same.source_tables] == [("u", None)]
    assert [(x.name[1], x.stop, x.dropped_ts) for x in other.source_tables] == [("u", None, 25), ("u", None, None)]


def test_a_rename_that_came_again_after_its_names_went_to_other_tables_stops_both():
    """Rows that came again with it are of one of the two, and the stream does not say of which."""
    statements = [(10, "t", CREATE), (20, "u", "RENAME TABLE `t` TO `u`"), (30, "t", CREATE)]
    written = [
        replace(event(ts, name, query), origin=DdlOrigin(True, commit_ms=ts, place=("feed", 0, ts)))
        for ts, name, query in statements
    ]
    again = replace(written[1], commit_ts=40, origin=replace(written[1].origin, place=("feed", 0, 40)))

    stops = {table.name[1]: table.stop for table in fold([*written, again]).source_tables}

    assert {name: stop and (stop.ts, "a RENAME came again" in stop.reason) for name, stop in stops.items()} == {
        "t": (40, True),
        "u": (40, True),
    }
    assert [table.stop for table in fold(written).source_tables] == [None, None]
