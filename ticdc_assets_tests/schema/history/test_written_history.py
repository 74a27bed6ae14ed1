"""The history that a changelog stores: different histories have different texts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.written_history import (
    INFERRED,
    WrittenHistory,
    WrittenName,
    effects_digest,
)
from ticdc_assets_tests.schema.history.histories import GUESSED, event


def written(*queries: str) -> WrittenHistory:
    history = fold(event(10 * number, "t", query) for number, query in enumerate(queries, 1))
    return WrittenHistory.of(history.source_tables[0])


def test_other_columns_of_a_version_are_another_history():
    one = written("CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)")
    wider = written("CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` BIGINT)")

    assert (one.names, one.columns) == (wider.names, wider.columns)
    assert one.versions != wider.versions
    assert one.digest != wider.digest
    assert WrittenHistory.from_json(one.to_json()) == one


def test_columns_are_others_by_their_names_types_and_labels_alone():
    forms = [
        "`v` ENUM('a','b')", "`v` ENUM('a')", "`v` ENUM('b','a')", "`v` VARCHAR(9)", "`v` INT", "`v` BIGINT", "`w` INT",
        "`v` DECIMAL(9,2)", "`v` DECIMAL(9,3)",
    ]  # fmt: skip
    versions = [written(f"CREATE TABLE `t` (`id` INT PRIMARY KEY, {form})").versions for form in forms]

    assert len({*versions}) == len(forms)
    for form in ("`V` INT", "`v` INT NOT NULL", "`v` INT DEFAULT 5", "`v` TINYINT", "`v` INT UNIQUE"):
        assert written(f"CREATE TABLE `t` (`id` INT PRIMARY KEY, {form})").versions == versions[4]


def test_columns_that_are_inferred_from_rows_are_not_compared():
    (source_table,) = fold([event(10, "t", "", after=GUESSED)]).source_tables

    assert [columns for _, columns in WrittenHistory.of(source_table).versions] == [INFERRED]


CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)"


def effects(upto_ts: int, *events: DdlEvent) -> str:
    (source_table,) = fold(events).source_tables
    return effects_digest(source_table, upto_ts)


def test_the_effects_up_to_a_time_are_those_of_the_statements_until_then():
    create, add = event(10, "t", CREATE), event(20, "t", "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 1")
    other = event(20, "t", "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 2")

    assert effects(19, create, add) == effects(19, create) == effects(30, create)
    assert len({effects(20, create), effects(20, create, add), effects(20, create, other)}) == 3
    assert effects(30, create, add) == effects(20, create, add)


CUT = f"{CREATE} PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (5), PARTITION `q` VALUES LESS THAN (9))"


def test_different_effects_have_different_digests():
    plain = event(10, "t", CUT)
    others = [
        [event(20, "t", f"ALTER TABLE `t` {text}")]
        for text in (
            "TRUNCATE PARTITION `p`", "TRUNCATE PARTITION `q`", "TRUNCATE PARTITION `p`,`q`", "TRUNCATE PARTITION ALL",
            "MODIFY `v` TINYINT", "MODIFY `v` SMALLINT", "MODIFY `v` VARCHAR(9)", "DROP PRIMARY KEY",
            "ADD COLUMN `w` INT DEFAULT 1", "ADD COLUMN `w` VARCHAR(9) DEFAULT '1'", "ADD COLUMN `x` INT DEFAULT 1",
            "ADD COLUMN `w` DATETIME DEFAULT NOW()", "ADD COLUMN `w` DATETIME DEFAULT NOW(3)",
        )
    ]  # fmt: skip

    found = [effects(30, plain, *statements) for statements in ([], *others)]

    assert found[9] == found[10]  # the type of a column is no effect, and the text of its default is the same
    assert len({*found}) == len(found) - 1
    assert found == [effects(30, plain, *statements) for statements in ([], *others)]


def test_an_exchange_has_a_digest_of_its_tables_and_partition():
    def exchanged(partition: str, other: str, ts: int = 10) -> str:
        like = f"CREATE TABLE `{other}` (`id` INT PRIMARY KEY, `v` INT)"
        exchange = f"ALTER TABLE `t` EXCHANGE PARTITION `{partition}` WITH TABLE `{other}`"
        history = fold([event(10, "t", CUT), event(ts, other, like), event(20, "t", exchange)])
        [source_table] = [x for x in history.source_tables if x.name[1] == "t"]
        assert source_table.stop is None
        return effects_digest(source_table, 30)

    assert len({exchanged("p", "u"), exchanged("q", "u"), exchanged("p", "w"), exchanged("p", "u", 11)}) == 4


def test_columns_that_are_inferred_from_rows_are_no_effect():
    guessed = event(10, "t", "", after=GUESSED)

    assert effects(30, guessed) == effects(30, replace(guessed, commit_ts=12))


PERIODS = [
    (after_ts, until_ts) for after_ts, until_ts in product(range(4), (1, 2, 3, None)) if after_ts < (until_ts or 9)
]


def named(*periods: tuple[int, int | None]) -> WrittenHistory:
    return WrittenHistory(tuple(("s", "t", *period) for period in periods), (), ())


def times(names: tuple[WrittenName, ...]) -> list[int]:
    """Each TSO of the periods, as often as it is in one; all TSOs from 4 to 8 are alike."""
    return [ts for _, _, after_ts, until_ts in names for ts in range(after_ts + 1, (until_ts or 8) + 1)]


def test_a_name_is_lost_or_gained_for_the_times_that_one_history_has_and_the_other_has_not():
    for one, first, second in product(PERIODS, repeat=3):
        if first[1] is None or first[1] > second[0]:
            continue
        other = named(first, second)

        lost, gained = named(one).names_lost(other), named(one).names_gained(other)

        left, new = set(times(named(one).names)), times(other.names)
        assert (times(lost), times(gained)) == (sorted(left - {*new}), [ts for ts in new if ts not in left])
        assert all(until_ts is None or after_ts < until_ts for _, _, after_ts, until_ts in (*lost, *gained))


def test_the_times_of_another_name_are_not_compared():
    was, now = WrittenHistory((("s", "t", 1, None),), (), ()), WrittenHistory((("s", "u", 1, None),), (), ())

    assert (was.names_lost(now), was.names_gained(now)) == (was.names, now.names)


def test_columns_differ_from_the_first_time_at_which_the_rows_of_both_histories_have_other_ones():
    was = WrittenHistory((), ((10, "a"), (20, "b"), (30, INFERRED)), ())

    after = [
        was.other_columns_after(WrittenHistory((), versions, ()))
        for versions in (
            ((10, "a"), (20, "b"), (40, "c")),
            ((10, "a"), (15, "b"), (20, "b")),
            ((10, "a"), (25, "c")),
            ((5, "c"), (20, "b")),
            ((15, "a"), (20, "c")),
        )
    ]

    assert after == [None, 15, 20, 5, 20]


def test_a_uid_is_renumbered_where_both_histories_know_it_under_another_name():
    was = WrittenHistory((), (), ((1, "id"), (2, "v")))

    found = [
        was.has_renumbered_columns(WrittenHistory((), (), columns))
        for columns in (((1, "id"), (2, "v"), (3, "w")), ((1, "id"),), ((1, "id"), (2, "w")))
    ]

    assert found == [False, False, True]


def test_a_name_ends_with_a_rename_or_the_drop():
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"

    dropped = written(create, "RENAME TABLE `t` TO `u`", "DROP TABLE `u`")

    assert dropped.names == (("shop", "t", 10, 20), ("shop", "u", 20, 30))
    assert written(create).names == (("shop", "t", 10, None),)
