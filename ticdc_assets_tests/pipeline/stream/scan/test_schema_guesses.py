"""Which tables of a stream get a guessed schema, and its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.pipeline.stream.decode.official_canal import PositionedRow
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.inferred_schemas import SchemaGuesses
from ticdc_assets.pipeline.stream.scan.result import ScannedTables, StreamScan
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.schema.history.fold.events import Folds, Known
from ticdc_assets_tests.schema.history.histories import event, table

T = ("shop", "t")
USERS = table("t", "id", "v", key=("id",))
ROWS = replace(table("t", "id", "w", key=("id",)), inferred=True)
CREATE = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)"


def guesses(known: Known, *rows: tuple[str, int, DdlEvent | None]) -> SchemaGuesses:
    """For a stream in which the first row of each table has this commit_ts and this schema."""
    tables = ScannedTables(
        first_rows={("shop", name): ("shop", name, ts) for name, ts, _ in rows},
        inferred={("shop", name): schema for name, _, schema in rows if schema is not None},
    )
    return SchemaGuesses(Folds(known), StreamScan(tables=tables), {})


def inferred(ts: int, name: str = "t", *columns: str) -> DdlEvent:
    """The schema of a table's first row, in effect from just before that row."""
    schema = replace(table(name, *(columns or ("id", "w")), key=("id",)), inferred=True)
    return event(ts - 1, name, "", after=schema)


def added(guess: SchemaGuesses, *known: DdlEvent, high: int | None = None) -> list[DdlEvent]:
    events = guess.added_to(known, high)
    assert events[: len(known)] == list(known)
    return events[len(known) :]


def names(events: list[DdlEvent]) -> list[list[str]]:
    return [[column.name for column in made.after.columns] for made in events if made.after is not None]


@pytest.mark.parametrize(
    ("columns", "expected"), [(("id", "v"), ["id", "v"]), (("ID", "V"), ["id", "v"]), (("id", "w"), ["id", "w"])]
)
def test_the_users_schema_is_taken_unless_the_first_row_has_other_columns(
    columns: tuple[str, ...], expected: list[str]
):
    assert names(added(guesses(Known({T: USERS}), ("t", 15, inferred(15, "t", *columns))))) == [expected]


def test_the_users_schema_is_taken_where_the_first_row_tells_no_columns():
    assert names(added(guesses(Known({T: USERS}), ("t", 15, None)))) == [["id", "v"]]
    assert names(added(guesses(Known({T: USERS}), ("t", 15, replace(inferred(15), after=None))))) == [["id", "v"]]


def test_the_users_schema_holds_for_all_rows_and_names_its_file():
    [made] = added(guesses(Known({T: USERS}), ("t", 15, None)))

    assert (made.commit_ts, made.query, made.where) == (0, "", "schema_files")


def test_a_table_that_a_statement_of_the_stream_creates_needs_no_guess_whatever_its_first_row_tells():
    created = event(10, "t", CREATE)

    assert added(guesses(Known(), ("t", 15, inferred(15))), created) == []
    assert added(guesses(Known({T: USERS}), ("t", 15, inferred(15))), created) == []
    assert added(guesses(Known(), ("t", 15, inferred(15))), event(1, "t", CREATE)) == []


def test_a_row_at_or_before_the_statement_that_creates_its_table_is_of_an_older_one():
    """A statement takes effect behind the rows with its own commit_ts."""
    created = event(10, "t", CREATE)

    assert names(added(guesses(Known(), ("t", 10, inferred(10))), created)) == [["id", "w"]]
    assert added(guesses(Known(), ("t", 11, inferred(11))), created) == []


@pytest.mark.parametrize(("columns", "expected"), [(("id", "v"), []), (("id", "w"), ["t"])])
def test_a_history_that_begins_with_the_users_schema_is_believed_only_by_rows_that_fit_it(
    columns: tuple[str, ...], expected: list[str]
):
    """The first rows after a RENAME have the columns of the user's file, or the file is of another time."""
    found = guesses(
        Known({("shop", "u"): replace(USERS, name="u")}), ("u", 15, None), ("t", 25, inferred(25, "t", *columns))
    )

    assert [made.table for made in added(found, event(20, "t", "RENAME TABLE `u` TO `t`"))] == expected


