"""Bad input: each hazard has one outcome for one table, says so in a sentence, and loses or doubles no row.

The pattern: break the bucket, run, look at the table and at all the others; mend, run, compare with what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline import storage_files
from ticdc_assets.pipeline.task import DecodeTask, FileFormat, TaskFile
from ticdc_assets.protocols.csv import CsvOptions
from ticdc_assets.protocols.raw_rows import BulkUnsupported
from ticdc_assets.schema.lineage import Slot, Version
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.small_feeds import CREATE, Feed, JsonSink, Name, Sink, column, cut_out
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage_bucket import ID, NAME, schema_document

T, U = ("s", "t"), ("s", "u")
USERS, ORDERS = ("shop", "users"), ("shop", "orders")

Break = Callable[[Path], Any]


def written(folder: Path, kind: type[Sink] = Sink, **options: Any) -> Sink:
    """Two tables, the second with two rows; the tests break the first."""
    sink = kind(folder / "bucket", **options)
    for name in (T, U):
        sink.table(name)
    sink.file(U, 1, [sink.insert(U, 110, 1, "one"), sink.insert(U, 120, 2, "two")])
    return sink


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return written(tmp_path)


def assert_held(feed: Feed, held: dict[Name, tuple[str, ...]]) -> None:
    """Some tables are held, each in its state and for its reason, and have nothing; all others are whole."""
    for name, (state, *said) in held.items():
        assert feed.state(name) == state, feed.note(name)
        assert all(part in feed.note(name) for part in said), feed.note(name)
    assert feed.found(*held) == Counter()
    others = feed.lake.records().keys() - held.keys()
    assert others
    assert feed.found(*others) == feed.expected(*others)
    assert {feed.state(other) for other in others} == {"live"}
    assert feed.complete_tso() == 0


def assert_whole(feed: Feed) -> None:
    """Everything that happened, once; all tables live; and another run finds nothing to do."""
    assert feed.found() == feed.expected()
    assert {record.state for record in feed.lake.records().values()} == {"live"}
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots
    assert feed.complete_tso() > 0


# -- files ------------------------------------------------------------------------------------------------------------


def cut_behind(mark: str, more: int) -> Break:
    """Ends a file some bytes behind the last occurrence of a mark."""

    def broken(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(mark.encode()) + more])

    return broken


BROKEN_FILES: dict[str, tuple[Break, str, str]] = {
    "cut inside quotes": (cut_behind("zwei", 2), "waiting", "whole record"),
    "cut behind a line end inside quotes": (cut_behind("zwei", 0), "waiting", "whole record"),
    "cut inside a character": (cut_behind("日", 2), "waiting", "whole record"),
    "cut inside a line end": (cut_behind("\r\n", 1), "waiting", "whole record"),
    "empty": (lambda path: path.write_bytes(b""), "waiting", "an empty file"),
    "removed": (lambda path: path.unlink(), "waiting", "no such file"),
    "replaced": (lambda path: path.write_bytes(b"\xff\xd8 rubbish\n" * 20), "stopped", "configured protocol"),
}


def one_table_each(hazards: Iterable[str]) -> dict[str, Name]:
    return {hazard: ("s", f"t{number}") for number, hazard in enumerate(hazards)}


def test_each_broken_file_holds_its_own_table_until_it_is_restored(sink: Sink, tmp_path: Path):
    names, paths = one_table_each(BROKEN_FILES), {}
    for hazard, name in names.items():
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "eins")])
        lines = [sink.insert(name, 120, 2, "日本,\nzwei"), sink.insert(name, 130, 3, "日本,\nzwei")]
        paths[hazard] = sink.file(name, 2, lines)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    feed = sink.feed(tmp_path / "lake")
    wholes = {hazard: path.read_bytes() for hazard, path in paths.items()}
    for hazard, path in paths.items():
        BROKEN_FILES[hazard][0](path)

    feed.run()

    assert_held(feed, {names[hazard]: (state, said) for hazard, (_, state, said) in BROKEN_FILES.items()})
    assert all(path.name in feed.note(names[hazard]) for hazard, path in paths.items())
    assert feed.quarantined() == []
    for hazard, path in paths.items():
        path.write_bytes(wholes[hazard])
    feed.run()
    assert_whole(feed)


def gone(path: Path) -> None:
    path.unlink()


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


@pytest.mark.parametrize("broken", [gone, grown])
def test_a_file_that_changes_between_listing_and_reading_is_read_when_it_is_itself_again(
    sink: Sink, tmp_path: Path, broken: Break
):
    path = sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    feed = sink.feed(tmp_path / "lake")
    run, pending = feed.look()
    whole = path.read_bytes()
    broken(path)

    run.publish_changelogs(pending, LocalWorkers())

    assert_held(feed, {T: ("waiting", path.name)})
    path.write_bytes(whole)
    feed.run()
    assert_whole(feed)


def test_a_table_that_is_held_makes_no_snapshot_while_nothing_changes(sink: Sink, tmp_path: Path):
    path = sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    path.write_bytes(path.read_bytes()[:-1])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    snapshots = feed.lake.snapshots()

    assert feed.run() is not None
    assert feed.lake.snapshots() == snapshots


TWO_COLUMNS = TableSchema("s", "t", (Column("a", MySqlType(Kind.INT)), Column("b", MySqlType(Kind.VARCHAR, 20))))


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (
            CsvOptions(include_commit_ts=True, output_old_value=True),
            '"D","t","s",7,true,1,"a"\r\n"I","t","s",7,true,1,"日"\r\n"I","t","s",9,false,2,"x\r\n""y"",\\N"\r\n',
        ),
        (CsvOptions(quote="", include_commit_ts=True), "I,t,s,7,1,日\r\nD,t,s,7,\\N,x\\,y\\r\\n\\\\\r\n"),
    ],
    ids=["quoted", "bare"],
)
def test_a_csv_file_cut_at_any_byte_waits_or_ends_with_a_whole_change(
    tmp_path: Path, options: CsvOptions, written: str
):
    data = written.encode() * 2
    whole, seen = rows_of(tmp_path, data, options), set()

    for length in range(len(data)):
        rows = rows_of(tmp_path, data[:length], options)
        assert rows is None or rows == (whole or ())[: len(rows)]
        seen.add(None if rows is None else len(rows))

    assert whole is not None
    assert seen == {None, *range(len(whole))}


def test_a_json_file_cut_at_any_byte_waits_or_ends_with_a_whole_change(tmp_path: Path):
    sink = JsonSink(tmp_path / "bucket")
    data = b"".join(sink.message(T, 7, {"a": str(n), "b": "日本"}) for n in range(3))
    whole, seen = rows_of(tmp_path, data, None), set()

    for length in {*range(0, len(data), 19), *(n + 1 for n, byte in enumerate(data) if byte == ord("\n"))}:
        rows = rows_of(tmp_path, data[:length], None)
        assert rows is None or rows == (whole or ())[: len(rows)]
        seen.add(None if rows is None else len(rows))

    assert seen == {None, 0, 1, 2, 3}


def rows_of(folder: Path, data: bytes, options: CsvOptions | None) -> tuple[Any, ...] | None:
    """The changes of a file as a worker reads it, of Canal-JSON without CSV options; None where it waits."""
    (folder / "file").write_bytes(data)
    slots = {T: (Slot(0, "x", Version(0, TWO_COLUMNS)),)}
    file = TaskFile("file", len(data), T, *T, 1, 0)
    form = FileFormat.CSV if options else FileFormat.CANAL_JSON
    csv = options or CsvOptions()
    task = DecodeTask("r", 0, str(folder), form, csv, csv.forms("UTC"), False, (file,), slots, {})
    try:
        try:
            batches = list(storage_files.FileReader(task).raw_rows(file, False, []))
        except (BulkUnsupported, NotYetError):
            batches = list(storage_files.FileReader(task).raw_rows(file, True, []))
    except NotYetError:
        return None
    return tuple(row for b in batches for row in zip(b.op.to_pylist(), *(a.to_pylist() for a in b.wire), strict=True))


# -- bad records ------------------------------------------------------------------------------------------------------

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
    told, bad, good = BAD_VALUES[hazard]
    sink.table(name, columns=[ID, told], query=" ")
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
    """Also where a whole file lies in the wrong folder: none of its rows is taken for the table's own."""
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
    assert "column 'v': expected a date of the calendar, found a zero date" in bad.reason
    assert_whole(strict)
    assert report is not None
    assert report.zero_dates == 1
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
    halves = [sink.line(T, "D", 120, 2, "a", half=True), b'"I","t","s",120,true,zwei,"b"\r\n']
    sink.file(T, 1, [*good, *halves])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    [bad] = feed.quarantined()
    assert (bad.line, bad.raw) == (3, b"".join(halves))
    assert_whole(feed)


