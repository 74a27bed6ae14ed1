"""What the reader of one file returns, keeps apart and refuses, record by record and in bulk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError, NotYetError, SourceError
from ticdc_assets.names.table_filter import ColumnSelector, ColumnSelectors, TableFilter
from ticdc_assets.pipeline.rows.bad_rows import BAD_RECORDS_MAX
from ticdc_assets.pipeline.storage import reader
from ticdc_assets.pipeline.storage.reader import FileReader
from ticdc_assets.pipeline.storage.reference import from_events
from ticdc_assets.pipeline.tasks import DecodeTask, FileDecoding, QuarantineEntry, TaskFile
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported, RawRows
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import Timeline
from ticdc_assets_tests.schema.history.histories import event

T = ("shop", "t")
CREATE, ADD = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(9))", "ALTER TABLE `t` ADD COLUMN `W` INT"
DROP = "DROP TABLE `t`"
OLD_VALUES = CsvOptions(include_commit_ts=True, output_old_value=True)


def timeline(*statements: tuple[int, str]) -> Timeline:
    return fold(event(ts, "t", text) for ts, text in statements).timelines()[T]


class Folder:
    """A bucket's folder of the table `t` in the version 10."""

    def __init__(self, root: Path, form: str, **decoding: Any) -> None:
        self._root = root
        given = {
            "csv": OLD_VALUES if form == "csv" else None,
            "forms": TextForms("base64", "label"),
            "by_arrival": False,
            **decoding,
        }
        self._decoding = FileDecoding(**given)
        self.timeline = timeline((10, CREATE), (20, ADD), (30, DROP))

    def file(self, *lines: str, name: str = "1", listed: int | None = None, **more: Any) -> TaskFile:
        data = "".join(lines).encode()
        (self._root / name).write_bytes(data)
        size = len(data) if listed is None else listed
        return replace(TaskFile(name, size, T, "Shop", "T", 10, 0), **more)

    def reader(self, *files: TaskFile) -> FileReader:
        task = DecodeTask("run", 0, str(self._root), self._decoding, files, {T: self.timeline}, {})
        return FileReader(task)

    def read(self, file: TaskFile) -> tuple[list[tuple[Any, ...]], list[QuarantineEntry]]:
        """The operation, commit_ts, record and values of each change, and what is quarantined."""
        bad: list[QuarantineEntry] = []
        return listed(self.reader(file).raw_rows(file, True, bad)), bad


def listed(batches: Iterable[RawRows]) -> list[tuple[Any, ...]]:
    return [
        row for b in batches for row in zip(*(a.to_pylist() for a in (b.op, b.commit_ts, b.line, *b.wire)), strict=True)
    ]


def csv(op: str, ts: int, *values: str, half: bool = False, table: str = "t") -> str:
    """A record as TiCDC writes it: texts in quotes."""
    cells = [value if value.isdigit() or '"' in value else f'"{value}"' for value in values]
    return ",".join([f'"{op}"', f'"{table}"', '"shop"', str(ts), str(half).lower(), *cells]) + "\r\n"


def canal(op: str, ts: int | None, table: str = "t", old: dict[str, str] | None = None, **values: str) -> str:
    made = {
        "id": 0, "database": "shop", "table": table, "pkNames": ["id"], "isDdl": False, "type": op, "es": 5, "ts": 0,
        "sql": "", "sqlType": dict.fromkeys(values, 4), "mysqlType": dict.fromkeys(values, "int"),
        "old": None if old is None else [old], "data": [values],
    }  # fmt: skip
    return json.dumps({**made, **({} if ts is None else {"_tidb": {"commitTs": ts}})}, separators=(",", ":")) + "\r\n"


@pytest.fixture
def of_csv(tmp_path: Path) -> Folder:
    return Folder(tmp_path, "csv")


@pytest.fixture
def of_json(tmp_path: Path) -> Folder:
    return Folder(tmp_path, "canal-json")


# -- whether a file is complete ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("form", ["csv", "canal-json"])
def test_a_file_of_another_size_than_listed_is_not_read(form: str, more: int, tmp_path: Path):
    folder = Folder(tmp_path, form)
    line = csv("I", 11, "1", "x") if form == "csv" else canal("INSERT", 11, id="1", v="x")
    file = folder.file(line, listed=len(line) + more)

    for read in (lambda: folder.read(file), lambda: folder.reader(file).joined((file,))):
        with pytest.raises((NotYetError, SourceError)):
            read()
    whole = folder.file(line)
    assert len(folder.read(whole)[0]) == len(folder.reader(whole).joined((whole,)).batches[0]) == 1