def test_a_row_is_compared_with_the_columns_at_its_own_commit_ts():
    """Right behind the statement that gave its table the name, and at the one that takes the name away."""
    row = ("t", 25, inferred(25, "t", "id", "v"))
    of_u = Known({("shop", "u"): replace(USERS, name="u")})

    assert added(guesses(of_u, ("u", 15, None), row), event(24, "t", "RENAME TABLE `u` TO `t`")) == []
    assert added(guesses(Known({T: USERS}), row), event(25, "x", "RENAME TABLE `t` TO `x`")) == []


def test_a_row_without_a_commit_ts_needs_a_guess_only_where_no_table_ever_had_the_name():
    undated = replace(inferred(15), commit_ts=0)

    assert names(added(guesses(Known(), ("t", 0, undated)))) == [["id", "w"]]
    assert added(guesses(Known(), ("t", 0, undated)), event(10, "t", CREATE)) == []


def test_rows_above_the_bound_are_not_looked_at():
    found = guesses(Known(), ("t", 15, inferred(15)))

    assert names(added(found, high=15)) == [["id", "w"]]
    assert added(found, high=14) == []


def test_a_guess_for_one_table_may_be_another_tables_past():
    """Rows of `u` are older than the RENAME, those of `t` younger: one table, and one guess, that of the first row."""
    rename = event(20, "t", "RENAME TABLE `u` TO `t`")
    found = guesses(Known(), ("t", 25, inferred(25)), ("u", 15, inferred(15, "u", "id", "x")))

    assert [(made.table, names([made])) for made in added(found, rename)] == [("u", [["id", "x"]])]


def test_tables_that_only_later_statements_mention_are_as_they_were_before_the_first_of_them():
    before, after = table("t", "id", key=("id",)), table("t", "id", "v", key=("id",))
    later = [
        replace(
            event(30, "t", "ALTER TABLE `t` ADD COLUMN `v` INT", after=after),
            before=before,
            hints=DdlHints(before_version=7),
        ),
        replace(event(40, "t", "ALTER TABLE `t` DROP COLUMN `v`", after=before), before=after),
    ]

    assert [(e.commit_ts, e.hints.version, e.after, e.query) for e in guesses(Known()).as_of(20, later)] == [
        (7, 7, before, "")
    ]
    assert guesses(Known()).as_of(30, later)[0] == later[0]
    assert len(guesses(Known()).as_of(30, later)) == 1


def test_a_table_that_a_later_statement_creates_is_not_as_it_was():
    later = [
        event(30, "t", CREATE),
        replace(event(40, "t", "ALTER TABLE `t` DROP COLUMN `v`"), before=USERS),
    ]

    assert guesses(Known()).as_of(20, later) == []


def test_a_statement_at_the_bound_is_no_later_one():
    """What a statement at the bound says of its table before it is for the history to read, not for a guess."""
    changed = replace(event(40, "t", "ALTER TABLE `t` FROBNICATE"), before=USERS, hints=DdlHints(before_version=7))

    assert guesses(Known()).as_of(40, [changed]) == [changed]
    assert [(e.commit_ts, e.after) for e in guesses(Known()).as_of(39, [changed])] == [(7, USERS)]


def test_rows_up_to_the_bound_tell_the_tables_that_no_statement_mentions():
    found = guesses(Known(), ("t", 20, inferred(20)), ("u", 21, inferred(21, "u")))

    assert [made.table for made in found.as_of(20, [])] == ["t"]


@pytest.mark.parametrize("before", [["id", "v"], ["id"]])
def test_a_table_as_it_was_is_named_after_the_first_later_statement_about_it(before: list[str]):
    """The later ones say what the first of them left, under any case of the name."""
    was = table("t", *before, key=("id",))
    later = [
        replace(event(50, "t", "ALTER TABLE `t` ADD COLUMN `x` INT"), before=replace(USERS, name="T")),
        replace(event(30, "t", "ALTER TABLE `t` ADD COLUMN `w` INT"), before=was),
    ]

    assert [(e.commit_ts, e.after, e.where) for e in guesses(Known()).as_of(20, later)] == [
        (0, was, "at 30, as it was before")
    ]


