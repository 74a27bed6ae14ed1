"""Batches of Canal-JSON messages: which rows are read together, and which are left to the reference."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import orjson
import pyarrow as pa
import pytest

from ticdc_assets.protocols.canal_json import bulk
from ticdc_assets.protocols.canal_json.messages import column
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages, compiled_bulk
from ticdc_assets.protocols.formats.limits import COLUMNS_MAX
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets_tests.protocols.columnar.json_agreement import Pair, Stream, agree

FORM = Stream("canal-json", bulk.BULK, DecoderOptions())
COLUMN_SETS_MAX = 16


def message(
    data: str, old: str = "null", table: str = "t", kind: str = "INSERT", extension: str = ',"_tidb":{"commitTs":5}'
) -> Pair:
    head = f'"id":0,"database":"shop","table":"{table}","pkNames":["id"],"isDdl":false,"type":"{kind}"'
    types = '"sqlType":{"id":4},"mysqlType":{"id":"int"}'
    return None, f'{{{head},"es":1,"ts":1,"sql":"",{types},"old":{old},"data":[{data}]{extension}}}'.encode()


def insert(*names: str) -> Pair:
    return message(orjson.dumps({name: str(place) for place, name in enumerate(names)}).decode())


def test_rows_are_together_whose_columns_are_the_same_in_any_order():
    pairs = [insert("id", "a"), insert("a", "id"), insert("id"), insert("id", "a", "b"), insert("b", "a", "id")]

    tables = agree(FORM, pairs)

    found = {table.rows.columns: table.rows.line.to_pylist() for table in tables}
    assert found == {("id", "a"): [0, 1], ("id",): [2], ("id", "a", "b"): [3, 4]}


def test_the_last_of_very_many_sets_of_columns_are_left():
    pairs = [insert("id", f"c{number}") for number in range(COLUMN_SETS_MAX + 3)]

    assert len(agree(FORM, pairs)) == COLUMN_SETS_MAX


def test_a_row_of_more_columns_than_a_table_has_is_left():
    wide = insert(*(f"c{number}" for number in range(COLUMNS_MAX + 1)))

    (table,) = agree(FORM, [wide, insert("id"), wide])

    assert table.rows.line.to_pylist() == [1]


def test_names_with_escapes_are_those_without_them():
    pairs = [message(f'{{"{name}":"1"}}') for name in ("na\u00efve", r"na\u00efve", r"\u006ea\u00EFve", "naive")]

    tables = agree(FORM, pairs)

    assert [table.rows.line.to_pylist() for table in tables] == [[0, 1], [2], [3]]


def test_an_old_column_that_the_new_row_has_not_is_left():
    whole = message('{"id":"1","a":"x"}', '[{"a":"y"}]', kind="UPDATE")
    partial = message('{"id":"1","a":"x"}', '[{"b":"y"}]', kind="UPDATE")

    (table,) = agree(FORM, [partial, whole, partial, whole])

    assert table.rows.line.to_pylist() == [1, 3]
    assert [array.to_pylist() for array in table.rows.before or ()] == [["1", "1"], ["y", "y"]]


def test_each_message_that_breaks_a_batch_is_left_alone():
    pairs = [message('{"id":"1"}', table=f"t{n}", kind="INSERT" if n % 3 else "CREATE") for n in range(9)]

    tables = agree(FORM, pairs)

    assert sorted(table.rows.line.to_pylist()[0] for table in tables) == [1, 2, 4, 5, 7, 8]


def test_a_message_of_another_id_is_official_canals_and_left():
    (key, value) = insert("id")

    assert not agree(FORM, [(key, (value or b"").replace(b'"id":0', b'"id":7', 1))])


@pytest.mark.parametrize("read", [bulk.BULK.heads, bulk.BULK.rows])
def test_rows_without_commit_ts_are_left_where_all_must_have_one(read):
    pairs = [insert("id"), message('{"id":"1"}', extension="")]

    assert read(Messages.from_pairs(pairs), DecoderOptions(has_commit_ts=True)).left.tolist() == [False, True]
    assert not read(Messages.from_pairs(pairs), DecoderOptions()).left.any()


def test_a_small_batch_does_not_load_compiled_code(monkeypatch: pytest.MonkeyPatch):
    form = compiled_bulk("form_that_is_not_there", column)
    small, large = (Messages.from_pairs([(None, b"{}")] * count) for count in (3, 2000))

    assert [form.heads(small, None).left.tolist(), form.rows(small, None).left.tolist()] == [[True] * 3] * 2
    with pytest.raises(ModuleNotFoundError):
        form.rows(large, None)
    with pytest.raises(ModuleNotFoundError):
        form.heads(Messages(pa.nulls(1, pa.binary()), pa.array([b"{" * (2 << 20)])), None)

    found = BulkRows((), np.zeros(3, np.bool_))
    monkeypatch.setitem(
        sys.modules, "form_that_is_not_there", SimpleNamespace(BULK=SimpleNamespace(rows=lambda *_: found))
    )
    assert form.rows(small, None) is found
