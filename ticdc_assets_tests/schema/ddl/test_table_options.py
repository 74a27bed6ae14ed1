"""Options behind the closing parenthesis: those that change no column are passed over, known here or not."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold

WITHOUT_EFFECT = [
    "TTL = `d` + INTERVAL _UTF8MB4'30' DAY TTL_ENABLE = 'OFF'",
    "/*T![ttl] TTL=`d` + INTERVAL _utf8mb4'1 1:1:1' DAY_SECOND */ /*T![ttl] TTL_ENABLE='ON' */",
    "TTL = d + INTERVAL '30' DAY, TTL_JOB_INTERVAL = '1h'",
    "TTL = d + INTERVAL 1.5 HOUR",
    "SPLIT PRIMARY KEY BETWEEN (0) AND (9) REGIONS 4 SPLIT INDEX i BETWEEN (_UTF8MB4'a', 1) AND ('z', 2) REGIONS 3",
    "SPLIT BETWEEN (-10) AND (10) REGIONS 4",
    "SPLIT INDEX i BY (1), (2) COMMENT = 'c'",
    "/*T![pre_split] SPLIT PRIMARY KEY BY (1),(2) */",
    "PAGE_CHECKSUM = 1 PAGE_COMPRESSED = 0 PAGE_COMPRESSION_LEVEL = 9 TRANSACTIONAL = 0 SEQUENCE = 1 IETF_QUOTES = YES",
]
ONLY_WITH_CREATE = [
    "PARTITION BY SYSTEM_TIME",
    "PARTITION BY SYSTEM_TIME INTERVAL 1 WEEK (PARTITION p0 HISTORY, PARTITION p1 CURRENT)",
    "PARTITION BY SYSTEM_TIME LIMIT 10 PARTITIONS 3",
    "ENGINE=InnoDB PARTITION BY SYSTEM_TIME SPLIT PRIMARY KEY BETWEEN (0) AND (10) REGIONS 2",
]
TABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `d` DATETIME, INDEX `i`(`d`)) "


@pytest.mark.parametrize("options", [*WITHOUT_EFFECT, *ONLY_WITH_CREATE])
def test_a_table_has_the_same_columns_with_such_options(options: str):
    (made,), (plain,) = parse(TABLE + options, "s"), parse(TABLE, "s")

    assert isinstance(made, ddl.CreateTable)
    assert isinstance(plain, ddl.CreateTable)
    assert (made.columns, made.indexes, made.partitioning) == (plain.columns, plain.indexes, None)
    assert made.unknown_options == ()


@pytest.mark.parametrize("options", WITHOUT_EFFECT)
def test_such_options_are_changed_without_effect(options: str):
    (altered,) = parse(f"ALTER TABLE `t` {options}, ADD COLUMN `c` INT", "s")

    assert isinstance(altered, ddl.AlterTable)
    *others, added = altered.actions
    assert isinstance(added, ddl.AddColumns)
    assert all(isinstance(action, ddl.NoEffect | ddl.SetComment) for action in others)


UNKNOWN = [
    ("NEW_OPTION=3", ("NEW_OPTION",)),
    ("NEW_OPTION 'a' CHARSET=latin1", ("NEW_OPTION",)),
    ("NEW_OPTION=(a, b), OTHER = x CHARSET=latin1", ("NEW_OPTION", "OTHER")),
    ("CHARSET=latin1 NEW OPTION ON PARTITION BY HASH (`id`) PARTITIONS 2", ("NEW",)),
    ("CHARSET=latin1 PARTITION BY HASH (`id`) PARTITIONS 2 NEW_OPTION = 1", ("NEW_OPTION",)),
]


@pytest.mark.parametrize(("options", "names"), UNKNOWN)
def test_an_option_that_is_not_known_is_named_and_the_others_apply(options: str, names: tuple[str, ...]):
    (made,) = parse(TABLE + options, "s")

    assert isinstance(made, ddl.CreateTable)
    assert made.unknown_options[0] == names[0]
    assert made.unknown_options[-1] == names[-1]
    assert made.collation.charset == (None if options == "NEW_OPTION=3" else "latin1")
    assert (made.partitioning is not None) == ("PARTITION" in options)


def test_a_table_with_an_unknown_option_goes_on_with_a_warning():
    texts = [
        "CREATE TABLE `t` (`id` INT PRIMARY KEY) NEW_OPTION=3",
        "ALTER TABLE `t` NEWER_OPTION = 'x', ADD COLUMN `c` INT",
    ]

    (table,) = fold([DdlEvent(10 + i, "s", "t", text, where=f"at {i}") for i, text in enumerate(texts)]).source_tables

    assert table.stop is None
    assert [column.name for column in table.newest.columns] == ["id", "c"]
    assert [mark.split(" is not")[0] for mark in table.marks] == [
        "at 0: the option NEW_OPTION",
        "at 1: the option NEWER_OPTION",
    ]