def test_a_file_that_changes_while_it_is_read_is_not_used(of_csv: Folder, tmp_path: Path):
    file = of_csv.file(csv("I", 11, "1", "x"))
    rows = of_csv.reader(file).raw_rows(file, True, [])
    assert len(next(rows)) == 1
    (tmp_path / "1").write_bytes(b"")

    with pytest.raises(NotYetError, match="0"):
        next(rows)


def test_a_file_that_is_gone_or_is_a_folder_is_waited_for(of_csv: Folder, tmp_path: Path):
    file = of_csv.file(csv("I", 11, "1", "x"))
    (tmp_path / "1").unlink()
    with pytest.raises(NotYetError, match="none"):
        of_csv.read(file)
    (tmp_path / "1").mkdir()
    with pytest.raises(NotYetError):
        of_csv.read(file)


def test_a_file_that_cannot_be_read_says_why(of_csv: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = of_csv.file(csv("I", 11, "1", "x"))

    for error, why in ((OSError(5, "Input/output error"), "Input/output error"), (OSError(), "OSError")):
        with monkeypatch.context() as patch, pytest.raises(SourceError, match=f"found {why}"):
            patch.setattr(reader, "columns_to_read", broken(error))
            of_csv.read(file)


def broken(error: Exception) -> Any:
    def fails(*_: object) -> None:
        raise error

    return fails


@pytest.mark.parametrize(
    "lines",
    [
        (csv("I", 11, "1", "x"), csv("I", 12, "2", "y")[:-1]),
        (csv("I", 11, "1", "x"), csv("D", 12, "1", "x", half=True)),
        (csv("I", 11, "1", "x"), '"I","t'),
    ],
    ids=["without its line end", "after the old half of an update", "inside a record"],
)
def test_a_file_that_ends_inside_a_change_is_not_complete(of_csv: Folder, lines: tuple[str, ...]):
    with pytest.raises(NotYetError, match="record 1"):
        of_csv.read(of_csv.file(*lines))


# -- how it is read ---------------------------------------------------------------------------------------------------


def test_files_are_read_in_bulk_where_that_is_worth_its_setup(tmp_path: Path):
    small = TaskFile("1", reader.SMALL_JSON_BYTES, T, "shop", "t", 10, 0)
    large = replace(small, size_bytes=reader.SMALL_JSON_BYTES + 1)
    many = replace(small, size_bytes=reader.MANY_JSON_BYTES)
    of_json, of_csv = (Folder(tmp_path, form) for form in ("canal-json", "csv"))

    assert [of_json.reader(small, large).is_read_in_bulk(file.size_bytes) for file in (small, large)] == [False, True]
    assert of_csv.reader(small).is_read_in_bulk(small.size_bytes)
    assert not of_json.reader(many).is_read_in_bulk(small.size_bytes)
    assert of_json.reader(many, small).is_read_in_bulk(small.size_bytes)


@pytest.mark.parametrize("form", ["csv", "canal-json"])
def test_a_file_in_bulk_and_files_as_one_have_the_changes_of_records_one_by_one(form: str, tmp_path: Path):
    folder = Folder(tmp_path, form)
    lines = (
        [csv("I", 11, "1", "x"), csv("D", 12, "1", "x"), csv("I", 13, "2", "y")]
        if form == "csv"
        else [
            canal("INSERT", 11, id="1", v="x"),
            canal("DELETE", 12, id="1", v="x"),
            canal("INSERT", 13, id="2", v="y"),
        ]
    )
    spelt = {"schema": "shop", "table": "t"}
    file, rest = folder.file(*lines[:2], **spelt), folder.file(*lines[2:], name="2", **spelt)
    alone = folder.read(file)[0] + [(op, ts, 2 + line, *values) for op, ts, line, *values in folder.read(rest)[0]]

    assert listed(folder.reader(file).raw_rows(file, False, [])) == alone[:2]
    for many in (0, reader.MANY_JSON_BYTES):
        joined = folder.reader(file, rest, replace(file, size_bytes=many)).joined((file, rest))
        assert listed(joined.batches) == alone
        assert joined.line_ends.tolist() == [2, 3]


def test_small_files_with_any_record_that_is_not_sound_are_read_alone(of_json: Folder):
    sound, bad = of_json.file(canal("INSERT", 11, id="1", v="x")), of_json.file("{}\r\n", name="2")

    with pytest.raises(BulkUnsupported):
        of_json.reader(sound, bad).joined((sound, bad))


def test_the_raw_records_of_a_file_are_those_of_its_lines(of_csv: Folder, of_json: Folder):
    for folder, lines in (
        (of_csv, [csv("I", ts, "1", "x") for ts in (11, 12, 13)]),
        (of_json, [canal("INSERT", ts, id="1") for ts in (11, 12, 13)]),
    ):
        file = folder.file(*lines)
        found = folder.reader(file).record_bytes(file, {0, 2})
        assert {line: raw.decode().strip() for line, raw in found.items()} == {n: lines[n].strip() for n in (0, 2)}


# -- records that are kept apart --------------------------------------------------------------------------------------


def test_records_of_another_table_and_without_a_commit_ts_are_kept_apart(of_json: Folder, tmp_path: Path):
    lines = [canal("INSERT", 11, id="1"), canal("INSERT", 12, table="u", id="2"), canal("INSERT", None, id="3")]

    rows, bad = of_json.read(of_json.file(*lines))

    assert [row[:3] for row in rows] == [("I", 11, 0)]
    assert [(e.line, e.raw.decode().strip(), e.schema, e.table) for e in bad] == [
        (n, lines[n].strip(), "Shop", "T") for n in (1, 2)
    ]
    assert ["one of another table" in bad[0].reason, "_tidb.commitTs" in bad[1].reason] == [True, True]
    by_arrival = Folder(tmp_path, "canal-json", by_arrival=True)
    rows, bad = by_arrival.read(by_arrival.file(*lines))
    assert ([row[2] for row in rows], [e.line for e in bad]) == ([0, 2], [1])


def test_records_of_csv_that_do_not_belong_are_kept_apart(of_csv: Folder):
    """A half of an update without the other is one of them, unless the file may only be cut there."""
    lines = [
        csv("D", 11, "1", "x", half=True),
        csv("I", 12, "1", "y", half=True),
        csv("I", 13, "2", "y", table="u"),
        csv("D", 14, "3", "x", half=True),
        csv("I", 14, "3", "y", half=True),
        csv("I", 15, "4", "y"),
        csv("I", 16, "5", "y", half=True),
    ]

    rows, bad = of_csv.read(of_csv.file(*lines))

    assert [row[:3] for row in rows] == [("U", 14, 4), ("I", 15, 5)]
    assert [(e.line, e.raw.decode().strip()) for e in bad] == [(n, lines[n].strip()) for n in (0, 1, 2, 6)]
    assert ["both halves" in e.reason for e in bad] == [True, True, False, True]


def test_a_bad_record_stops_the_file_where_none_may_be_kept(of_csv: Folder, tmp_path: Path):
    lines = [csv("I", 11, "1", "x"), csv("I", 12, "2", "y", table="u")]
    strict = Folder(tmp_path, "csv", quarantine=False)

    for folder, more in ((strict, {}), (of_csv, {"listed_columns": ("id", "v")})):
        with pytest.raises(DecodeError, match="one of another table"):
            folder.read(folder.file(*lines, **more))


def test_a_file_with_too_many_bad_records_stops_its_table(of_csv: Folder):
    lines = [csv("I", 11, "1", "x", table="u")] * BAD_RECORDS_MAX

    assert len(of_csv.read(of_csv.file(*lines))[1]) == BAD_RECORDS_MAX
    with pytest.raises(DecodeError, match=f"at least {BAD_RECORDS_MAX + 1} others"):
        of_csv.read(of_csv.file(*lines, lines[0]))


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "listed", "columns"),
    [(10, (), ("id", "v")), (20, (), ("id", "v", "W")), (30, (), ("id", "v", "W")), (10, ("a", "b"), ("a", "b"))],
)
def test_fields_of_csv_are_the_columns_of_the_version_of_the_folder(
    of_csv: Folder, version: int, listed: tuple[str, ...], columns: tuple[str, ...]
):
    file = of_csv.file(csv("I", 31, *"1234"[: len(columns)]), folder_version=version, listed_columns=listed)

    [rows] = of_csv.reader(file).raw_rows(file, True, [])

    assert rows.columns == columns


