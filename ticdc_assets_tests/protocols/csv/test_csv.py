"""CSV files: what TiCDC's own writer made, what a writer like it could make, and what damage does to them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete
from ticdc_assets.protocols.csv import bulk as csv_bulk
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets_tests.fixtures import Workload, needs_fixtures, workloads
from ticdc_assets_tests.protocols import storage_rows
from ticdc_assets_tests.protocols.csv.read import bulk, bulk_or_none, options_of
from ticdc_assets_tests.protocols.storage_rows import Row

CSV_WORKLOADS = workloads("storage-csv")


def reference(data: bytes, options: CsvOptions, columns: tuple[str, ...]) -> list[Row] | None:
    return storage_rows.of_reference(csv.changes(csv.read(data, options, len(columns), "f"), columns), columns)


@needs_fixtures
@pytest.mark.parametrize("workload", CSV_WORKLOADS, ids=lambda w: w.name)
def test_bulk_reads_every_file_of_ticdc_as_the_reference_does(workload: Workload) -> None:
    options, files = options_of(workload), 0
    for path, _, _, shape in storage_rows.folders(workload, "csv"):
        columns = tuple(c.name for c in shape.stored_columns)
        found = reference(path.read_bytes(), options, columns)

        assert found is not None
        assert found == storage_rows.of_bulk(
            csv_bulk.read_stream(io.BytesIO(path.read_bytes()), columns, "f", None, options, 4096)
        )
        files += 1
    assert files


@needs_fixtures
@pytest.mark.parametrize("workload", CSV_WORKLOADS, ids=lambda w: w.name)
def test_the_typed_changes_of_all_files_are_what_happened(workload: Workload) -> None:
    options, found = options_of(workload), []
    for path, schema, table, shape in storage_rows.folders(workload, "csv"):
        columns = tuple(c.name for c in shape.stored_columns)
        batches = csv_bulk.read_stream(io.BytesIO(path.read_bytes()), columns, "f", None, options)
        found += storage_rows.typed(batches, (schema, table), shape, options.forms(workload.time_zone))
    storage = workload.variant["config"]["sink"].get("cloud-storage-config", {})
    split = not storage.get("output-raw-change-event", False)
    happened = storage_rows.expected(workload, options.output_old_value, options.include_commit_ts, split)

    assert happened
    if "restart" in workload.name:
        assert set(happened) == set(found)
    else:
        assert Counter(happened) == Counter(found)


texts = st.text(
    st.one_of(st.sampled_from("\r\n\"\\',|+N\t {}\x00\x01\x1f;é中😀\u2028"), st.characters(exclude_categories=["Cs"])),
    max_size=8,
)
fields = st.one_of(st.none(), st.just("\\N"), texts, texts.map("\\N".__add__), st.integers())
some_options = st.builds(
    CsvOptions,
    delimiter=st.sampled_from([",", "|", "|+|", "||", ";;;", "\t", "é", "aba"]),
    quote=st.sampled_from(['"', '"', ""]),
    null=st.sampled_from(["\\N", "NULL", ""]),
    include_commit_ts=st.booleans(),
    output_old_value=st.booleans(),
    output_handle_key=st.booleans(),
    output_field_header=st.booleans(),
    terminator=st.sampled_from(["\r\n", "\n"]),
)


def encoded(field: str | int | None, options: CsvOptions) -> bytes:
    """As TiCDC writes a field: text quoted or escaped, numbers bare."""
    if field is None:
        return options.null.encode()
    if isinstance(field, int):
        return str(field).encode()
    if options.quote:
        return f'"{field.replace(chr(34), chr(34) * 2)}"'.encode()
    escaped = field.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
    for character in dict.fromkeys(options.delimiter):
        escaped = escaped.replace(character, "\\" + character)
    return escaped.encode()


def record(op: str, update: bool, ts: int, images: tuple[Any, ...], options: CsvOptions) -> bytes:
    parts = [encoded(op, options), encoded("t,1", options), encoded("s", options)]
    if options.include_commit_ts:
        parts.append(str(ts).encode())
    if options.output_old_value:
        parts.append(b"true" if update else b"false")
    if options.output_handle_key:
        parts.append(b'"\xff\xfe{a, b}"' if options.quote else b"\xff\xfe{a}")
    parts += [encoded(field, options) for field in images]
    return options.delimiter.encode().join(parts) + options.terminator.encode()


def field_value(field: str | int | None, options: CsvOptions) -> str | None:
    if field is None:
        return None
    text = str(field)
    return None if not options.quote and encoded(field, options).decode() == options.null else text


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, CsvOptions, tuple[str, ...], list[tuple[Any, ...]]]:
    """A file as TiCDC writes it, and the changes in it as (op, commit_ts, new, old)."""
    options = draw(some_options)
    width = draw(st.integers(1, 4))
    images = st.tuples(*[fields] * width)
    data, rows = b"", []
    if options.output_field_header:
        data = b'ticdc-meta$operation,ticdc-meta$table,a"b' + options.terminator.encode()
    for ts in range(1, draw(st.integers(0, 6)) + 1):
        op, new, old = draw(st.sampled_from("IUD")), draw(images), draw(images)
        at = ts if options.include_commit_ts else None
        new_values, old_values = (tuple(field_value(f, options) for f in image) for image in (new, old))
        if op == "U" and options.output_old_value:
            data += record("D", True, ts, old, options) + record("I", True, ts, new, options)
            rows.append(("U", at, new_values, old_values))
        else:
            data += record(op, False, ts, new, options)
            rows.append((op, at, new_values, None))
    return data, options, tuple(f"c{i}" for i in range(width)), rows


@pytest.mark.parametrize("delimiter", [",", "|", "||", "é", "aé,", "数", "|数"])
def test_every_character_of_a_delimiter_may_be_escaped_in_bulk_too(delimiter: str) -> None:
    options = CsvOptions(delimiter=delimiter, quote="", include_commit_ts=True)
    cells = [
        delimiter,
        f"x{delimiter}",
        f"{delimiter}y\\",
        *delimiter,
        *(f"{sign}{delimiter}z" for sign in delimiter),
        "",
    ]
    data = b"".join(record("I", False, ts, (cell, cell), options) for ts, cell in enumerate(cells, 1))

    read = bulk(data, options, ("a", "b"))

    assert [(row.commit_ts, *row.new) for row in read] == [(ts, cell, cell) for ts, cell in enumerate(cells, 1)]
    assert read == reference(data, options, ("a", "b"))


@given(files(), st.integers(1, 200))
@settings(max_examples=150, deadline=None)
def test_what_was_written_is_read_by_both_forms(file: Any, batch_bytes: int) -> None:
    data, options, columns, rows = file
    read = reference(data, options, columns)

    assert read is not None
    assert rows == [(row.op, row.commit_ts, row.new, row.old) for row in read]
    assert read == bulk(data, options, columns, batch_bytes)


@given(files(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_cut_anywhere_is_incomplete_or_holds_whole_records(file: Any, data: st.DataObject) -> None:
    whole, options, columns, _ = file
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    every = list(csv.read(whole, options, len(columns), "f"))
    *records, last = [*csv.read(cut, options, len(columns), "f"), None]
    if records and isinstance(records[-1], Incomplete):
        *records, last = records

    assert every[: len(records)] == records
    assert last is None or last.line == len(records)
    assert last is None or bulk_or_none(cut, options, columns, 50) is None
    assert last is not None or bulk(cut, options, columns, 50) == reference(cut, options, columns)
    assert last is not None or csv.is_complete(cut, options)


@given(files(), st.data())
@settings(max_examples=250, deadline=None)
def test_damage_never_makes_the_two_forms_disagree(file: Any, data: st.DataObject) -> None:
    whole, options, columns, _ = file
    at = data.draw(st.integers(0, len(whole)))
    removed = data.draw(st.integers(0, 3))
    put = data.draw(st.sampled_from([b"", b'"', b"\\", b"\r", b"\n", b",", b"\xff", b"\r\n", b'""', b"x", b"\x00"]))
    damaged = whole[:at] + put + whole[at + removed :]
    from_bulk = bulk_or_none(damaged, options, columns, 60)

    assert from_bulk is None or from_bulk == reference(damaged, options, columns)


PLAIN = CsvOptions(include_commit_ts=True)


def records(data: bytes, options: CsvOptions = PLAIN, columns: int = 2) -> Iterator[Any]:
    return csv.read(data, options, columns, "f")


@pytest.mark.parametrize("quote", ['"', ""])
def test_a_file_that_begins_with_an_empty_field_is_left_to_the_reference_and_not_waited_for(quote: str) -> None:
    options = CsvOptions(quote=quote, include_commit_ts=True)
    data = b",t,s,1,a,b\r\nI,t,s,2,a,b\r\n" if not quote else b',"t","s",1,"a","b"\r\n"I","t","s",2,"a","b"\r\n'

    with pytest.raises(BulkUnsupported):
        bulk(data, options, ("a", "b"))
    assert isinstance(next(iter(csv.read(data, options, 2, "f"))), BadRecord)


def test_a_broken_record_leaves_the_following_ones_whole() -> None:
    lost_quote = b'"I","t","s",1,"a","b\r\n'
    good = b'"I","t","s",2,"c","d"\r\n'
    bad, *rest = records(lost_quote + good + good)

    assert isinstance(bad, BadRecord)
    assert lost_quote == bad.raw
    assert [("c", "d"), ("c", "d")] == [r.fields for r in rest]
    assert [1, 2] == [r.line for r in rest]


def test_a_wrong_number_of_fields_names_both_numbers_and_no_value() -> None:
    (bad,) = records(b'"I","t","s",1,"secret"\r\n')

    assert isinstance(bad, BadRecord)
    assert "expected 6 fields" in str(bad.error)
    assert "found 5 fields" in str(bad.error)
    assert "secret" not in str(bad.error)


@pytest.mark.parametrize("line", [b'"X","t","s",1,"a","b"', b'"I","t","s",-1,"a","b"', b'"I","t","s",0x1,"a","b"'])
def test_an_unknown_operation_or_commit_ts_is_a_bad_record(line: bytes) -> None:
    (bad,) = records(line + b"\r\n")

    assert isinstance(bad, BadRecord)
    with pytest.raises(BulkUnsupported):
        bulk(line + b"\r\n", PLAIN, ("a", "b"))


def test_quoted_null_text_is_text_and_bare_is_null() -> None:
    (row,) = records(b'"I","t","s",1,"\\N",\\N\r\n')

    assert ("\\N", None) == row.fields
    assert [("\\N", None)] == [r.new for r in bulk(b'"I","t","s",1,"\\N",\\N\r\n', PLAIN, ("a", "b"))]


def test_update_halves_pair_only_when_they_adjoin_and_share_a_commit() -> None:
    options = CsvOptions(include_commit_ts=True, output_old_value=True)
    half = b'"%s","t","s",%d,true,%d,"x"\r\n'
    data = half % (b"D", 1, 1) + half % (b"I", 2, 2) + half % (b"D", 3, 3) + half % (b"I", 3, 4)
    for rows in (reference(data, options, ("a", "b")), bulk(data, options, ("a", "b"), 1)):
        assert rows is not None
        assert [(0, "D", 1), (1, "I", 2), (3, "U", 3)] == [row[:3] for row in rows]
        assert [None, None, ("3", "x")] == [row.old for row in rows]


def test_a_handle_key_that_newer_servers_leave_out_is_not_missed() -> None:
    options = CsvOptions(include_commit_ts=True, output_handle_key=True)
    data = b'"I","t","s",1,"a","b"\r\n'

    assert [("a", "b")] == [row.new for row in bulk(data, options, ("a", "b"))]
    assert bulk(data, options, ("a", "b")) == reference(data, options, ("a", "b"))


@pytest.mark.parametrize("digits", ["0", "007", "459802256345661443", "1234567890123456789", str(2**63 - 1)])
def test_a_commit_ts_is_read_to_its_last_digit(digits: str) -> None:
    data = f'"I","t","s",{digits},1,2\n'.encode()

    assert [int(digits)] == bulk_commit_ts(data)
    assert bulk(data, PLAIN, ("a", "b")) == reference(data, PLAIN, ("a", "b"))


@pytest.mark.parametrize("digits", ["", "-1", "1:", "1/", "1.0", str(2**63), "9" * 19, "0" * 20])
def test_a_commit_ts_that_is_none_is_left_to_the_reference(digits: str) -> None:
    assert bulk_or_none(f'"I","t","s",{digits},1,2\n'.encode(), PLAIN, ("a", "b"), 1 << 20) is None


def bulk_commit_ts(data: bytes) -> list[int]:
    return [
        ts
        for rows in csv_bulk.read_stream(io.BytesIO(data), ("a", "b"), "f", None, PLAIN)
        for ts in rows.commit_ts.to_pylist()
    ]


def test_only_a_handle_key_may_be_other_than_utf_8() -> None:
    options = CsvOptions(output_handle_key=True)

    assert bulk(b'"I","t","s","\xff",1\n', options, ("c",)) == reference(b'"I","t","s","\xff",1\n', options, ("c",))
    for data in (b'"I","\xff","s","k",1\n', b'"I","t","s","k","\xff"\n'):
        assert bulk_or_none(data, options, ("c",), 1 << 20) is None
        assert reference(data, options, ("c",)) is None


def test_records_of_another_table_are_left_to_the_reference() -> None:
    with pytest.raises(BulkUnsupported):
        bulk(b'"I","t","s",1,"a","b"\r\n"I","u","s",1,"a","b"\r\n', PLAIN, ("a", "b"))


def test_fields_of_many_megabytes_pass() -> None:
    text = '"x",\r\n' * 1_000_000
    data = record("I", False, 5, (text, None), PLAIN)

    assert [(text, None)] == [row.new for row in bulk(data + data, PLAIN, ("a", "b"), 100_000)][:1]
    assert 2 == len(list(records(data + data)))


@pytest.mark.parametrize("wrong", [{"delimiter": ""}, {"delimiter": "||||"}, {"delimiter": '"'}, {"terminator": ""}])
def test_options_that_ticdc_would_refuse_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CsvOptions(**wrong)
