"""A changelog has every column that its table ever had, the mirror those of one version."""

from __future__ import annotations

import pyarrow as pa

from ticdc_assets.changes.layout import LakeColumn, changelog_columns, mirror_columns
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable, Version
from ticdc_assets.schema.model import Column, TableSchema


def column(name: str, uid: int, written: str = "INT", virtual: bool = False) -> Column:
    return Column(name, parse_type(written), virtual=virtual, uid=uid)


def history(*versions: tuple[int, list[Column]]) -> SourceTable:
    tables = tuple(Version(ts, TableSchema("s", "t", tuple(columns))) for ts, columns in versions)
    return SourceTable("s.t@1", (NamePeriod("s", "t", 0),), tables)


INT, TEXT, LONG = pa.int32(), pa.string(), pa.int64()


def test_a_mirror_has_the_stored_columns_of_its_version_and_requires_those_of_the_key():
    found = mirror_columns((column("id", 3), column("a.b", 1, "VARCHAR(9)")), ("id",))

    assert found == (LakeColumn(3, "id", INT, required=True), LakeColumn(1, "a_x2e_b", TEXT))


def test_a_column_that_went_stays_behind_the_columns_of_the_newest_version():
    table = history(
        (10, [column("id", 1), column("a", 2), column("b", 3)]),
        (20, [column("id", 1), column("b", 3)]),
        (30, [column("c", 4), column("id", 1)]),
    )

    assert [(c.uid, c.name) for c in changelog_columns(table)] == [(4, "c"), (1, "id"), (3, "b"), (2, "a")]
    assert not any(c.required for c in changelog_columns(table))


def test_a_column_whose_name_was_taken_over_has_the_ts_at_which_it_went_in_its_name():
    table = history(
        (10, [column("id", 1), column("a", 2)]),
        (20, [column("id", 1), column("A", 3, "VARCHAR(9)")]),
        (30, [column("id", 1), column("a", 4, "BIGINT")]),
    )

    assert changelog_columns(table) == (
        LakeColumn(1, "id", INT), LakeColumn(4, "a", LONG), LakeColumn(3, "A__v30", TEXT), LakeColumn(2, "a__v20", INT),
    )  # fmt: skip


def test_a_column_that_went_has_the_name_and_type_that_it_had_last():
    table = history(
        (10, [column("id", 1), column("a", 2)]),
        (20, [column("id", 1), column("b", 2, "BIGINT")]),
        (30, [column("id", 1)]),
    )

    assert changelog_columns(table)[1:] == (LakeColumn(2, "b", LONG),)


def test_virtual_columns_are_in_no_changelog():
    table = history((10, [column("id", 1), column("v", 2, virtual=True)]), (20, [column("id", 1)]))

    assert [c.name for c in changelog_columns(table)] == ["id"]