def test_a_bad_record_is_set_aside_once_although_its_file_is_read_again_above_the_checkpoint(
    sink: Sink, tmp_path: Path
):
    bad = [b'"I","t","s",115,zwei,"b"\r\n', b'"I","t","s",1200,drei,"b"\r\n', b"rubbish\r\n"]
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), *bad, sink.insert(T, 1100, 4, "vier")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert sorted(record.line for record in feed.quarantined()) == [1, 3]

    sink.bucket.checkpoint(2000)
    feed.run()

    assert sorted(record.line for record in feed.quarantined()) == [1, 2, 3]
    assert_whole(feed)


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
    assert feed.complete_tso() == 0


def test_a_column_that_no_schema_tells_of_stops_the_table(tmp_path: Path):
    sink = written(tmp_path, JsonSink)
    good = sink.insert(T, 110, 1, "eins")
    path = sink.file(T, 1, [good, sink.message(T, 120, {"id": "2", "name": "zwei", "more": "x"})])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {T: ("stopped", path.name, "record 1", "a column 'more' that no schema file tells of")})
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

    assert_held(feed, {T: ("stopped", "found a column 'more' that its version has not")})


def test_a_column_that_only_changed_its_case_keeps_its_values(tmp_path: Path):
    sink = written(tmp_path, JsonSink)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.alter(T, 200, "ALTER TABLE `t` RENAME COLUMN `name` TO `NAME`", [ID, {**NAME, "ColumnName": "NAME"}])
    sink.file(T, 1, [sink.insert(T, 210, 2, "zwei", columns=("id", "NAME"))], version=200)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

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