def test_a_folder_from_before_its_table_has_no_columns(of_csv: Folder):
    file = of_csv.file(csv("I", 9, "1", "x"), folder_version=9)

    with pytest.raises(DecodeError, match=r"a schema of Shop\.T for its folder"):
        of_csv.read(file)


def test_members_of_json_are_columns_of_any_version(of_json: Folder):
    """The first spelling of a name counts."""
    of_json.timeline = timeline((10, CREATE), (20, ADD), (25, "ALTER TABLE `t` DROP COLUMN `v`"), (30, DROP))
    file = of_json.file(canal("INSERT", 11, ID="1", w="2"), listed_columns=("V", "new"))

    [rows] = of_json.reader(file).raw_rows(file, True, [])

    assert rows.columns == ("id", "v", "W", "new")
    assert listed([rows]) == [("I", 11, 0, "1", None, "2", None)]
    assert [sent.to_pylist() for sent in rows.sent or ()] == [[True], [False], [True], [False]]


@pytest.mark.parametrize(
    ("values", "columns"),
    [(("1", "x"), ("id", "v")), (("1",), ("id",)), (("1", "x", "y"), None), ((), None)],
)
def test_a_csv_file_lacks_the_columns_that_the_changefeed_leaves_out_only_on_newer_servers(
    tmp_path: Path, values: tuple[str, ...], columns: tuple[str, ...] | None
):
    """The number of fields shows it; any other number is an error of the record."""
    selectors = ColumnSelectors((ColumnSelector(TableFilter(("shop.*",)), ("*", "!v")),))
    folder = Folder(tmp_path, "csv", selectors=selectors)
    file = folder.file(csv("I", 11, *values))
    bad: list[QuarantineEntry] = []

    found = [rows.columns for rows in folder.reader(file).raw_rows(file, True, bad)]

    assert (found, len(bad)) == (([columns], 0) if columns else ([], 1))


