"""The rows of exports that Dumpling made of one TiDB, in five forms; and what other files are refused for."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.pipeline.rows.bad_rows import rules_of_file, strict_changes
from ticdc_assets.protocols.dump.form import DumpForm
from ticdc_assets.protocols.dump.rows import DumpFile
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.loaded import created
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.dump.listing import DumpedTable, is_csv_file, opened_in, read_dump
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets_tests.fixtures import CORPUS

TS = 5 << 18
FORMS = {
    "sql": DumpForm(),
    "sql-doubled-snappy": DumpForm(escapes_backslash=False),
    "csv": DumpForm(),
    "csv-flags-zstd": DumpForm("|+|", terminator="\n", null="NIL", escapes_backslash=False, has_header=False),
    "csv-bigquery-gzip": DumpForm(binary="base64"),
}
UNSIGNED = [4294967295, 18446744073709551615]
TRUTH: list[list[Any]] = [
    [
        1, -128, 65535, -8388608, -2147483648, *UNSIGNED, 1.100000023841858, 1.7976931348623157e308,
        Decimal("-1234567890123456.7891"),
        "1234567890123456789012345678901234567890123456789012345.0123456789", 1, 2**64 - 1, 2024, "abc",
        'its "q" \\ \n\r\t\0\x1a ünï 💥', "line1\nline2", b"\x00\x01\x00\x00", b"\x00'\"\\\n\xff\xfe",
        bytes(range(256)),
        date(2024, 2, 29), datetime(2024, 1, 2, 3, 4, 5, 678000),
        datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), "-838:59:58.99", "", "x,z",
        '{"a": [1, "x\\"y\\n", null]}', [1.0, 2.5, -3.0],
    ],
    [2, *[None] * 27],
    [
        3, 0, 0, 0, 0, 0, 0, -0.10000000149011612, 1e-300, Decimal("0.0000"), "0.0000000000", 0, 0, 0, "", "", "",
        b"\0\0\0\0", b"", b"", None, None, None, "00:00:00.00", "", "", '""', [0.0, 0.0, 0.0],
    ],
    [
        4, 1, 1, 1, 1, 1, 1, float(np.float32(3.40282e38)), 5e-324, Decimal("1.0000"), "1.0000000000", 1, 5, 1901,
        "\\N", "\\N",
        "NULL,\"a\",x'00'", b"\\N\0\0", b"NULL", b"\\N",
        date(9999, 12, 31), datetime(9999, 12, 31, 23, 59, 59, 999000),
        datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC), "838:59:59.00", "a", "x,y,z", '"\\\\N"',
        [1.0000000150474662e30, 1.0000000031710769e-30, 7.0],
    ],
]  # fmt: skip
"""The rows of `kinds`. FLOATs have the six digits that TiDB prints."""


def tables(variant: str) -> dict[str, DumpedTable]:
    dump = read_dump(open_root(str(CORPUS / "dumps" / variant)))
    return {table.name[1]: table for table in dump.tables}


def table_of(query: str, name: str = "t") -> TableSchema:
    return created(DdlEvent(TS, "shop", name, query, where=name, loaded=True)).table


def rows_of(variant: str, name: str, batch_bytes: int = 1 << 20) -> list[list[Any]]:
    dumped, root, form = tables(variant)[name], open_root(str(CORPUS / "dumps" / variant)), FORMS[variant]
    table = table_of(dumped.definition, name)
    found = []
    for chunk in dumped.chunks:
        file = DumpFile(chunk.path, table, form, TS, is_csv_file(chunk.path))
        with opened_in(root, chunk.path, chunk.size_bytes) as stream:
            for raw in file.read(stream, batch_bytes):
                rules = rules_of_file("a file", table, form.forms(file.is_csv, "UTC"), True)
                changes = strict_changes(raw, rules)
                assert set(raw.op.to_pylist()) == {"R"}
                found += zip(*(array.to_pylist() for array in changes.now), strict=True)
    return [list(row) for row in found]


@pytest.mark.parametrize("variant", FORMS)
def test_values_are_those_of_the_tables_whatever_flags_dumpling_had(variant: str):
    assert rows_of(variant, "kinds") == TRUTH
    assert rows_of(variant, "kinds", batch_bytes=512) == TRUTH
    assert rows_of(variant, "nokey") == [[1, "x"], [1, "x"], [2, None]]
    assert sorted(rows_of(variant, "od-schema d")) == [[1, "x"], [2, "y"]]
    assert tables(variant).keys() == {"kinds", "nokey", "empty.t%%", "od-schema d", "gens"}


@pytest.mark.parametrize("variant", FORMS)
def test_a_table_without_the_values_of_stored_generated_columns_is_refused(variant: str):
    dumped, root = tables(variant)["gens"], open_root(str(CORPUS / "dumps" / variant))
    chunk = dumped.chunks[0]
    file = DumpFile(chunk.path, table_of(dumped.definition), FORMS[variant], TS, is_csv_file(chunk.path))

    with opened_in(root, chunk.path, chunk.size_bytes) as stream, pytest.raises(DecodeError, match="--without"):
        file.check_columns(stream)


def read(text: bytes, is_csv: bool, form: DumpForm | None = None) -> list[list[Any]]:
    table = table_of("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), b BLOB)")
    found = list(DumpFile("t", table, form or DumpForm(), TS, is_csv).read(io.BytesIO(text)))
    return [list(row) for raw in found for row in zip(*(array.to_pylist() for array in raw.wire), strict=True)]


HEADER = b'"id","v","b"\r\n'
INSERT = b"INSERT INTO `t` VALUES\n"


@pytest.mark.parametrize(
    ("text", "is_csv", "sentence"),
    [
        (HEADER + b'1,"a","b', True, "row 0: expected a whole row"),
        (HEADER + b'1,"a","b"\r\n2,"a"\r\n', True, "row 1: expected a row that Dumpling wrote"),
        (HEADER + b'1,"a"x,"b"\r\n', True, "row 0: expected a row that Dumpling wrote"),
        (HEADER + b'1,,"b"\r\n', True, "row 0: expected a row that Dumpling wrote"),
        (HEADER + b'1,NULL,"b"\r\n', True, "row 0: expected a row that Dumpling wrote"),
        (HEADER + b'1,"\xff","b"\r\n', True, "column 'v': expected text in UTF-8"),
        (b'1,"a","b"\r\n', True, "header: expected names between"),
        (b'"id","w","b"\r\n', True, "columns: expected the columns of shop.t, each once, found others"),
        (b'"id","v"\r\n', True, "columns: expected values of all stored columns, found none of b"),
        (b'"id","v","b"', True, "header: expected a line that ends with"),
        (HEADER + b'1,"a","b"\n', True, "row 0: expected a row that Dumpling wrote"),
        (INSERT + b"(1,'a',x'00')", False, "row 0: expected a whole row"),
        (INSERT + b"(1,'a',x'00');\nDROP TABLE t;\n", False, "row 1: expected a row that Dumpling wrote"),
        (INSERT + b"(1,'a',x'00',2);\n", False, "row 0: expected a row that Dumpling wrote"),
        (INSERT + b"(1,'a''b',x'00');\n", False, "row 0: expected a row that Dumpling wrote"),
        (INSERT + b"(1,'a','b');\n", False, "column 'b': expected x'..'"),
        (INSERT + b"(1,x'61',x'00');\n", False, "column 'v': expected x'..'"),
        (b"DELETE FROM t;\n" + INSERT, False, "beginning: expected comments, then INSERT INTO"),
        (b"INSERT INTO t VALUES (1,'a',x'00');\n", False, "beginning: expected comments, then INSERT INTO"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_place(text: bytes, is_csv: bool, sentence: str):
    with pytest.raises(DecodeError) as error:
        read(text, is_csv)
    assert sentence in str(error.value)


def test_null_is_distinguished_from_the_text_that_stands_for_it():
    assert read(HEADER + b'1,"\\\\N",\\N\r\n2,\\N,"NULL"\r\n', True) == [["1", "\\N", None], ["2", None, b"NULL"]]
    assert read(INSERT + b"(1,'NULL',NULL),\n(2,NULL,x'');\n", False) == [["1", "NULL", None], ["2", None, ""]]


BITS = [
    (DumpForm(), True, [b'"\x01\x00"', b"\\N", b'"\xff"'], ["256", None, "255"]),
    (DumpForm(binary="hex"), True, [b'"0100"', b"\\N", b'"ff"'], ["256", None, "255"]),
    (DumpForm(binary="base64"), True, [b'"AQA="', b"\\N", b'"/w=="'], ["256", None, "255"]),
    (DumpForm(binary="base64"), False, [b"x'0100'", b"NULL", b"x'ff'"], ["256", None, "255"]),
]


@pytest.mark.parametrize(("form", "is_csv", "written", "numbers"), BITS)
def test_bits_are_written_as_bytes_are(form: DumpForm, is_csv: bool, written: list[bytes], numbers: list[str | None]):
    table = table_of("CREATE TABLE t (id INT PRIMARY KEY, b BIT(16))")
    rows = [b"%d," % number + value for number, value in enumerate(written)]
    text = (
        b"".join(row + b"\r\n" for row in rows) if is_csv else b",\n".join(b"(" + row + b")" for row in rows) + b";\n"
    )
    head = b'"id","b"\r\n' if is_csv else INSERT

    [raw] = DumpFile("t", table, form, TS, is_csv).read(io.BytesIO(head + text))

    assert raw.wire[1].to_pylist() == numbers
    assert (raw.commit_ts.to_pylist(), raw.line.to_pylist()) == ([TS] * 3, [0, 1, 2])


@pytest.mark.parametrize(("binary", "written"), [("hex", b'"AQA="'), ("base64", b'"ff"'), ("base64", b'"A-A="')])
def test_bits_of_another_form_are_refused(binary: Any, written: bytes):
    table = table_of("CREATE TABLE t (id INT PRIMARY KEY, b BIT(16))")

    with pytest.raises(DecodeError, match=f"column 'b': expected bytes in {binary}"):
        list(
            DumpFile("t", table, DumpForm(binary=binary), TS, True).read(
                io.BytesIO(b'"id","b"\r\n1,' + written + b"\r\n")
            )
        )


def test_the_columns_of_a_file_are_checked_by_its_first_row():
    table = table_of("CREATE TABLE t (id INT PRIMARY KEY, v INT, s INT AS (v + 1) STORED)")

    def checked(text: bytes, is_csv: bool, form: DumpForm | None = None) -> None:
        DumpFile("t", table, form or DumpForm(), TS, is_csv).check_columns(io.BytesIO(text))

    bare = DumpForm(has_header=False)
    for whole in (INSERT + b"(1,2,3);\n", INSERT + b"(1,2,", b""):
        checked(whole, False)
    for whole in (b"1,2,3\r\n", b"1,2", b""):
        checked(whole, True, bare)
    for text, is_csv in ((INSERT + b"(1,2);\n", False), (b"1,2\r\n3,4\r\n", True)):
        with pytest.raises(DecodeError, match="row 0: expected 3 values, of all stored columns"):
            checked(text, is_csv, bare)


@pytest.mark.parametrize(
    ("form", "header"),
    [
        (DumpForm(), b'"a\\"b","c,\\\\d"'),
        (DumpForm(escapes_backslash=False), b'"a""b","c,\\d"'),
        (DumpForm("|+|", delimiter="", has_header=True), b'a"b|+|c,\\\\d'),
    ],
)
def test_names_in_a_header_are_written_as_values_are(form: DumpForm, header: bytes):
    table = table_of('CREATE TABLE t (`a"b` INT PRIMARY KEY, `c,\\d` INT)')
    separator = form.separator.encode()

    [raw] = DumpFile("t", table, form, TS, True).read(io.BytesIO(header + b"\r\n1" + separator + b"2\r\n"))

    assert [(name, array.to_pylist()) for name, array in zip(raw.columns, raw.wire, strict=True)] == [
        ('a"b', ["1"]), ("c,\\d", ["2"]),
    ]  # fmt: skip


def test_lines_end_as_the_files_of_other_versions_of_dumpling_have_it():
    rows = [["1", "a", b"b"], ["2", None, b"\n"]]
    text = HEADER + b'1,"a","b"\r\n2,\\N,"\\n"\r\n'
    bare = text.removeprefix(HEADER)
    for lines in (text, text.replace(b"\r\n", b"\n")):
        assert read(lines, True) == rows
    for lines in (bare, bare.replace(b"\r\n", b"\n")):
        assert read(lines, True, DumpForm(has_header=False)) == rows
    prefix = b"INSERT INTO `s`.`t` (`id`,`b`,`v`) VALUES "
    insert = prefix + b"(1,x'00','a'), (2,NULL,NULL);\n" + prefix + b"(3,x'',''); \r\n"
    assert read(insert, False) == [["1", "00", "a"], ["2", None, None], ["3", "", ""]]


def test_a_file_may_name_the_time_zone_of_its_timestamps():
    file = DumpFile("t", table_of("CREATE TABLE t (id INT PRIMARY KEY)"), DumpForm(), TS, False)
    list(file.read(io.BytesIO(b"/*!40103 SET TIME_ZONE='+08:00' */;\nINSERT INTO `t` VALUES\n(1);\n")))
    assert file.zone == "+08:00"


def test_flags_that_leave_values_ambiguous_are_refused():
    with pytest.raises(ConfigError, match="expected a delimiter, or backslashes as escapes"):
        DumpForm(delimiter="", escapes_backslash=False)
    with pytest.raises(ConfigError, match="expected one ASCII character or none"):
        DumpForm(delimiter="''")
    for form in ({"separator": ""}, {"terminator": ""}):
        with pytest.raises(ConfigError, match="expected at least one character in each"):
            DumpForm(**form)
    with pytest.raises(ConfigError, match="--csv-line-terminator: expected a line end in it"):
        DumpForm(delimiter="", terminator="$")
    text = b"id,v,b\r\n1,a\\,b\\\\N,\\N\r\n2,\\\\N,x\r\n"
    assert read(text, True, DumpForm(delimiter="")) == [["1", "a,b\\N", None], ["2", "\\N", b"x"]]


@pytest.mark.parametrize("null", ["0", "-1", ".5", "1e+06", '"N"', "a,b", "a\n"])
def test_a_null_that_reads_as_a_number_or_as_no_bare_field_is_refused(null: str):
    with pytest.raises(ConfigError, match="--csv-null-value: expected a text that no value is written as"):
        DumpForm(null=null)


@pytest.mark.parametrize("null", ["", "NULL", "\\\\", "\\0", "\\,", "\\"])
def test_without_a_delimiter_a_null_that_a_text_is_written_as_is_refused(null: str):
    assert DumpForm(null="NULL").null == "NULL"
    assert DumpForm(null="\\N", delimiter="").delimiter == ""
    with pytest.raises(ConfigError, match="--csv-null-value: expected a text that no value is written as"):
        DumpForm(null=null, delimiter="")