# -- schemas ----------------------------------------------------------------------------------------------------------


def test_a_schema_file_whose_checksum_differs_is_believed_and_noted_for_good(sink: Sink, tmp_path: Path):
    [right] = (tmp_path / "bucket/s/t/meta").iterdir()
    wrong = right.rename(right.with_name("schema_100_0000000007.json"))
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    note = f"s/t/meta/{wrong.name}: not the checksum of its name"
    assert feed.note(T) == note
    assert_whole(feed)
    sink.file(T, 2, [sink.insert(T, 1200, 2, "zwei")[:-1]])
    sink.bucket.checkpoint(2000)
    feed.run()
    assert feed.state(T) == "waiting"
    assert feed.note(T).endswith(f"; {note}")
    sink.file(T, 2, [sink.line(T, "I", 1200, 2, "zwei")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.note(T) == note
    assert_whole(feed)


BROKEN_SCHEMAS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "unknown column type": (lambda text: text.replace('"INT"', '"GEOMETRY"'), "stopped", "GEOMETRY"),
    "truncated": (lambda text: text[: len(text) // 2], "waiting", "whole schema file"),
    "empty": (lambda text: "", "waiting", "schema"),
    "not JSON": (lambda text: text.replace(":", "=", 1), "stopped", "JSON"),
}


def test_a_schema_file_that_cannot_be_read_holds_its_table_even_if_it_is_its_first(sink: Sink, tmp_path: Path):
    names, wholes = one_table_each(BROKEN_SCHEMAS), {}
    for hazard, name in names.items():
        path = tmp_path / "bucket" / sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "eins")])
        wholes[path] = path.read_text()
        path.write_text(BROKEN_SCHEMAS[hazard][0](wholes[path]))
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {names[hazard]: (state, said) for hazard, (_, state, said) in BROKEN_SCHEMAS.items()})
    for path, whole in wholes.items():
        path.write_text(whole)
    feed.run()
    assert_whole(feed)


