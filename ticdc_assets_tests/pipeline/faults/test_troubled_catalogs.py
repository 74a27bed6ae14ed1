"""Catalogs that are locked, missing or damaged, and tables that are not the ones that were written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.cli import main
from ticdc_assets.errors import ConfigError, LakeError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.tables import catalog
from ticdc_assets_tests.pipeline.faults.trouble import FROM, FROM_TOO, fault_of, listening
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink
from ticdc_assets_tests.pipeline.two_tables import T, U, assert_once, more, sink


@pytest.fixture
def made(tmp_path: Path) -> Sink:
    return sink(tmp_path)


@pytest.mark.parametrize("since", [*FROM, *(pytest.param(since, marks=pytest.mark.matrix) for since in FROM_TOO)])
def test_a_catalog_that_is_locked_for_long_is_reported_and_the_next_run_is_right(
    made: Sink, since: Failpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catalog, "BUSY_SECONDS_MAX", 0.1)
    folder = made.folder.parent / "lake"
    feed = made.feed(folder)

    @contextmanager
    def held() -> Iterator[None]:
        other = sqlite3.connect(folder / "catalog.db", check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.rollback()
        other.close()

    fault = fault_of(feed, since, held())

    assert isinstance(fault, LakeError)
    assert fault.found == "SQLITE_BUSY"
    assert "let it end" in fault.advice
    feed.run()
    assert_once(feed)


def test_a_lake_whose_catalog_is_missing_is_not_created_again(made: Sink):
    folder = made.folder.parent / "lake"
    made.feed(folder).run()
    (folder / "catalog.db").rename(folder / "elsewhere")
    more(made)

    with pytest.raises(ConfigError, match="the catalog's database, since its warehouse holds tables"):
        made.feed(folder).run()

    (folder / "elsewhere").rename(folder / "catalog.db")
    feed = made.feed(folder)
    feed.run()
    assert_once(feed, publications_each=2)


@pytest.mark.parametrize("command", ["tables", "run"])
def test_a_command_on_a_catalog_that_is_no_database_says_so_in_a_sentence(made: Sink, command: str, capfd: Any):
    folder = made.folder.parent / "lake"
    made.feed(folder)
    (folder / "catalog.db").write_bytes(b"something else" * 400)

    assert main([command, "--config", str(folder / "changefeeds.yaml")]) == 1

    out, err = capfd.readouterr()
    assert "SQLITE_NOTADB" in err
    assert "Restore the catalog's database" in err
    assert "Traceback" not in out + err


def drop(feed: Feed) -> None:
    feed.lake.lake.catalog.drop_table(tuple(feed.record(T).changelog or ()))


def make_anew(feed: Feed) -> None:
    """Drop the table, and create one of its name and properties without its rows."""
    identifier = tuple(feed.record(T).changelog or ())
    old = feed.lake.lake.catalog.load_table(identifier)
    feed.lake.lake.catalog.drop_table(identifier)
    feed.lake.lake.catalog.create_table(identifier, old.schema(), properties=old.properties)


def make_a_foreign_one(feed: Feed) -> None:
    identifier = tuple(feed.record(T).changelog or ())
    old = feed.lake.lake.catalog.load_table(identifier)
    feed.lake.lake.catalog.drop_table(identifier)
    feed.lake.lake.catalog.create_table(identifier, old.schema())


@pytest.mark.parametrize("change", [drop, pytest.param(make_a_foreign_one, marks=pytest.mark.matrix)])
def test_a_table_that_is_not_the_one_that_was_written_stops_the_run(made: Sink, change: Callable[[Feed], None]):
    feed = made.feed(made.folder.parent / "lake")
    feed.run()
    more(made)
    feed.run()
    change(feed)
    made.file(T, 4, [made.insert(T, 2100, 5, "five")])
    made.bucket.checkpoint(3000)

    with pytest.raises(ConfigError, match="s__changes"):
        feed.run()

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.tso == 2000


@pytest.mark.parametrize("change", [pytest.param(drop, marks=pytest.mark.matrix), make_anew])
def test_a_table_that_is_replaced_while_a_run_goes_on_is_not_written(made: Sink, change: Callable[[Feed], None]):
    folder = made.folder.parent / "lake"
    feed = made.feed(folder)
    feed.run()
    more(made)
    once: list[None] = []

    def replace_it(hit: Failpoint) -> None:
        if hit is Failpoint.DECODED and not once:
            once.append(None)
            change(feed)

    with listening(replace_it), pytest.raises(ConfigError, match="the table that earlier runs wrote"):
        feed.run()


def test_a_table_that_was_dropped_and_made_again_at_the_source_before_the_record_keeps_to_itself(made: Sink):
    def end(hit: Failpoint) -> None:
        if hit is Failpoint.BEFORE_CURSOR:
            raise LakeError("here", "to go on", "the end", "Run again.")

    with listening(end), pytest.raises(LakeError):
        made.feed(made.folder.parent / "lake").run()
    made.alter(T, 500, "DROP TABLE `t`", [])
    made.table(T, version=600)
    made.file(T, 1, [made.insert(T, 700, 1, "again")], version=600)
    made.bucket.checkpoint(2000)
    feed = made.feed(made.folder.parent / "lake")

    feed.run()

    assert feed.found() == feed.expected()
    assert feed.run() is None


@pytest.mark.spark
def test_a_foreign_table_in_the_place_of_a_mirror_is_left_alone_and_the_other_mirror_goes_on(made: Sink):
    feed = made.feed(made.folder.parent / "lake")
    feed.run()
    lakes = feed.lake.lake.catalog
    lakes.create_namespace_if_not_exists("s")
    lakes.create_table(("s", "t"), pa.schema([("mine", pa.int64())])).append(pa.table({"mine": [1]}))

    report = feed.lake.mirrors()

    assert report is not None
    [fault] = report.errors.values()
    assert "s.t: expected no table, or the mirror of this source table, found another" in fault.detail
    assert lakes.load_table(("s", "t")).scan().to_arrow().to_pylist() == [{"mine": 1}]
    assert (feed.record(T).state, feed.record(T).mirror) == ("stopped", None)
    assert feed.record(U).rows == 3
