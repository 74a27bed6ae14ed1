"""CSV records one by one: where each field and record ends, what each field means, what is no record."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete
from ticdc_assets.protocols.csv.bulk import read_joined, read_stream
from ticdc_assets.protocols.csv.decoder import CsvRecord, are_halves, changes, is_complete, leading_fields, read
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.csv.records import HEADER_START, first_fields, header_bytes, record_bytes
from ticdc_assets.tso import INT64_MAX

QUOTED = CsvOptions()
BARE = CsvOptions(quote="")
TIMED = CsvOptions(include_commit_ts=True)
UPDATES = CsvOptions(include_commit_ts=True, output_old_value=True)


def shortened(data: bytes, options: CsvOptions = QUOTED, fields: int = 1) -> list[Any]:
    def short(found: CsvRecord | BadRecord | Incomplete) -> Any:
        if isinstance(found, BadRecord):
            return "bad", found.line, found.raw
        return ("cut", found.line) if isinstance(found, Incomplete) else found.fields

    return [short(found) for found in read(data, options, fields, "here")]


FIELDS = [
    (QUOTED, b'"a"', "a"), (QUOTED, b'"a""b"', 'a"b'), (QUOTED, b'""', ""), (QUOTED, b'"a,\r\nb"', "a,\r\nb"),
    (QUOTED, b"\\N", None), (QUOTED, b'"\\N"', "\\N"), (QUOTED, b"5", "5"), (QUOTED, b"-1e+06", "-1e+06"),
    (CsvOptions(null=""), b"", None), (CsvOptions(null=""), b'""', ""),
    (BARE, b"\\N", None), (BARE, b"\\\\N", "\\N"), (BARE, b"a\\,b", "a,b"), (BARE, b"a\\r\\nb", "a\r\nb"),
    (BARE, b'"a"', '"a"'), (BARE, b"a\\\\\\,b", "a\\,b"), (BARE, b"", ""),
    (CsvOptions(quote="'"), b"'a''b'", "a'b"), (CsvOptions(quote="'"), b"'\"a\"'", '"a"'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (QUOTED, b""),
        (QUOTED, b"a\\nb"),
        (QUOTED, b"-"),
        (CsvOptions(null="x"), b"\\N"),
        (CsvOptions(quote="'"), b'"a"'),
    ],
)
def test_a_bare_text_tells_that_quote_or_null_are_others_in_the_changefeed(options: CsvOptions, written: bytes):
    data = b"I,t,s,1\nI,t,s,2\n".replace(b"2", written)

    assert shortened(data, options) == [("1",), ("bad", 1, data[8:])]
    with pytest.raises(BulkUnsupported):
        list(read_stream(io.BytesIO(data), ("a",), "here", None, options))


@pytest.mark.parametrize(("options", "written", "value"), FIELDS)
def test_a_field_is_what_the_options_make_of_it(options: CsvOptions, written: bytes, value: str | None):
    record = f"{options.quote}I{options.quote},t,s,".encode() + written

    for end in (b"\n", b"\r\n"):
        assert shortened(record + end, options) == [(value,)]
        assert shortened(record + end + record + end, options) == [(value,), (value,)]


BAD = [
    (QUOTED, b"X,t,s,1\n"), (QUOTED, b"I,,s,1\n"), (QUOTED, b"I,t,,1\n"), (QUOTED, b"I,t,s\n"),
    (QUOTED, b"I,t,s,1,2\n"),
    (QUOTED, b'I,t,s,"\xff"\n'), (TIMED, b"I,t,s,x,1\n"), (TIMED, f"I,t,s,{INT64_MAX + 1},1\n".encode()),
    (TIMED, b"I,t,s,,1\n"), (UPDATES, b"I,t,s,5,x,1\n"), (BARE, b"I,t,s,a\\xb\n"), (QUOTED, b"\\N,t,s,1\n"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "record"), BAD)
def test_a_record_that_is_none_is_kept_whole_and_the_next_is_read(options: CsvOptions, record: bytes):
    leading = {TIMED: b"I,t,s,5,", UPDATES: b"I,t,s,5,true,"}.get(options, b"I,t,s,")

    assert shortened(record + leading + b"1\n", options) == [("bad", 0, record), ("1",)]


def test_a_commit_ts_may_have_63_bits_and_an_update_is_marked():
    [record] = read(f"D,t,s,{INT64_MAX},true,1\n".encode(), UPDATES, 1, "here")

    assert record == CsvRecord(0, "D", "t", "s", INT64_MAX, True, ("1",))
    [plain] = read(b"I,t,s,1\n", QUOTED, 1, "here")
    assert plain == CsvRecord(0, "I", "t", "s", None, False, ("1",))
    [other] = read(b"I,t,s,0,false,1\n", UPDATES, 1, "here")
    assert other == CsvRecord(0, "I", "t", "s", 0, False, ("1",))


def test_a_record_without_its_end_is_waited_for():
    whole = b'"I","t","s","a"\r\n'

    for cut in range(1, len(whole)):
        assert shortened(whole + whole[:cut]) == [("a",), ("cut", 1)]
    assert shortened(b"") == []


def test_what_stands_behind_a_quote_breaks_a_record():
    assert shortened(b'"I","t","s","a"x\n"I","t","s","b"\n') == [("bad", 0, b'"I","t","s","a"x\n'), ("b",)]
    assert shortened(b"'I','t','s','a'x\n'I','t','s','b'\n", CsvOptions(quote="'")) == [
        ("bad", 0, b"'I','t','s','a'x\n"), ("b",),
    ]  # fmt: skip
    assert shortened(b'"I","t","s","a"x') == [("bad", 0, b'"I","t","s","a"x')]


@pytest.mark.parametrize("record", [b'"I","","s","1"', b'"I","t","","1"', b"I,,s,1", b"I,t,,1"])
def test_records_without_a_name_are_left_to_the_reference(record: bytes):
    data = io.BytesIO((record + b"\r\n") * 2)

    with pytest.raises(BulkUnsupported):
        list(read_stream(data, ("a",), "here", None, QUOTED, 1 << 20))


@pytest.mark.parametrize("word", [b"True", b"tru", b"truee", b"", b"\\N", b"x", b"falsey"])
def test_a_record_that_is_neither_marked_nor_unmarked_is_left_to_the_reference(word: bytes):
    for sound in (b"true", b"false"):
        data = b"".join(b'"I","t","s",5,' + each + b",1\r\n" for each in (sound, word, sound))
        with pytest.raises(BulkUnsupported):
            list(read_stream(io.BytesIO(data), ("a",), "here", None, UPDATES, 1 << 20))


@pytest.mark.parametrize("other", [b'"T","s"', b'"tt","s"', b'"t","S"', b'"t","ss"', b't,"s"', b'"t",s'])
def test_a_record_of_another_table_or_with_a_bare_name_is_left_to_the_reference(other: bytes):
    data = b'"I","t","s",1\n"I",' + other + b",2\n"

    with pytest.raises(BulkUnsupported):
        list(read_stream(io.BytesIO(data), ("a",), "here", None, QUOTED, 1 << 20))


HEADER = b"ticdc-meta$operation,ticdc-meta$table\n"


def test_a_header_is_passed_over():
    assert header_bytes(HEADER + b"I") == len(HEADER)
    assert header_bytes(HEADER[:-1]) == len(HEADER) - 1
    assert header_bytes(b"I,t,s") == 0
    assert shortened(HEADER + b"I,t,s,1\n") == [("1",)]
    assert shortened(HEADER[:-1]) == [("cut", 0)]
    assert shortened(HEADER) == []
    assert first_fields(HEADER + b'"I",t\n', QUOTED) == [(b"I", True), (b"t", False)]
    assert first_fields(b'"I",t', QUOTED) is None
    assert first_fields(b'"I"x\n', QUOTED) is None


def test_the_bytes_of_records_are_found_by_their_ordinals():
    records = [b"I,t,s,1\n", b'"I"x\r\n', b'"I","t","s","\n"\n', b"I,t,s,2\n"]
    data = HEADER + b"".join(records[:1] + records[2:])

    assert record_bytes(data, QUOTED, {1}) == {1: records[2]}
    assert record_bytes(data, QUOTED, {0, 2, 9}) == {0: records[0], 2: records[3]}
    assert record_bytes(data[:-1], QUOTED, {2}) == {}
    assert record_bytes(b'"I"x\n"I","t","s",1\n', QUOTED, {0, 1}) == {0: b'"I"x\n', 1: b'"I","t","s",1\n'}


@pytest.mark.parametrize(
    ("found", "options", "leading"),
    [(4, QUOTED, 3), (5, QUOTED, None), (3, QUOTED, None), (5, TIMED, 4), (6, UPDATES, 5),
     (5, CsvOptions(output_handle_key=True), 4), (4, CsvOptions(output_handle_key=True), 3),
     (6, CsvOptions(output_handle_key=True), None)],
)  # fmt: skip
def test_the_number_of_fields_tells_how_many_stand_before_the_columns(
    found: int, options: CsvOptions, leading: int | None
):
    assert leading_fields(found, options, 1) == leading


def halves(*records: tuple[str, bool, int, str]) -> list[Any]:
    made = [CsvRecord(n, op, "t", "s", ts, update, (value,)) for n, (op, update, ts, value) in enumerate(records)]
    return [(line, str(row.op), row.wire["a"], row.before and row.before["a"]) for line, row in changes(made, ("a",))]


HALVES = [
    ([("D", True, 5, "x"), ("I", True, 5, "y")], [(1, "U", "y", "x")]),
    ([("D", True, 5, "x"), ("I", True, 6, "y")], [(0, "D", "x", None), (1, "I", "y", None)]),
    ([("D", True, 5, "x"), ("I", False, 5, "y")], [(0, "D", "x", None), (1, "I", "y", None)]),
    ([("D", False, 5, "x"), ("I", True, 5, "y")], [(0, "D", "x", None), (1, "I", "y", None)]),
    ([("D", True, 5, "x"), ("D", True, 5, "y"), ("I", True, 5, "z")], [(0, "D", "x", None), (2, "U", "z", "y")]),
    ([("I", True, 5, "x"), ("D", True, 5, "y")], [(0, "I", "x", None), (1, "D", "y", None)]),
    ([("U", False, 5, "x")], [(0, "U", "x", None)]),
]


@pytest.mark.parametrize(("records", "expected"), HALVES)
def test_two_adjoining_halves_of_one_commit_are_an_update(records: list[Any], expected: list[Any]):
    assert halves(*records) == expected


def test_halves_are_of_one_table():
    old, new = (CsvRecord(n, op, "t", "s", 5, True, ()) for n, op in enumerate("DI"))

    assert are_halves(old, new)
    for other in (CsvRecord(1, "I", "u", "s", 5, True, ()), CsvRecord(1, "I", "t", "r", 5, True, ())):
        assert not are_halves(old, other)


@pytest.mark.parametrize("method", ["base64", "hex"])
def test_values_have_the_form_that_the_options_give_them(method: Any):
    forms = CsvOptions(binary_encoding_method=method).forms("Asia/Shanghai")

    assert (forms.binary, forms.enum, forms.zone) == (method, "label", "Asia/Shanghai")


def test_a_file_is_whole_where_it_ends_as_records_do():
    assert is_complete(b"", QUOTED)
    assert is_complete(b"x\n", QUOTED)
    assert not is_complete(b"x", QUOTED)
    assert is_complete(b"x;", CsvOptions(terminator=";"))
    assert not is_complete(b"x\n", CsvOptions(terminator=";"))


@pytest.mark.parametrize(
    "wrong",
    [{"delimiter": ""}, {"delimiter": "abcd"}, {"delimiter": "a\\"}, {"delimiter": "\n"}, {"delimiter": '"'},
     {"delimiter": "'", "quote": "'"}, {"quote": "''"}, {"terminator": ""}, {"binary_encoding_method": "x"}],
)  # fmt: skip
def test_options_that_no_server_takes_are_refused(wrong: dict[str, Any]):
    assert CsvOptions(delimiter="abc", quote="'", terminator="x", binary_encoding_method="hex")
    with pytest.raises(ConfigError):
        CsvOptions(**wrong)


def test_small_files_are_read_as_one_only_if_each_has_its_whole_header_line():
    header, records = HEADER_START + b",a\r\n", b'"I","t","s",1\r\n"I","t","s",2\r\n'
    files = [header + records, header, records]

    found = read_joined(files, ("a",), "here", ("s", "t"), QUOTED)

    assert [rows.wire[0].to_pylist() for rows in found.batches] == [["1", "2", "1", "2"]]
    assert found.line_ends.tolist() == [2, 2, 4]
    for number, size in ((0, 9), (1, len(HEADER_START)), (1, len(header) - 1)):
        cut = [data[:size] if place == number else data for place, data in enumerate(files)]
        with pytest.raises((NotYetError, BulkUnsupported)):
            read_joined(cut, ("a",), "here", ("s", "t"), QUOTED)