def altered(sink: Sink, query: str) -> str:
    """A second version of the table, rows on both sides of it; the path of its schema file."""
    more = column("more", "INT", ColumnPrecision="11")
    path = sink.alter(T, 200, query, [ID, NAME, more])
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.insert(T, 200, 2, "zwei")])
    sink.file(T, 1, [sink.insert(T, 210, 3, "drei", 33, columns=("id", "name", "more"))], version=200)
    return path


def before(feed: Feed, name: Name, ts: int) -> Counter[Change]:
    return Counter(change for change in feed.expected(name).elements() if change.commit_ts <= ts)


@pytest.mark.parametrize("kind", [Sink, JsonSink])
def test_rows_up_to_a_statement_that_cannot_be_read_are_published_and_the_rest_when_it_is_mended(
    tmp_path: Path, kind: type[Sink]
):
    sink = written(tmp_path, kind)
    path = altered(sink, "ALTER TABLE `t` FROBNICATE")
    feed = sink.feed(tmp_path / "lake")
    sink.bucket.checkpoint(150)
    feed.run()
    assert feed.complete_tso() == 150
    sink.bucket.checkpoint(1000)

    for _ in range(2):
        feed.run()
        assert feed.state(T) == "stopped"
        assert "FROBNICATE" in feed.note(T)
        assert feed.record(T).watermark == 200
        assert feed.found(T) == before(feed, T, 200)
        assert feed.found(U) == feed.expected(U)
        assert feed.record(U).watermark == 1000
        assert feed.complete_tso() == 150

    file = feed.bucket / path
    file.write_text(file.read_text().replace("FROBNICATE", "ADD COLUMN `more` INT"))
    feed.run()
    assert_whole(feed)
    assert feed.complete_tso() == 1000


def test_rows_that_a_restart_put_behind_a_statement_that_cannot_be_read_are_not_forgotten(sink: Sink, tmp_path: Path):
    """TiCDC writes on into the newest folder with the same columns, also rows that are older than it."""
    path = sink.alter(T, 200, "ALTER TABLE `t` FROBNICATE")
    sink.file(T, 1, [sink.insert(T, 150, 1, "eins"), sink.insert(T, 210, 2, "zwei")], version=200)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.record(T).watermark == 200
    assert feed.found(T) == before(feed, T, 200)
    file = feed.bucket / path
    file.write_text(file.read_text().replace("FROBNICATE", "ADD INDEX `n`(`name`)"))
    feed.run()
    assert_whole(feed)


def test_a_truncated_later_schema_file_holds_the_table_where_it_is(sink: Sink, tmp_path: Path):
    path = feed_path = altered(sink, "ALTER TABLE `t` ADD COLUMN `more` INT")
    feed = sink.feed(tmp_path / "lake")
    file = feed.bucket / path
    whole = file.read_bytes()
    sink.bucket.checkpoint(150)
    feed.run()
    file.write_bytes(whole[:-20])
    sink.bucket.checkpoint(1000)

    feed.run()

    assert feed.state(T) == "waiting"
    assert feed_path in feed.note(T)
    assert feed.record(T).watermark == 150
    assert feed.found(T) == before(feed, T, 150)
    file.write_bytes(whole)
    feed.run()
    assert_whole(feed)