def test_as_many_fields_as_all_columns_have_are_all_columns_though_a_handle_key_may_be_among_them(tmp_path: Path):
    """A column less and the field of a handle key more are as many."""
    selectors = ColumnSelectors((ColumnSelector(TableFilter(("shop.*",)), ("*", "!v")),))
    folder = Folder(tmp_path, "csv", selectors=selectors, csv=CsvOptions(output_handle_key=True))
    file = folder.file('"I","t","shop","1","x"\r\n')

    assert [rows.columns for rows in folder.reader(file).raw_rows(file, True, [])] == [("id", "v")]


def test_an_empty_csv_file_has_no_changes_whatever_is_left_out(tmp_path: Path):
    selectors = ColumnSelectors((ColumnSelector(TableFilter(("shop.*",)), ("*", "!v")),))
    folder = Folder(tmp_path, "csv", selectors=selectors)

    assert folder.read(folder.file()) == ([], [])


# -- row events as columns --------------------------------------------------------------------------------------------


def row(op: Op, before: dict[str, str] | None = None, *, partial: bool = False, **wire: str) -> RowEvent:
    return RowEvent("shop", "t", op, 11, wire, before, partial)


def test_old_rows_are_whole_and_only_those_of_updates():
    rows = [
        (0, row(Op.UPDATE, {"V": "old"}, partial=True, id="1", v="new")),
        (1, row(Op.UPDATE, {"id": "2"}, id="3", v="new")),
        (2, row(Op.UPDATE, id="4", v="new")),
        (3, row(Op.DELETE, {"id": "9"}, id="5")),
    ]

    found = from_events(rows, ("id", "V"), "file")

    assert found.before is not None
    assert found.has_before is not None
    assert [column.to_pylist() for column in found.wire] == [["1", "3", "4", "5"], ["new", "new", "new", None]]
    assert [column.to_pylist() for column in found.before] == [["1", "2", None, None], ["old", None, None, None]]
    assert found.has_before.to_pylist() == [True, True, False, False]


@pytest.mark.parametrize("sent", [row(Op.INSERT, id="1", x="2"), row(Op.UPDATE, {"x": "2"}, id="1")])
def test_a_row_with_a_column_that_no_schema_has_is_refused(sent: RowEvent):
    with pytest.raises(DecodeError, match=r"file, record 7: .*'x' that is in no schema file"):
        from_events([(7, sent)], ("ID",), "file")
