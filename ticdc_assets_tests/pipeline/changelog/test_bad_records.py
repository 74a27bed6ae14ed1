"""Bad records are quarantined one by one, or stop their table if no schema fits; no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.faults.broken_tables import (
    ORDERS,
    USERS,
    T,
    U,
    assert_held,
    assert_whole,
    one_table_each,
    written,
)
from ticdc_assets_tests.pipeline.small_feeds import JsonSink, Name, Sink, column, cut_out
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

BAD_VALUES: dict[str, tuple[dict, str, Any]] = {
    "text in INT": (column("v", "INT", ColumnPrecision="11"), '"zehn"', 10),
    "beyond TINYINT": (column("v", "TINYINT UNSIGNED", ColumnPrecision="3"), "256", 255),
    "31 February": (column("v", "DATE"), '"2024-02-31"', None),
    "half a time": (column("v", "TIMESTAMP"), '"2024-02-03 24:00"', None),
    "no base64": (column("v", "BLOB"), '"%%%%"', None),
    "beyond FLOAT": (column("v", "FLOAT"), "1e99", None),
    "beyond DECIMAL": (column("v", "DECIMAL", ColumnPrecision="5", ColumnScale="2"), '"1234.56"', None),
}


def with_a_bad_value(sink: Sink, name: Name, hazard: str) -> bytes:
    """Writes a table with a record, among five, that its column cannot hold; that record."""
    bad_column, bad, good = BAD_VALUES[hazard]
    sink.table(name, columns=[ID, bad_column], query=" ")
    lines = [sink.insert(name, 110 + n, n, good, columns=("id", "v")) for n in range(4)]
    record = f'"I","{name[1]}","s",115,9,{bad}\r\n'.encode()
    sink.file(name, 1, [*lines[:3], record, *lines[3:]])
    return record


def test_a_value_that_its_column_cannot_hold_sets_that_record_aside(sink: Sink, tmp_path: Path):
    names = one_table_each(BAD_VALUES)
    records = {names[hazard]: with_a_bad_value(sink, names[hazard], hazard) for hazard in BAD_VALUES}
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    found = {(bad.schema, bad.table): bad for bad in feed.quarantined()}
    assert {name: (bad.line, bad.raw) for name, bad in found.items()} == {n: (3, raw) for n, raw in records.items()}
    for hazard, (_, value, _) in BAD_VALUES.items():
        bad = found[names[hazard]]
        assert bad.path == f"s/{bad.table}/100/CDC00000000000000000001.csv"
        assert "record 3, column 'v': expected a value of type" in bad.reason
        assert value.strip('"') not in bad.reason
    assert_whole(feed)


def test_a_changefeed_that_stops_at_bad_messages_stops_the_table_and_sets_nothing_aside(sink: Sink, tmp_path: Path):
    name = ("s", "t0")
    record = with_a_bad_value(sink, name, "text in INT")
    feed = sink.feed(tmp_path / "lake", on_bad_message="stop")

    feed.run()

    assert_held(feed, {name: ("stopped", "record 3, column 'v': expected a value of type INT")})
    assert feed.quarantined() == []
    path = feed.bucket / "s/t0/100/CDC00000000000000000001.csv"
    path.write_bytes(path.read_bytes().replace(record, sink.insert(name, 115, 9, 9, columns=("id", "v"))))
    feed = sink.feed(tmp_path / "lake", on_bad_message="stop")
    feed.run()
    assert_whole(feed)


def test_a_record_without_its_key_is_set_aside(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.line(T, "I", 120, None, "nichts")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    [bad] = feed.quarantined()
    assert "record 1, column 'id': expected a value, since it is of the key, found NULL" in bad.reason
    assert_whole(feed)


def test_a_broken_line_is_kept_as_it_is_and_the_lines_around_it_are_published(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110 + n, n, "eins") for n in range(3)]
    broken = b'"I","t","s",115,7,"lost a quote\r\n'
    sink.file(T, 1, [lines[0], broken, *lines[1:]])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    [bad] = feed.quarantined()
    assert (bad.line, bad.raw) == (1, broken)
    assert_whole(feed)


def test_a_record_of_another_table_is_set_aside(sink: Sink, tmp_path: Path):
    """Also if a whole file is in the wrong folder: none of its rows counts as a row of the table."""
    lines = [sink.insert(T, 110 + n, n, "eins") for n in range(2)]
    strays = [sink.line(U, "I", 115, 7, "fremd"), sink.line(("r", "t"), "I", 116, 8, "fremd")]
    sink.file(T, 1, [lines[0], *strays, lines[1]])
    sink.file(T, 2, [strays[0]])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    found = sorted((bad.path[-5:], bad.line, bad.raw) for bad in feed.quarantined())
    assert found == [("1.csv", 1, strays[0]), ("1.csv", 2, strays[1]), ("2.csv", 0, strays[0])]
    assert all("a record of s.t, found one of another table" in bad.reason for bad in feed.quarantined())
    assert_whole(feed)


def test_a_file_without_one_good_record_stops_its_table_since_then_an_option_is_wrong(sink: Sink, tmp_path: Path):
    without_ts = Sink(tmp_path / "other", commit_ts=False)
    path = sink.file(T, 1, [without_ts.insert(T, 110 + n, n, "eins") for n in range(12)])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {T: ("stopped", path.name, "at least 12 others", "options")})
    assert feed.quarantined() == []


def test_zero_dates_are_set_aside_where_the_changefeed_says_so_and_else_become_null(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T, columns=[ID, column("v", "DATETIME")], query=" ")
    zero = sink.line(T, "I", 115, 7, "0000-00-00 00:00:00")
    sink.file(T, 1, [sink.insert(T, 110, 1, None, columns=("id", "v")), zero])
    strict, lenient = sink.feed(tmp_path / "lake", zero_dates="error"), sink.feed(tmp_path / "other")

    strict.run()
    report = lenient.run()

    [bad] = strict.quarantined()
    assert (bad.line, bad.raw) == (1, zero)
    assert "column 'v': expected a date that exists, found a zero date" in bad.reason
    assert_whole(strict)
    assert report is not None
    assert total(report).zero_dates == 1
    assert sum(lenient.found().values()) == 2


def test_an_update_of_which_one_half_is_missing_waits_at_the_end_and_is_set_aside_in_the_middle(tmp_path: Path):
    sink = written(tmp_path, old_values=True)
    whole = sink.update(T, 110, (1, "eins"), (1, "uno"))
    lost = [sink.line(T, "D", 120, 2, "zwei", half=True), sink.line(T, "I", 130, 3, "drei", half=True)]
    sink.file(T, 1, [*lost, *whole])
    cut = sink.update(T, 140, (4, "vier"), (4, "quatro"))
    path = sink.file(T, 2, cut[:1])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {T: ("waiting", path.name, "whole record")})
    path.write_bytes(b"".join(cut))
    feed.run()
    assert [(bad.line, bad.raw) for bad in feed.quarantined()] == list(enumerate(lost))
    assert_whole(feed)


def test_a_bad_value_in_an_update_keeps_both_of_its_records(tmp_path: Path):
    sink = written(tmp_path, old_values=True)
    good = sink.update(T, 110, (1, "eins"), (1, "uno"))
    halves = [sink.line(T, "D", 120, 2, "a", half=True), b'"I","t","s",120,true,"zwei","b"\r\n']
    sink.file(T, 1, [*good, *halves])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    [bad] = feed.quarantined()
    assert (bad.line, bad.raw) == (3, b"".join(halves))
    assert_whole(feed)


def test_a_bad_record_is_set_aside_once_although_its_file_is_read_again_above_the_checkpoint(
    sink: Sink, tmp_path: Path
):
    bad = [b'"I","t","s",115,"zwei","b"\r\n', b'"I","t","s",1200,"drei","b"\r\n', b"rubbish\r\n"]
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), *bad, sink.insert(T, 1100, 4, "vier")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert sorted(record.line for record in feed.quarantined()) == [1, 3]

    sink.bucket.checkpoint(2000)
    feed.run()

    assert sorted(record.line for record in feed.quarantined()) == [1, 2, 3]
    assert_whole(feed)


def test_bad_messages_of_canal_json_are_set_aside(tmp_path: Path):
    """A number beyond the labels of an ENUM, a message without its commit_ts, one of another table, a broken line."""
    sink = JsonSink(tmp_path / "bucket")
    sink.table(
        T,
        columns=[ID, column("v", "ENUM")],
        query="CREATE TABLE `t` (`id` INT NOT NULL,`v` ENUM('a','b'),PRIMARY KEY(`id`))",
    )
    sink.rows += [Change(*T, "I", ts, (("id", ts), ("v", "b")), None) for ts in (110, 120)]
    good = [sink.message(T, ts, {"id": str(ts), "v": "2"}) for ts in (110, 120)]
    beyond = sink.message(T, 111, {"id": "7", "v": "3"})
    strays = [sink.message(T, None, {"id": "7", "v": "1"}), sink.message(U, 112, {"id": "7"}), b'{"id":0,"data\r\n']
    sink.file(T, 1, [good[0], beyond])
    sink.file(T, 2, [*strays, good[1]])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    found = sorted((bad.path[-6:], bad.line, bad.raw) for bad in feed.quarantined())
    assert found == [("1.json", 1, beyond), *(("2.json", line, raw) for line, raw in enumerate(strays))]
    reasons = sorted(bad.reason.partition("expected ")[2].partition(".")[0] for bad in feed.quarantined())
    assert reasons[0] == "_tidb"
    assert_whole(feed)


def test_a_bad_value_in_a_workload_costs_its_own_row_alone(tmp_path: Path):
    feed = cut_out("storage-csv", [USERS, ORDERS], tmp_path)
    path = sorted(feed.bucket.joinpath(*USERS).rglob("CDC*.csv"))[0]
    first, *rest = path.read_bytes().splitlines(keepends=True)
    fields = first.split(b",")
    bad = b",".join([*fields[:4], b'"minus eins"', *fields[5:]])
    path.write_bytes(b"".join([bad, *rest]))

    feed.run()

    [record] = feed.quarantined()
    assert (record.line, record.raw) == (0, bad)
    lost = feed.expected() - feed.found()
    assert [(c.schema, c.table, c.commit_ts) for c in lost.elements()] == [(*USERS, int(fields[3]))]
    assert feed.found() - feed.expected() == Counter()


# -- records that no schema explains ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ts", [90, 300], ids=["before the first", "after the drop"])
def test_rows_from_outside_their_tables_life_stop_it(sink: Sink, tmp_path: Path, ts: int):
    path = sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.line(T, "I", ts, 2, "zwei")])
    if ts == 300:
        sink.bucket.schema(*T, 200, [ID, NAME], "DROP TABLE `s`.`t`", type_=4)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    table = next(r for r in feed.lake.lake.control.newest().tables if r.table == "t")  # type: ignore[union-attr]
    assert table.state == "stopped"
    assert "when s.t existed, found rows from before its first or after its last schema" in table.note
    assert path.name in table.note
    assert feed.found(T) == Counter()
    assert feed.found(U) == feed.expected(U)
    assert feed.lake.complete_tso() == 0


def test_a_column_that_no_schema_tells_of_stops_the_table(tmp_path: Path):
    sink = written(tmp_path, JsonSink)
    good = sink.insert(T, 110, 1, "eins")
    path = sink.file(T, 1, [good, sink.message(T, 120, {"id": "2", "name": "zwei", "more": "x"})])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {T: ("stopped", path.name, "record 1", "a column 'more' that is in no schema file")})
    path.write_bytes(good)
    feed.run()
    assert_whole(feed)


def test_a_column_of_a_later_version_stops_the_table_instead_of_being_dropped(tmp_path: Path):
    sink = written(tmp_path, JsonSink)
    sink.alter(
        T,
        200,
        "ALTER TABLE `t` ADD COLUMN `more` VARCHAR(9)",
        [ID, NAME, column("more", "VARCHAR", ColumnPrecision="9")],
    )
    sink.file(T, 1, [sink.message(T, 120, {"id": "2", "name": "zwei", "more": "x"})])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {T: ("stopped", "found a column 'more' that its version does not have")})


def test_a_column_that_only_changed_its_case_keeps_its_values(tmp_path: Path):
    sink = written(tmp_path, JsonSink)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.alter(T, 200, "ALTER TABLE `t` RENAME COLUMN `name` TO `NAME`", [ID, {**NAME, "ColumnName": "NAME"}])
    sink.file(T, 1, [sink.insert(T, 210, 2, "zwei", columns=("id", "NAME"))], version=200)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_whole(feed)