def test_a_table_older_than_the_stream_goes_on_when_its_schema_is_given(sink: Sink, tmp_path: Path):
    """The stream does not tell the partitions of such a table, and nobody guesses which rows their drop removes."""
    [first] = (tmp_path / "bucket/s/t/meta").iterdir()
    first.write_bytes(schema_document(*T, 100, [ID, NAME], ""))
    sink.alter(T, 200, "ALTER TABLE `t` DROP PARTITION `p0`")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.file(T, 1, [sink.insert(T, 210, 3, "drei")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.state(T) == "stopped"
    assert feed.found(T) == before(feed, T, 200)
    dump = tmp_path / "s.t-schema.sql"
    ranges = "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (1),PARTITION `p1` VALUES LESS THAN (9))"
    dump.write_text(f"{CREATE.format('t')} {ranges};\n")

    feed = sink.feed(tmp_path / "lake", schema_files=[str(dump)])
    feed.run()

    found = Counter(change._replace(partitioned=False) for change in feed.found().elements())
    assert found == feed.expected()
    assert feed.state(T) == "live"


def test_a_statement_on_a_database_that_cannot_be_read_stops_its_tables_only(sink: Sink, tmp_path: Path):
    other = ("r", "w")
    sink.table(other)
    sink.file(other, 1, [sink.insert(other, 110, 1, "one")])
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.insert(T, 210, 2, "zwei")])
    path = sink.bucket.schema("s", "", 200, None, "FLASHBACK DATABASE `s`", folder="s")
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert {name: feed.state(name) for name in (T, U, other)} == {T: "stopped", U: "stopped", other: "live"}
    assert feed.found(T) == before(feed, T, 200)
    assert feed.found(other) == feed.expected(other)
    assert feed.complete_tso() == 0
    file = feed.bucket / path
    file.write_text(file.read_text().replace("FLASHBACK DATABASE `s`", "ALTER DATABASE `s` CHARACTER SET = utf8mb4"))
    feed.run()
    assert_whole(feed)


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [gone, cut_behind("zwei", 2)], ids=["missing", "cut"])
def test_a_table_held_under_its_new_name_keeps_its_rows_under_the_old_one(sink: Sink, tmp_path: Path, broken: Break):
    """Another table has taken the old name and goes on: its files lie among those that wait."""
    new = ("s", "v")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.alter(new, 200, "RENAME TABLE `s`.`t` TO `s`.`v`")
    path = sink.file(new, 1, [sink.insert(new, 210, 2, "zwei")], version=200)
    sink.table(T, 300)
    second = [sink.insert(T, 310, 7, "sieben")]
    sink.file(T, 1, second, version=300)
    feed = sink.feed(tmp_path / "lake")
    whole = path.read_bytes()
    broken(path)

    feed.run()

    assert feed.state(new) == "waiting"
    assert feed.state(T) == "live"
    assert feed.found() == feed.expected(U) + Counter(c for c in feed.expected(T).elements() if c.commit_ts > 300)
    path.write_bytes(whole)
    feed.run()
    assert_whole(feed)


# -- workloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["storage-csv", "storage-canal-json-tidb"])
def test_a_workload_comes_out_as_it_happened_after_its_files_were_broken_and_mended(variant: str, tmp_path: Path):
    """One file of the table is removed, then another is cut, then both are back."""
    feed = cut_out(variant, [USERS, ORDERS], tmp_path)
    files = sorted(p for p in feed.bucket.joinpath(*USERS).rglob("CDC*") if p.suffix in (".csv", ".json"))
    middle, last = files[0], files[-1]
    wholes = {path: path.read_bytes() for path in (middle, last)}
    middle.unlink()

    feed.run()
    assert_held(feed, {USERS: (feed.state(USERS), middle.name)})
    assert feed.state(USERS) in ("waiting", "stopped")

    middle.write_bytes(wholes[middle])
    last.write_bytes(wholes[last][:-7])
    feed.run()
    assert_held(feed, {USERS: ("waiting", last.name)})

    last.write_bytes(wholes[last])
    feed.run()
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
