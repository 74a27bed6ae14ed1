"""Rows of files that lack a column of their table: noticed, unless the changefeed leaves the column out by intent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.storage import reader
from ticdc_assets_tests.pipeline.small_feeds import ID, NAME, Feed, JsonSink, Sink, column

T, OTHER = ("s", "t"), ("s", "other")
C = column("c", "VARCHAR", ColumnPrecision="20")
CREATE = "CREATE TABLE `t` (`id` INT NOT NULL,`c` VARCHAR(20),`name` VARCHAR(200),PRIMARY KEY(`id`))"
WITHOUT_C = [{"matcher": ["s.*"], "columns": ["*", "!c"]}]
CSV = {"include-commit-ts": True}


def config(selectors: list[dict[str, Any]], **sink: Any) -> dict[str, Any]:
    return {"sink": {"date-separator": "none", "column-selectors": selectors, **sink}}


def sink_of(sink: Sink, query: str = CREATE) -> Sink:
    sink.table(OTHER)
    sink.table(T, columns=[ID, C, NAME], query=query)
    sink.file(OTHER, 1, [sink.insert(OTHER, 110, 1, "one")])
    return sink


def images(feed: Feed) -> list[dict[str, Any]]:
    found = sorted((change for change in feed.found(T)), key=lambda change: change.commit_ts or 0)
    return [dict(change.new or ()) for change in found]


@pytest.fixture(params=["reference", "bulk"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "bulk":
        monkeypatch.setattr(reader, "SMALL_JSON_BYTES", 0)
    return request.param


@pytest.mark.usefixtures("form")
def test_a_json_row_without_a_column_stops_its_table_alone(tmp_path: Path):
    sink = sink_of(JsonSink(tmp_path / "bucket"))
    whole = sink.insert(T, 110, 1, "c1", "one", columns=("id", "c", "name"))
    sink.file(T, 1, [whole, sink.insert(T, 120, 2, "two")])
    feed = sink.feed(tmp_path)

    feed.run()

    assert (feed.state(T), feed.state(OTHER)) == ("stopped", "live")
    assert "found rows without 'c'" in feed.note(T)
    assert "`column-selectors`" in feed.note(T)
    assert images(feed) == []


@pytest.mark.usefixtures("form")
def test_what_the_changefeed_leaves_out_of_json_by_intent_is_null(tmp_path: Path):
    sink = sink_of(JsonSink(tmp_path / "bucket"))
    whole = sink.insert(T, 110, 1, "c1", "one", columns=("id", "c", "name"))
    sink.file(T, 1, [whole, sink.insert(T, 120, 2, "two")])
    feed = sink.feed(tmp_path, config=config(WITHOUT_C))

    feed.run()

    assert feed.state(T) == "live"
    assert images(feed) == [{"id": 1, "c": "c1", "name": "one"}, {"id": 2, "c": None, "name": "two"}]


@pytest.mark.usefixtures("form")
def test_a_column_that_came_later_is_not_missing_before(tmp_path: Path):
    sink = JsonSink(tmp_path / "bucket")
    sink.table(T)
    sink.alter(T, 200, "ALTER TABLE `t` ADD COLUMN `c` VARCHAR(20)", [ID, NAME, C])
    sink.file(T, 1, [sink.insert(T, 110, 1, "one")])
    sink.file(T, 1, [sink.insert(T, 210, 2, "two", "c2", columns=("id", "name", "c"))], version=200)
    feed = sink.feed(tmp_path)

    feed.run()

    assert feed.state(T) == "live"
    assert feed.found(T) == feed.expected(T)


@pytest.mark.usefixtures("form")
def test_a_virtual_column_is_not_missing(tmp_path: Path):
    virtual = CREATE.replace("VARCHAR(20)", "VARCHAR(20) GENERATED ALWAYS AS (`name`) VIRTUAL")
    sink = sink_of(JsonSink(tmp_path / "bucket"), virtual)
    sink.file(T, 1, [sink.insert(T, 120, 2, "two")])
    feed = sink.feed(tmp_path)

    feed.run()

    assert feed.state(T) == "live"
    assert feed.found(T) == feed.expected(T)


@pytest.mark.usefixtures("form")
def test_any_column_of_a_table_without_a_statement_may_be_virtual(tmp_path: Path):
    sink = JsonSink(tmp_path / "bucket")
    sink.bucket.schema(*T, 100, [ID, C, NAME], "", type_=0)
    sink.file(T, 1, [sink.insert(T, 120, 2, "two")])
    feed = sink.feed(tmp_path)

    feed.run()

    assert feed.state(T) == "live"
    assert images(feed) == [{"id": 2, "c": None, "name": "two"}]


def test_csv_rows_with_fewer_fields_are_not_read_as_other_columns(tmp_path: Path):
    sink = sink_of(Sink(tmp_path / "bucket"))
    sink.file(T, 1, [sink.line(T, "I", 110 + n, n, "name") for n in range(20)])
    feed = sink.feed(tmp_path)

    feed.run()

    assert (feed.state(T), feed.state(OTHER)) == ("stopped", "live")
    assert images(feed) == []


@pytest.mark.parametrize("is_left_out", [True, False], ids=["by-a-server-that-does", "by-one-that-does-not"])
def test_csv_of_a_changefeed_with_selectors_is_read_whether_the_server_leaves_columns_out(
    tmp_path: Path, is_left_out: bool
):
    """Servers of the classic architecture take column selectors for files, and write all columns."""
    sink = sink_of(Sink(tmp_path / "bucket"))
    cells = (7, "seven") if is_left_out else (7, "c7", "seven")
    sink.file(T, 1, [sink.line(T, "I", 110, *cells)])
    feed = sink.feed(tmp_path, config=config(WITHOUT_C, csv=CSV))

    feed.run()

    assert feed.state(T) == "live"
    assert images(feed) == [{"id": 7, "c": None if is_left_out else "c7", "name": "seven"}]
