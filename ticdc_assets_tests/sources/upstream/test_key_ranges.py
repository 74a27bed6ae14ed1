"""Ranges of keys as SQL, evaluated by SQLite, and the texts of which checksums are made."""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column, TextOrder
from ticdc_assets.sources.upstream.checksums import checksums, same_value, text
from ticdc_assets.sources.upstream.key_ranges import key_order


def column(name: str, of: str, order: TextOrder | None = TextOrder.PADDED) -> Column:
    return Column(name, parse_type(of), text_order=order)


def test_a_condition_selects_the_keys_that_are_in_the_range():
    order = key_order([column("a", "INT"), column("b%", "INT"), column("c", "INT")])
    keys = list(product(range(3), repeat=3))
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (a, `b%`, c)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", keys)
        limits = [None, (0, 1, 2), (1, 1, 1), (2, 0, 0)]
        for after, until in product(limits, limits):
            condition, parameters = order.condition(after, until)
            sql = f"SELECT * FROM t WHERE {condition}".replace("%s", "?").replace("%%", "%")
            wanted = [k for k in keys if (after is None or k > after) and (until is None or k <= until)]
            assert sorted(database.execute(sql, parameters)) == wanted


@pytest.mark.parametrize(
    ("key", "columns", "in_lake"),
    [
        ([column("a", "BIGINT"), column("b", "VARCHAR(9)")], ["a", "b"], True),
        ([column("a", "ENUM('x')"), column("b", "TIME"), column("c", "BIT(9)")], ["a", "b", "c"], True),
        ([column("a", "BIGINT"), column("b", "SET('x')")], ["a"], True),
        ([column("a", "VARCHAR(9)", None), column("b", "INT")], ["a"], False),
        ([column("a", "SET('x')"), column("b", "INT")], [], False),
        ([], ["_tidb_rowid"], False),
    ],
)
def test_ranges_are_of_the_first_columns_that_compare_as_in_tidb(key: list[Column], columns: list[str], in_lake: bool):
    order = key_order(key)

    assert ([one.name for one in order.columns], order.in_lake) == (columns, in_lake)


def test_text_that_is_padded_sorts_without_its_trailing_blanks():
    padded = key_order([column("a", "VARCHAR(9)")])
    [blanks, none, accent, last] = padded.places([("a  ",), ("a",), ("é",), ("z",)])
    [exact_blanks, _] = key_order([column("a", "VARCHAR(9)", TextOrder.EXACT)]).places([("a  ",), ("a",)])

    assert blanks == none != exact_blanks
    assert accent > last


def test_labels_sort_by_their_numbers_and_times_by_their_length():
    order = key_order([column("a", "ENUM('z','a')"), column("b", "TIME(1)")])
    keys = [("", "00:00:00.0"), ("z", "-100:00:00.5"), ("z", "-99:00:00.0"), ("z", "9:00:00.0"), ("a", "-1:00:00.0")]

    assert list(order.places(keys)) == sorted(order.places(keys))


@pytest.mark.parametrize(
    ("of", "value", "written"),
    [
        ("DOUBLE", 1e21, "1000000000000000000000"),
        ("DOUBLE", 1.5e-7, "0.00000015"),
        ("DOUBLE", -0.0, "-0"),
        ("DECIMAL(20,10)", Decimal("-1E-10"), "-0.0000000001"),
        ("DECIMAL(20,6)", Decimal("0.000001"), "0.000001"),
        ("DECIMAL(20,6)", Decimal("0.000000"), "0.000000"),
        ("DATETIME", datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03"),
        ("TIMESTAMP(3)", datetime(2024, 2, 29, 1, 2, 3, 120_000, UTC), "2024-02-29 01:02:03.120"),
        ("DATE", date(24, 1, 2), "0024-01-02"),
        ("VARBINARY(9)", b"\xff\x00", "FF00"),
        ("INT", -5, "-5"),
        ("VECTOR", [1.0, 0.10000000149011612], "[1,0.1]"),
        ("BIT(64)", Decimal(2**64 - 1), str(2**64 - 1)),
        ("ENUM('a','é')", "é", "é"),
        ("TEXT", None, None),
    ],
)
def test_a_value_is_written_as_tidb_writes_it(of: str, value: Any, written: str | None):
    [found] = checksums([column("c", of)], [pa.array([value], arrow_type(parse_type(of)))])
    assert found == hashlib.md5(b"\x1e" if written is None else written.encode()).digest()
    assert text(column("c", of), value) == written
    assert same_value(column("c", of), written, value)
    if value is not None and (order := key_order([column("c", of)])).in_lake:
        assert order.read(order.written((value,))) == (value,)
    assert not same_value(column("c", of), "7" if written is None else None, value)


def test_null_and_empty_text_have_different_checksums_and_so_have_moved_values():
    rows = [(None, "a"), ("", "a"), ("a", None), ("a", ""), ("a", "a")]
    columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]

    assert len({*checksums([column("a", "TEXT"), column("b", "TEXT")], columns)}) == len(rows)
