"""Open Protocol: each member of a key and value up to the last value that it may have."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.open_protocol.decoder import ColumnHint, infer_column, infer_table
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.protocols.open_protocol.open_messages import HEAD, ID, PLAIN, column, decoded, of

END = 1 << 63
BODY = {"u": {"id": ID, "a": column(1)}}
MEMBERS = [
    ("ts", "commit_ts", [1, END - 1], [0, -1, END, True, "5", None]),
    ("ptn", "hints.partition_id", [-END, 0, END - 1, None], [-END - 1, END, True, "5"]),
    ("rid", "hints.row_id", [-END, 0, END - 1, None], [-END - 1, END, True]),
    ("ohk", "handle_only", [True, False], [1, "true"]),
    ("scm", "schema", ["s"], ["", None, 5]),
    ("tbl", "table", ["t"], ["", None, 5]),
]


@pytest.mark.parametrize(("member", "part", "taken", "refused"), MEMBERS, ids=[member for member, *_ in MEMBERS])
def test_a_member_has_a_value_that_it_may_have_or_the_message_is_refused(
    member: str, part: str, taken: list[Any], refused: list[Any]
):
    for found in taken:
        [row] = decoded(({**HEAD, member: found}, BODY))
        assert attrgetter(part)(row) == found
    for found in refused:
        with pytest.raises(DecodeError):
            decoded(({**HEAD, member: found}, BODY))


@pytest.mark.parametrize(
    ("location", "claim"), [("x/y.json", "y.json"), ("x\\y.json", "y.json"), ("y", "y"), ("", None), (None, None)]
)
def test_a_claim_is_the_base_name_of_its_file(location: str | None, claim: str | None):
    [row] = decoded(({**HEAD, "ccl": location}, BODY))

    assert (row.claim, row.handle_only) == (claim, claim is not None)


@pytest.mark.parametrize("location", ["x/", "..", ".", 5, False])
def test_a_claim_without_a_base_name_is_refused(location: Any):
    with pytest.raises(DecodeError):
        decoded(({**HEAD, "ccl": location}, BODY))


A, B = column(1), column(2)
IMAGES = [
    ({"u": {"a": A}}, Op.INSERT, {"a": 1}, None, False),
    ({"u": {"a": A}, "p": {"a": B}}, Op.UPDATE, {"a": 1}, {"a": 2}, False),
    ({"u": {"a": A, "b": A}, "p": {"b": B}}, Op.UPDATE, {"a": 1, "b": 1}, {"b": 2}, True),
    ({"d": {"a": A}}, Op.DELETE, {"a": 1}, None, False),
]


@pytest.mark.parametrize(("body", "op", "wire", "before", "is_partial"), IMAGES)
def test_a_row_has_the_images_of_its_kind(body: Any, op: Op, wire: Any, before: Any, is_partial: bool):
    [row] = decoded((HEAD, body))

    assert (row.op, row.wire, row.before, row.before_is_partial) == (op, wire, before, is_partial)
    assert row.full_before == (before and {**wire, **before})


@pytest.mark.parametrize(
    "body",
    [
        {}, {"p": {"a": A}}, {"u": {"a": A}, "d": {"a": A}}, {"d": {"a": A}, "p": {"a": A}}, {"u": {}}, {"u": [A]},
        {"u": {"a": 5}}, {"u": {"a": {"t": 1, "f": 0}}}, {"u": {"a": {**A, "v": [1]}}}, {"u": {"a": {**A, "v": {}}}},
        {"u": {"a": {**A, "t": "1"}}}, {"u": {"a": {**A, "t": True}}}, {"u": {"a": {**A, "f": None}}},
        {"u": {"a": {**A, "h": 1}}},
    ],
)  # fmt: skip
def test_a_row_of_another_form_is_refused(body: Any):
    with pytest.raises(DecodeError):
        decoded((HEAD, body))


def test_a_value_tells_of_its_column():
    [row] = decoded((HEAD, {"u": {"id": ID, "a": {"t": 3, "v": None}}}))

    assert row.hints.columns == {"id": ColumnHint(3, 11, handle=True), "a": ColumnHint(3, 64, handle=False)}
    assert row.hints.key == ("id",)
    assert decoded((HEAD, {"u": {"a": A}}))[0].hints.key is None


@pytest.mark.parametrize(
    ("options", "handle_only", "upsert"),
    [
        (PLAIN, False, False),
        (PLAIN, True, False),
        (DecoderOptions(output_old_value=False), False, True),
        (DecoderOptions(only_output_updated_columns=True), False, False),
        (DecoderOptions(only_output_updated_columns=True), True, True),
    ],
)
def test_a_row_without_old_values_may_be_an_update_where_the_options_leave_it_open(
    options: DecoderOptions, handle_only: bool, upsert: bool
):
    def is_upsert(body: Any) -> bool:
        [row] = decoded(({**HEAD, "ohk": handle_only}, body), options=options)
        return row.upsert

    assert is_upsert({"u": {"a": A}}) is upsert
    assert not is_upsert({"u": {"a": A}, "p": {"a": B}})
    assert not is_upsert({"d": {"a": A}})


# -- tables from rows --------------------------------------------------------------------------------------------------

INFERRED = [
    (1, 0x40, MySqlType(Kind.TINYINT)),
    (3, 0x80, MySqlType(Kind.INT, unsigned=True)),
    (4, 0x80, MySqlType(Kind.FLOAT, unsigned=True)),
    (246, 0x80, MySqlType(Kind.DECIMAL, 65, 30, unsigned=True)),
    (13, 0x80, MySqlType(Kind.YEAR)),
    (16, 0x80, MySqlType(Kind.BIT, 64)),
    (7, 0, MySqlType(Kind.TIMESTAMP, 6)),
    (11, 0, MySqlType(Kind.TIME, 6)),
    (12, 0, MySqlType(Kind.DATETIME, 6)),
    (10, 0, MySqlType(Kind.DATE)),
    (14, 0, MySqlType(Kind.DATE)),
    (225, 0, MySqlType(Kind.VECTOR)),
    (245, 0, MySqlType(Kind.JSON)),
    (247, 0, MySqlType(Kind.ENUM)),
    (248, 0, MySqlType(Kind.SET)),
    *((code, 0, MySqlType(kind)) for code, kind in (
        (2, Kind.SMALLINT), (5, Kind.DOUBLE), (8, Kind.BIGINT), (9, Kind.MEDIUMINT), (15, Kind.VARCHAR),
        (249, Kind.TINYTEXT), (250, Kind.MEDIUMTEXT), (251, Kind.LONGTEXT), (252, Kind.TEXT), (253, Kind.VARCHAR),
        (254, Kind.CHAR),
    )),
    *((code, 0x01, MySqlType(kind)) for code, kind in (
        (15, Kind.VARBINARY), (249, Kind.TINYBLOB), (250, Kind.MEDIUMBLOB), (251, Kind.LONGBLOB), (252, Kind.BLOB),
        (253, Kind.VARBINARY), (254, Kind.BINARY), (3, Kind.INT), (245, Kind.JSON),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("code", "flags", "expected"), INFERRED)
def test_a_column_is_as_wide_as_its_type_code_can_be(code: int, flags: int, expected: MySqlType):
    assert infer_column("c", ColumnHint(code, flags, handle=False)).type == expected


@pytest.mark.parametrize("code", [0, 6, 17, 224, 226, 244, 255])
def test_a_type_code_that_is_none_is_refused(code: int):
    with pytest.raises(SchemaError, match=f"type code {code}"):
        infer_column("c", ColumnHint(code, 0, handle=False))


@pytest.mark.parametrize(
    ("flags", "handle", "nullable"),
    [(0x40, False, True), (0, False, False), (0x40, True, False), (0x48, False, False), (0x41, False, True)],
)
def test_a_column_is_nullable_where_it_says_so_and_is_no_key(flags: int, handle: bool, nullable: bool):
    assert infer_column("c", ColumnHint(3, flags, handle)) == Column("c", MySqlType(Kind.INT), nullable=nullable)


def test_the_handle_of_a_row_is_the_key_of_its_table():
    def index(**hints: tuple[int, bool]) -> list[tuple[str, tuple[str, ...], bool]]:
        table = infer_table("s", "t", {name: ColumnHint(3, *hint) for name, hint in hints.items()})
        assert table.inferred
        return [(i.name, i.columns, i.primary) for i in table.indexes]

    assert index(a=(8, True), b=(8, True), c=(64, False)) == [("PRIMARY", ("a", "b"), True)]
    assert index(a=(8, True), b=(0, True)) == [("handle", ("a", "b"), False)]
    assert index(a=(64, False)) == []


@pytest.mark.parametrize(
    ("kind", "wire"),
    [("INT", "5"), ("INT", True), ("VARCHAR", 5), ("DECIMAL", 5), ("FLOAT", "1.5"), ("TEXT", "no base64"),
     ("TEXT", "/w=="), ("DATE", 5), ("ENUM", "a")],
)  # fmt: skip
def test_a_value_of_another_json_type_is_refused_with_its_column(kind: str, wire: Any):
    with pytest.raises(DecodeError, match="column `c`"):
        of(kind, wire)


def test_text_is_in_base64_and_strings_are_as_they_are():
    assert of("TEXT", "w6k=") == "é"
    assert of("VARCHAR", "w6k=", length=9) == "w6k="
    assert of("BLOB", "w6k=") == "é".encode()
    assert of("DOUBLE", 5) == 5.0
    assert of("INT", None) is None
