"""A real TiDB that TICDC_ASSETS_TIDB names (host:port, user root without a password): rows at a TSO, of every type."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from ticdc_assets.errors import NotYetError
from ticdc_assets.schema.model import Kind, TableSchema
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import value
from ticdc_assets_tests.protocols.happened import parse_create
from ticdc_assets_tests.sources.upstream.kinds import KEYLESS, KINDS
from ticdc_assets_tests.sources.upstream.real_tidb import DATABASE, SERVER, Tidb

pytestmark = pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")


@pytest.fixture
def tidb() -> Iterator[Tidb]:
    with closing(Tidb()) as opened:
        yield opened


def shape_of(text: str) -> TableSchema:
    return parse_create(f"CREATE TABLE `t` (`id` INT,`v` {text},PRIMARY KEY(`id`))", DATABASE, "t")


@pytest.mark.parametrize("text", [*KINDS, *(text for text in KEYLESS if text not in KINDS)])
def test_a_value_is_read_as_the_protocols_carry_it_and_finds_its_row(tidb: Tidb, text: str):
    recorded, wanted = {**KEYLESS, **KINDS}[text]
    shape = shape_of(text)
    tidb.run(f"CREATE TABLE t (id INT PRIMARY KEY, v {text})")
    written = b64decode(recorded["b64"]) if isinstance(recorded, dict) else recorded
    ts = tidb.run("INSERT INTO t VALUES (1, %s)", values=(written,))
    key, value_of = shape.columns

    with UpstreamRows(tidb.upstream) as reader:
        [found] = reader.rows((DATABASE, "t"), shape.columns, [key], [[1]], ts)
        assert found is not None
        assert value(value_of, found["v"], "UTC") == wanted
        if text in KINDS:
            [by_value] = reader.rows((DATABASE, "t"), shape.columns, [value_of], [[wanted]], ts)
            assert by_value == found


@pytest.mark.parametrize("text", ["ENUM('a','b')", "SET('a','b')"])
def test_labels_that_are_not_known_come_as_numbers(tidb: Tidb, text: str):
    shape = shape_of(text)
    assert shape.columns[1].type.kind in (Kind.ENUM, Kind.SET)
    columns = [shape.columns[0], replace(shape.columns[1], type=replace(shape.columns[1].type, elements=None))]
    tidb.run(f"CREATE TABLE t (id INT PRIMARY KEY, v {text})")
    ts = tidb.run("INSERT INTO t VALUES (1, 'b')")

    with UpstreamRows(tidb.upstream) as reader:
        [found] = reader.rows((DATABASE, "t"), columns, columns[:1], [[1]], ts)
    assert found == {"id": "1", "v": "2"}


def test_a_row_is_as_it_was_at_its_commit_and_a_tick_before_whatever_came_later(tidb: Tidb):
    shape = shape_of("VARCHAR(9)")
    tidb.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'old')")
    ts = tidb.run("UPDATE t SET v = 'new'")
    tidb.run("ALTER TABLE t ADD COLUMN w INT", "UPDATE t SET v = 'newer'", "RENAME TABLE t TO u", "DROP TABLE u")

    with UpstreamRows(tidb.upstream) as reader:
        for tso, wanted in ((ts, "new"), (ts - 1, "old")):
            [found] = reader.rows((DATABASE, "t"), shape.columns, shape.columns[:1], [[1]], tso)
            assert found == {"id": "1", "v": wanted}


def test_a_snapshot_that_is_garbage_collected_is_reported(tidb: Tidb):
    shape = shape_of("INT")

    with UpstreamRows(tidb.upstream) as reader, pytest.raises(NotYetError):
        reader.rows((DATABASE, "t"), shape.columns, shape.columns[:1], [[1]], 1 << 18)
