"""Simple protocol: each member of a message up to the last value that it may have."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.simple.table_schema import table_schema
from ticdc_assets.protocols.values.checksum import Checksum
from ticdc_assets.schema.model import Default, Index, Kind, MySqlType
from ticdc_assets_tests.protocols.simple.simple_messages import COLUMN_ID, PRIMARY, ROW, TABLE, TS, of

END = 1 << 63
MEMBERS = [
    ("commitTs", "commit_ts", [1, END - 1], [0, -1, END, True, "5", 5.0, None]),
    ("schemaVersion", "hints.schema_version", [1, END - 1], [0, END, True]),
    ("tableID", "hints.table_id", [-END, 0, END - 1, None], [-END - 1, END, True, "5"]),
    ("handleKeyOnly", "handle_only", [True, False], [1, "true"]),
    ("database", "schema", ["s"], ["", None, 5]),
    ("table", "table", ["t"], ["", None, 5]),
]


@pytest.mark.parametrize(("member", "part", "taken", "refused"), MEMBERS, ids=[member for member, *_ in MEMBERS])
def test_a_member_has_a_value_that_it_may_have_or_the_row_is_refused(
    member: str, part: str, taken: list[Any], refused: list[Any]
):
    for found in taken:
        assert attrgetter(part)(of({**ROW, member: found})) == found
    for found in refused:
        with pytest.raises(DecodeError):
            of({**ROW, member: found})


CLAIMS = [
    ("x/y.json", "y.json"), ("x\\y.json", "y.json"), ("y.json", "y.json"), ("", None), (None, None),
]  # fmt: skip


@pytest.mark.parametrize(("location", "claim"), CLAIMS)
def test_a_claim_is_the_base_name_of_its_file(location: str | None, claim: str | None):
    row = of({**ROW, "claimCheckLocation": location})

    assert (row.claim, row.handle_only) == (claim, claim is not None)


@pytest.mark.parametrize("location", ["x/", "..", "x/.", 5])
def test_a_claim_without_a_base_name_is_refused(location: Any):
    with pytest.raises(DecodeError):
        of({**ROW, "claimCheckLocation": location})


def test_a_checksum_has_32_bits():
    last = (1 << 32) - 1
    row = of({**ROW, "checksum": {"current": last, "previous": 0, "version": 1}})

    assert row.checksum == Checksum(last, 0, version=1)
    assert of({**ROW, "checksum": {}}).checksum == Checksum(0, 0)
    assert of({**ROW, "checksum": {"corrupted": True}}).checksum.corrupted
    assert not hasattr(of(ROW), "checksum")
    for damage in ({"current": last + 1}, {"previous": -1}, {"current": True}, {"current": "5"}, {"corrupted": 1}):
        with pytest.raises(DecodeError):
            of({**ROW, "checksum": damage})


IMAGES = [
    ("INSERT", {"a": 1}, None, Op.INSERT, {"a": 1}, None, False),
    ("UPDATE", {"a": 1, "b": 2}, {"a": 0, "b": 2}, Op.UPDATE, {"a": 1, "b": 2}, {"a": 0, "b": 2}, False),
    ("UPDATE", {"a": 1, "b": 2}, {"a": 0}, Op.UPDATE, {"a": 1, "b": 2}, {"a": 0}, True),
    ("UPDATE", {"a": 1}, {"a": 0, "b": 2}, Op.UPDATE, {"a": 1}, {"a": 0, "b": 2}, False),
    ("UPDATE", {"a": 1}, None, Op.UPDATE, {"a": 1}, None, False),
    ("DELETE", None, {"a": 1}, Op.DELETE, {"a": 1}, None, False),
]


@pytest.mark.parametrize(("kind", "data", "old", "op", "wire", "before", "is_partial"), IMAGES)
def test_a_row_has_the_images_of_its_kind(
    kind: str, data: Any, old: Any, op: Op, wire: Any, before: Any, is_partial: bool
):
    row = of({**ROW, "type": kind, "data": data, "old": old})

    assert (row.op, row.wire, row.before, row.before_is_partial) == (op, wire, before, is_partial)


@pytest.mark.parametrize(
    ("kind", "data", "old"),
    [("INSERT", None, {"a": 1}), ("INSERT", {}, None), ("DELETE", {"a": 1}, None), ("INSERT", {"a": [1]}, None),
     ("UPDATE", {"a": 1}, {"a": [1]}), ("INSERT", [1], None)],
)  # fmt: skip
def test_a_row_without_its_image_is_refused_unless_only_its_key_was_sent(kind: str, data: Any, old: Any):
    with pytest.raises(DecodeError):
        of({**ROW, "type": kind, "data": data, "old": old})


def test_a_large_row_of_a_table_without_a_key_has_no_values():
    assert of({**ROW, "data": None, "handleKeyOnly": True}).wire == {}
    assert of({**ROW, "data": None, "claimCheckLocation": "x"}).wire == {}


def test_a_statement_tells_the_table_before_and_after_it():
    renamed = {**TABLE, "table": "u"}
    statement = {"version": 1, "type": "RENAME", "sql": "RENAME TABLE t TO u", "commitTs": TS, "tableSchema": renamed}

    event = of({**statement, "preTableSchema": TABLE})

    assert (event.table, event.hints.old_name, event.commit_ts) == ("u", ("shop", "t"), TS)
    assert (event.hints.version, event.hints.before_version, event.hints.table_id) == (TS - 4, TS - 4, 7)
    assert of({**statement, "tableSchema": TABLE, "preTableSchema": TABLE}).hints.old_name is None
    assert of(statement).hints.old_name is None
    dropped = of({"version": 1, "type": "ERASE", "sql": "DROP TABLE t", "commitTs": TS, "preTableSchema": TABLE})
    assert (dropped.table, dropped.after, dropped.hints.old_name, dropped.hints.version) == ("t", None, None, None)
    database = of({"version": 1, "type": "QUERY", "sql": "CREATE DATABASE d", "commitTs": TS})
    assert (database.schema, database.table, database.hints.before_version, database.hints.table_id) == (
        "",
        "",
        None,
        None,
    )


@pytest.mark.parametrize(
    "message",
    [
        {"version": 2, "type": "WATERMARK", "commitTs": TS},
        {"version": 1, "type": "WATERMARK"},
        {"version": 1, "type": 5},
        {"version": 1, "type": "OTHER"},
        {"version": 1, "type": "BOOTSTRAP"},
        {"version": 1, "type": "ALTER", "sql": "", "commitTs": TS},
        {"version": 1, "type": "ALTER", "sql": 5, "commitTs": TS},
    ],
)
def test_a_message_that_the_protocol_does_not_have_is_refused(message: dict[str, Any]):
    with pytest.raises(DecodeError):
        of(message)


def typed(kind: str, **more: Any) -> MySqlType:
    given = {"name": "c", "nullable": True, "dataType": {"mysqlType": kind, **more}}
    return table_schema({**TABLE, "columns": [given], "indexes": []}, "here").columns[0].type


WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_width_that_tidb_gives_a_whole_number_was_not_written(kind: str):
    signed, unsigned = WIDTHS[kind]

    assert typed(kind, length=signed).length is None
    assert typed(kind, length=unsigned, unsigned=True).length is None
    assert typed(kind, length=signed - 1).length == signed - 1
    assert typed(kind, length=unsigned + 1, unsigned=True).length == unsigned + 1
    assert typed(kind, length=5, decimal=3).scale is None


TYPES = [
    (("datetime", {"length": 19}), MySqlType(Kind.DATETIME)),
    (("datetime", {"length": 21}), MySqlType(Kind.DATETIME, 1)),
    (("timestamp", {"length": 26}), MySqlType(Kind.TIMESTAMP, 6)),
    (("time", {"length": 12}), MySqlType(Kind.TIME, 1)),
    (("time", {"length": 10, "decimal": 2}), MySqlType(Kind.TIME, 2)),
    (("datetime", {}), MySqlType(Kind.DATETIME)),
    (("decimal", {}), MySqlType(Kind.DECIMAL, 10, 0)),
    (("decimal", {"length": 5, "decimal": 5, "unsigned": True}), MySqlType(Kind.DECIMAL, 5, 5, unsigned=True)),
    (("char", {"length": 0, "charset": ""}), MySqlType(Kind.CHAR, 0)),
    (("char", {"length": -1}), MySqlType(Kind.CHAR)),
    (("int", {"unsigned": "yes"}), MySqlType(Kind.INT)),
    (("binary", {"length": 3, "charset": "binary"}), MySqlType(Kind.BINARY, 3)),
    (("int", {"elements": ["a"]}), MySqlType(Kind.INT)),
    (("set", {"elements": []}), MySqlType(Kind.SET, elements=())),
    (("BOOLEAN", {}), MySqlType(Kind.TINYINT)),
    (("integer(11) unsigned", {"unsigned": True}), MySqlType(Kind.INT, unsigned=True)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), TYPES)
def test_a_type_is_what_its_declaration_says(given: tuple[str, dict[str, Any]], expected: MySqlType):
    assert typed(given[0], **given[1]) == expected


@pytest.mark.parametrize("more", [{"length": True}, {"length": 7.0}, {"elements": [5]}, {"decimal": "2"}])
def test_a_type_of_another_form_is_refused(more: dict[str, Any]):
    with pytest.raises(DecodeError):
        typed("enum", **more)


def defaulted(kind: str, default: Any) -> Default | None:
    given = {"name": "c", "nullable": True, "dataType": {"mysqlType": kind}, "default": default}
    return table_schema({**TABLE, "columns": [given]}, "here").columns[0].default


def test_the_default_of_a_bit_is_a_number_of_at_most_eight_bytes():
    assert defaulted("bit", b"\xff" * 8) == Default(str((1 << 64) - 1))
    assert defaulted("bit", "5") == Default("5")
    for damage in (b"\xff" * 9, True, "-5", "²", "", 5.0):
        with pytest.raises(DecodeError):
            defaulted("bit", damage)
    with pytest.raises(DecodeError):
        defaulted("varchar", b"\xff")
    with pytest.raises(DecodeError):
        defaulted("int", 5)
    assert defaulted("timestamp", "current_timestamp()") == Default(expression="current_timestamp()")
    assert defaulted("timestamp", "2024-01-01") == Default("2024-01-01")


def test_an_index_is_unique_where_it_says_so_or_is_primary():
    def indexes(*found: dict[str, Any]) -> tuple[Index, ...]:
        return table_schema({**TABLE, "columns": [COLUMN_ID], "indexes": list(found)}, "here").indexes

    plain = {"name": "i", "columns": ["id"]}
    assert indexes(plain) == (Index("i", ("id",)),)
    assert indexes({**plain, "unique": True}) == (Index("i", ("id",), unique=True),)
    assert indexes({**plain, "primary": True}) == (Index("PRIMARY", ("id",), unique=True, primary=True),)
    assert indexes({**plain, "columns": None}) == (Index("i", ()),)
    assert indexes({**PRIMARY, "name": "PRIMARY"}, {**plain, "name": "primary", "primary": True, "columns": []}) == (
        Index("PRIMARY", ("id",), unique=True, primary=True),
    )
    assert table_schema({**TABLE, "columns": None, "indexes": None}, "here").columns == ()
