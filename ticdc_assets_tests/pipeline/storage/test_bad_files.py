"""Bad files: one that is cut, empty, missing, replaced or changed holds its own table until it is restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.storage import reader as storage_files
from ticdc_assets.pipeline.tasks import DecodeTask, FileDecoding, TaskFile
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.schema.history.source_table import SchemaPeriod, Version
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.faults.broken_tables import (
    ORDERS,
    USERS,
    T,
    U,
    assert_held,
    assert_whole,
    one_table_each,
)
from ticdc_assets_tests.pipeline.small_feeds import JsonSink, Sink, cut_out

Break = Callable[[Path], Any]


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


def test_each_broken_file_holds_its_own_table_until_it_is_restored(sink: Sink, tmp_path: Path):
    names, paths = one_table_each(BROKEN_FILES), {}
    for hazard, name in names.items():
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "eins")])
        lines = [sink.insert(name, 120, 2, "日本,\nzwei"), sink.insert(name, 130, 3, "日本,\nzwei")]
        paths[hazard] = sink.file(name, 2, lines)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    feed = sink.feed(tmp_path / "lake")
    originals = {hazard: path.read_bytes() for hazard, path in paths.items()}
    for hazard, path in paths.items():
        BROKEN_FILES[hazard][0](path)

    feed.run()

    assert_held(feed, {names[hazard]: (state, said) for hazard, (_, state, said) in BROKEN_FILES.items()})
    assert all(path.name in feed.note(names[hazard]) for hazard, path in paths.items())
    assert feed.quarantined() == []
    for hazard, path in paths.items():
        path.write_bytes(originals[hazard])
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
    run, pending = feed.scan()
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
    periods = {T: (SchemaPeriod(0, "x", Version(0, TWO_COLUMNS)),)}
    file = TaskFile("file", len(data), T, *T, 1, 0)
    decoding = FileDecoding(options, (options or CsvOptions()).forms("UTC"), False)
    task = DecodeTask("r", 0, str(folder), decoding, (file,), periods, {})
    try:
        try:
            batches = list(storage_files.FileReader(task).raw_rows(file, False, []))
        except (BulkUnsupported, NotYetError):
            batches = list(storage_files.FileReader(task).raw_rows(file, True, []))
    except NotYetError:
        return None
    return tuple(row for b in batches for row in zip(b.op.to_pylist(), *(a.to_pylist() for a in b.wire), strict=True))


@pytest.mark.parametrize("broken", [gone, cut_behind("zwei", 2)], ids=["missing", "cut"])
def test_a_table_held_under_its_new_name_keeps_its_rows_under_the_old_one(sink: Sink, tmp_path: Path, broken: Break):
    """Another table has taken the old name and continues: its files are among those that wait."""
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


@pytest.mark.parametrize("variant", ["storage-csv", "storage-canal-json-tidb"])
def test_a_workload_comes_out_as_it_happened_after_its_files_were_broken_and_corrected(variant: str, tmp_path: Path):
    """One file of the table is removed, then another is cut, then both are back."""
    feed = cut_out(variant, [USERS, ORDERS], tmp_path)
    files = sorted(p for p in feed.bucket.joinpath(*USERS).rglob("CDC*") if p.suffix in (".csv", ".json"))
    middle, last = files[0], files[-1]
    originals = {path: path.read_bytes() for path in (middle, last)}
    middle.unlink()

    feed.run()
    assert_held(feed, {USERS: (feed.state(USERS), middle.name)})
    assert feed.state(USERS) in ("waiting", "stopped")

    middle.write_bytes(originals[middle])
    last.write_bytes(originals[last][:-7])
    feed.run()
    assert_held(feed, {USERS: ("waiting", last.name)})

    last.write_bytes(originals[last])
    feed.run()
    assert_whole(feed)