def test_a_table_that_had_the_name_at_the_bound_is_not_as_it_was():
    later = replace(event(30, "t", "ALTER TABLE `t` ADD COLUMN `w` INT"), before=USERS)

    assert guesses(Known()).as_of(20, [event(10, "t", CREATE), later]) == [event(10, "t", CREATE)]


# -- rows that only their positions order -----------------------------------------------------------------------------


def placed(guess: SchemaGuesses, **offsets: int) -> SchemaGuesses:
    """With the first row of each table at this offset of the only partition, with its columns."""
    for name, offset in offsets.items():
        inferred = guess.scan.tables.inferred.get(("shop", name))
        shape = (
            frozenset(column.name for column in inferred.after.columns) if inferred and inferred.after else frozenset()
        )
        row = PositionedRow(("feed", 0), offset, None, None, shape)
        guess.scan.tables.first_positioned["shop", name] = {("feed", 0): row}
    return guess


def at_offset(offset: int, made: DdlEvent) -> DdlEvent:
    return replace(made, origin=DdlOrigin(True, place=("feed", 0, offset)))


@pytest.mark.parametrize(("columns", "expected"), [(("id", "v"), []), (("id", "w"), ["t"])])
def test_placed_rows_believe_a_history_that_begins_with_the_users_schema_only_where_they_fit_it(
    columns: tuple[str, ...], expected: list[str]
):
    users = Known({("shop", "u"): replace(USERS, name="u")})
    found = placed(guesses(users, ("u", 15, None), ("t", 25, inferred(25, "t", *columns))), u=1, t=9)

    assert [made.table for made in added(found, at_offset(5, event(20, "t", "RENAME TABLE `u` TO `t`")))] == expected


@pytest.mark.parametrize(("offset", "expected"), [(6, []), (4, ["t"])])
def test_a_placed_row_needs_a_guess_where_it_is_before_the_statement_that_creates_its_table(
    offset: int, expected: list[str]
):
    """Whatever its time says."""
    found = placed(guesses(Known(), ("t", 15, inferred(15))), t=offset)

    assert [made.table for made in added(found, at_offset(5, event(10, "t", CREATE)))] == expected
    assert [made.table for made in added(found, at_offset(5, event(1, "t", CREATE)))] == expected


# -- Avro -------------------------------------------------------------------------------------------------------------


def of_avro(found: SchemaGuesses, **names: str | None) -> SchemaGuesses:
    """With the true name behind each name in messages, None where it may be one of several."""
    avro = AvroScan(DecoderOptions(schemas={}.__getitem__), (), has_commit_ts=True)
    avro.names = {("feed", "shop", name): ("shop", name) for name in names}
    found.scan.avro = avro
    known = {("feed", "shop", name): None if true is None else ("shop", true) for name, true in names.items()}
    return replace(found, names=known)


def test_a_guess_has_the_true_name_of_the_table():
    found = of_avro(guesses(Known(), ("a_b", 15, inferred(15, "a_b"))), a_b="a-b")

    [made] = added(found)

    assert (made.table, made.after.name if made.after else "") == ("a-b", "a-b")
    assert added(found, event(10, "a-b", CREATE.replace("`t`", "`a-b`"))) == []


def test_a_row_that_may_be_of_several_tables_is_no_guess():
    assert added(of_avro(guesses(Known(), ("a_b", 15, inferred(15, "a_b"))), a_b=None)) == []


def test_deletes_tell_the_key_of_a_table_without_other_rows():
    found = of_avro(guesses(Known(), ("t", 15, None)), t="t")
    assert added(found) == []
    assert found.scan.avro is not None

    found.scan.avro.keys["shop", "t"] = table("t", "id", key=("id",))

    assert [(made.commit_ts, made.where, names([made])) for made in added(found)] == [(0, "deletes", [["id"]])]
    assert names(added(of_avro(guesses(Known(), ("t", 15, inferred(15))), t="t"))) == [["id", "w"]]
