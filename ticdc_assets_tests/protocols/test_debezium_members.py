"""Debezium: each member of a message, and each form of a value, up to the last that it may have."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.debezium import decode, value
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column

END = 1 << 63
SOURCE = {"commit_ts": 7, "db": "s", "table": "t"}
ROW = {"op": "c", "source": SOURCE, "before": None, "after": {"a": 1}}
DDL = {"source": SOURCE, "ddl": "RENAME TABLE t TO u", "databaseName": "s"}


def of(message: dict[str, Any], key: bytes | None = None) -> Any:
    [event] = decode(key, json.dumps(message).encode(), "here", DecoderOptions())
    return event


@pytest.mark.parametrize("tso", [1, END - 1])
def test_a_commit_ts_is_a_number_of_63_bits(tso: int):
    source = {**SOURCE, "commit_ts": tso}

    assert of({**ROW, "source": source}).commit_ts == of({**DDL, "source": source}).commit_ts == tso
    assert of({"op": "m", "source": source}).ts == tso


@pytest.mark.parametrize("tso", [0, -1, END, True, "7", None])
def test_a_commit_ts_that_is_none_is_refused(tso: Any):
    for message in (ROW, DDL, {"op": "m"}):
        with pytest.raises(DecodeError, match="commit_ts"):
            of({**message, "source": {**SOURCE, "commit_ts": tso}})


A, B = {"a": 1}, {"a": 2}
IMAGES = [
    ("c", None, A, Op.INSERT, A, None), ("u", B, A, Op.UPDATE, A, B), ("u", None, A, Op.UPDATE, A, None),
    ("d", A, None, Op.DELETE, A, None),
]  # fmt: skip


@pytest.mark.parametrize(("letter", "before", "after", "op", "wire", "old"), IMAGES)
def test_a_row_has_the_images_of_its_op(letter: str, before: Any, after: Any, op: Op, wire: Any, old: Any):
    row = of({**ROW, "op": letter, "before": before, "after": after})

    assert (row.op, row.wire, row.before, row.schema, row.table) == (op, wire, old, "s", "t")


@pytest.mark.parametrize(
    "damage",
    [
        {"op": "c", "before": B}, {"op": "c", "after": None}, {"op": "u", "after": None}, {"op": "d", "before": A},
        {"op": "d", "after": None}, {"op": "x"}, {"op": 5}, {"after": {}}, {"after": [1]}, {"source": None},
        {"source": {**SOURCE, "db": ""}}, {"source": {**SOURCE, "table": None}}, {"payload": 5},
    ],
)  # fmt: skip
def test_a_row_of_another_form_is_refused(damage: dict[str, Any]):
    with pytest.raises(DecodeError):
        of({**ROW, **damage})


def test_the_key_of_a_row_is_that_of_its_message():
    assert of(ROW, b'{"a": 1, "b": 2}').hints.key == ("a", "b")
    assert of(ROW, b'{"payload": {"a": 1}, "schema": {}}').hints.key == ("a",)
    assert of(ROW, b"{}").hints.key is None
    assert of(ROW).hints.key is None


def test_a_message_may_be_in_an_envelope():
    assert of({"payload": ROW, "schema": {}}).wire == A


def test_a_message_without_an_op_is_a_statement_with_its_text():
    assert (of(DDL).schema, of(DDL).table, of(DDL).query) == ("s", "t", DDL["ddl"])
    without = of({**DDL, "databaseName": "", "source": {"commit_ts": 7}})
    assert (without.schema, without.table) == ("", "")
    for damage in ({"ddl": ""}, {"ddl": 5}, {"ddl": None}):
        with pytest.raises(DecodeError, match="an `op` or a `ddl`"):
            of({**DDL, **damage})
    for damage in ({"databaseName": 5}, {"source": {**SOURCE, "table": 5}}):
        with pytest.raises(DecodeError, match="names"):
            of({**DDL, **damage})


OLD_NAMES = [
    ([{"id": '"s"."old","s"."t"'}], ("s", "old")),
    ([{"id": '"o"."old","s"."t"'}, {"id": "x"}], ("o", "old")),
    ([{"id": '"s"."t"'}], None),
    ([{"id": '"s"."old","s"."u"'}], None),
    ([{"id": '"s"."a"."b","s"."t"'}], None),
    ([{"id": 5}], None),
    ([5], None),
    ([], None),
    ({"id": '"s"."old","s"."t"'}, None),
    (None, None),
]


@pytest.mark.parametrize(("changes", "old_name"), OLD_NAMES)
def test_a_rename_tells_the_old_name_where_it_is_clear(changes: Any, old_name: tuple[str, str] | None):
    assert of({**DDL, "tableChanges": changes}).hints.old_name == old_name


# -- values ------------------------------------------------------------------------------------------------------------


def base64(raw: bytes) -> str:
    return b64encode(raw).decode()


VALUES = [
    ("BIT", True, 1),
    ("BIT", False, 0),
    ("BIT(9)", base64(b"\xff\x01"), 511),
    ("BIT(64)", base64(b"\0" * 7 + b"\x80"), Decimal(1 << 63)),
    ("INT", 5, 5),
    ("BIGINT UNSIGNED", str((1 << 64) - 1), Decimal((1 << 64) - 1)),
    ("BIGINT UNSIGNED", -1, Decimal((1 << 64) - 1)),
    ("FLOAT", 1, 1.0),
    ("DECIMAL(5,2)", 1.5, Decimal("1.50")),
    ("DECIMAL(5,2)", 1.005, Decimal("1.00")),
    ("DECIMAL(5,2)", 5, Decimal("5.00")),
    ("DECIMAL(5,2)", "1.50", Decimal("1.50")),
    ("DATE", 0, date(1970, 1, 1)),
    ("DATE", -719162, date(1, 1, 1)),
    ("DATE", 2932896, date(9999, 12, 31)),
    ("DATETIME", 1000, datetime(1970, 1, 1, 0, 0, 1)),
    ("DATETIME(3)", 1001, datetime(1970, 1, 1, 0, 0, 1, 1000)),
    ("DATETIME(4)", 1000100, datetime(1970, 1, 1, 0, 0, 1, 100)),
    ("DATETIME(6)", -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP", "2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
    ("TIMESTAMP(6)", "2024-01-01T00:00:00.000001Z", datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    ("TIME", 3_661_000_000, "01:01:01"),
    ("TIME", 59_000_000, "00:00:59"),
    ("TIME", -3_661_000_000, "-01:01:01"),
    ("TIME(3)", 3_661_001_000, "01:01:01.001"),
    ("TIME(6)", 1, "00:00:00.000001"),
    ("TIME", 3_020_399_000_000, "838:59:59"),
    ("VECTOR(2)", "[1,2]", [1.0, 2.0]),
    ("VECTOR(2)", [1, 2.5], [1.0, 2.5]),
    ("BLOB", base64(b"\xff"), b"\xff"),
    ("ENUM('a')", "a", "a"),
    ("INT", None, None),
]  # fmt: skip


def held(written: str, wire: Any) -> Any:
    return value(Column("c", parse_type(written)), wire, "UTC")


@pytest.mark.parametrize(("written", "wire", "expected"), VALUES)
def test_a_value_is_what_its_type_makes_of_it(written: str, wire: Any, expected: Any):
    assert held(written, wire) == expected


UNUSUAL_VALUES = [
    ("BIT", base64(b"\x02")), ("BIT(9)", base64(b"\0\x02")), ("BIT", "x"), ("BIT", 1), ("INT", "5"), ("INT", True),
    ("BIGINT", "5"), ("BIGINT UNSIGNED", True), ("DECIMAL(5,2)", True), ("DECIMAL(5,2)", [1]), ("DECIMAL(5,2)", 1000),
    ("DATE", -719163), ("DATE", 2932897), ("DATE", "1"), ("DATE", True), ("DATE", END), ("DATETIME", END),
    ("DATETIME(6)", END - 1), ("TIME", END), ("TIMESTAMP", 5), ("TIMESTAMP", "2024-01-01 00:00:00"),
    ("TIMESTAMP", "2024-01-01T00:00:00+01:00"), ("TIMESTAMP", "2024-01-01T00:00:00.1234567Z"),
    ("VARCHAR(9)", 5), ("ENUM('a')", 1), ("VECTOR(2)", "x"), ("VECTOR(2)", 5),
]  # fmt: skip


@pytest.mark.parametrize(("written", "wire"), UNUSUAL_VALUES)
def test_a_value_of_another_form_is_refused_with_its_column(written: str, wire: Any):
    with pytest.raises(DecodeError, match="column `c`"):
        held(written, wire)
