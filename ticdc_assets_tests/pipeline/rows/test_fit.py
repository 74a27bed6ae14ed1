"""Whether rows have the columns of their version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.pipeline.rows.fit import ColumnRules
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets_tests.schema.history.histories import event

STATEMENT = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT, `w` INT AS (`v` + 1))"
[MADE] = fold([event(10, "t", STATEMENT)]).source_tables
RULES = ColumnRules(MADE.newest, leaves_out=lambda _: False)
WITHOUT_V = replace(RULES, leaves_out=lambda name: name == "v")


def rows(ops: str, sent: tuple[tuple[bool, ...], ...] | None = None) -> RawRows:
    """Rows that were sent with the columns `ID` and `v`, or for each column by row whether they were."""
    nulls = pa.nulls(len(ops), pa.string())
    masks = None if sent is None else tuple(pa.array(mask, pa.bool_()) for mask in sent)
    numbers = pa.array(np.arange(len(ops)))
    return RawRows(pa.array(list(ops)), numbers, numbers, numbers, ("ID", "v"), (nulls, nulls), sent=masks)


def test_rows_have_the_stored_columns_and_where_the_protocol_sends_them_the_virtual_ones():
    assert RULES.fit(("ID", "v"))
    assert not RULES.fit(("id",))
    assert WITHOUT_V.fit(("id",))
    assert RULES.unknown(("id", "w")) == "w"
    assert replace(RULES, takes_virtual=True).unknown(("id", "w")) is None
    assert replace(RULES, spelling=lambda column: f"_{column.name}").unknown(("_ID", "v")) == "v"


@pytest.mark.parametrize(
    ("sent", "key", "lacking"),
    [(("ID",), (), None), (("id", "v"), (), None), ((), (), None), (("V",), ("v",), None), (("v",), (), "id")],
)
def test_a_deleted_row_may_have_only_columns_of_its_key(
    sent: tuple[str, ...], key: tuple[str, ...], lacking: str | None
):
    assert RULES.lacking(sent, True, key) == lacking


def test_each_row_is_compared_with_the_columns_that_it_was_sent_with():
    all_sent, some_sent = (True, True, True), (True, False, True)

    assert RULES.lacking_in(rows("IUD")) is None
    assert RULES.lacking_in(rows("IDU", (all_sent, some_sent))) is None
    assert RULES.lacking_in(rows("IUD", (all_sent, some_sent))) == "v"
    assert WITHOUT_V.lacking_in(rows("IUD", (all_sent, some_sent))) is None
    assert RULES.lacking_in(rows("DID", (some_sent, all_sent))) == "id"
