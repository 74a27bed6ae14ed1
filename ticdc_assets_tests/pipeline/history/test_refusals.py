"""Statements after which the changes of a table do not determine its rows, and passes over many keys."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.history.changes import TooManyChangesError, in_passes
from ticdc_assets.pipeline.history.refusals import undetermined, versions_between
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets_tests.schema.history.histories import event

KEYED = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT, `w` INT)"
CONVERTS_V, CONVERTS_ID = (f"ALTER TABLE `t` MODIFY COLUMN `{name}` VARCHAR(20) NOT NULL" for name in ("v", "id"))
DROP_KEY, ADD_KEY = "ALTER TABLE `t` DROP PRIMARY KEY", "ALTER TABLE `t` ADD PRIMARY KEY (`v`)"
PARTED = (
    f"{KEYED} PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (9), PARTITION `p1` VALUES LESS THAN (19))"
)


def table(*statements: str) -> SourceTable:
    """A table with these statements at the TSOs 10, 20 and so on."""
    [made] = fold(event(10 * n, "t", text) for n, text in enumerate(statements, 1)).source_tables
    return made


@pytest.mark.parametrize(
    ("after", "until", "found"), [(9, 30, [10, 20, 30]), (10, 29, [20]), (20, 30, [30]), (30, 99, []), (20, 20, [])]
)
def test_versions_are_between_two_tsos_after_the_first_and_up_to_the_second(after: int, until: int, found: list[int]):
    made = table(KEYED, CONVERTS_V, "ALTER TABLE `t` ADD COLUMN `x` INT")

    assert [version.from_ts for version in versions_between(made, after, until)] == found


@pytest.mark.parametrize(
    ("statements", "after", "until", "reason"),
    [
        ((KEYED,), 0, 99, ""),
        ((KEYED, CONVERTS_V), 0, 99, ""),
        ((KEYED, CONVERTS_ID), 0, 99, "the statement at 20 changed the key"),
        ((KEYED, CONVERTS_ID), 0, 20, "the statement at 20 changed the key"),
        ((KEYED, CONVERTS_ID), 0, 19, ""),
        ((KEYED, CONVERTS_ID), 20, 99, ""),
        ((KEYED, DROP_KEY), 0, 99, "the table has no key, so its rows cannot be compared"),
        ((KEYED, DROP_KEY), 0, 19, ""),
        ((KEYED, DROP_KEY, ADD_KEY), 0, 99, "the statement at 20 changed the key"),
        ((PARTED, "ALTER TABLE `t` DROP PARTITION `p0`"), 0, 99, "the statement at 20 removed partitions"),
    ],
)
def test_changes_do_not_determine_rows_without_a_key_or_across_some_statements(
    statements: tuple[str, ...], after: int, until: int, reason: str
):
    found = undetermined(table(*statements), after, until)

    assert found.startswith(reason)
    assert bool(found) is bool(reason)


def test_a_pass_that_takes_too_much_memory_is_divided_until_each_part_fits():
    """Each key is read in one pass: passes of a quarter of the keys have those of the whole, without overlap."""
    tried: list[tuple[int, int]] = []

    def one_pass(bucket: int, buckets: int) -> list[int]:
        tried.append((bucket, buckets))
        keys = [key for key in range(64) if key % buckets == bucket]
        if len(keys) > 4:
            raise TooManyChangesError
        return keys

    parts = list(in_passes(one_pass))

    assert sorted(key for part in parts for key in part) == list(range(64))
    assert {len(part) for part in parts} == {4}
    assert [buckets for _, buckets in tried if _ == 0] == [1, 4, 16]


def test_changes_that_fit_are_read_in_one_pass():
    assert list(in_passes(lambda bucket, buckets: (bucket, buckets))) == [(0, 1)]
