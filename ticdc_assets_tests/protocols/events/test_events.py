"""What a row's event holds where a message has a part of the row."""

from __future__ import annotations

from typing import Any

import pytest

from ticdc_assets.protocols.events import Op, RowEvent


def row(op: Op = Op.UPDATE, **more: Any) -> RowEvent:
    return RowEvent("s", "t", op, 1, {"id": 1, "v": 2}, **more)


@pytest.mark.parametrize(
    ("op", "handle_only", "is_cut"),
    [
        (Op.INSERT, True, True),
        (Op.UPDATE, True, True),
        (Op.DELETE, True, False),
        (Op.INSERT, False, False),
        (Op.DELETE, False, False),
    ],
)
def test_a_row_is_cut_where_its_key_was_sent_alone_unless_it_is_deleted(op: Op, handle_only: bool, is_cut: bool):
    assert row(op, handle_only=handle_only).is_cut is is_cut


def test_columns_that_were_not_sent_of_an_old_row_have_their_new_values():
    assert row(before={"v": 1}, before_is_partial=True).full_before == {"id": 1, "v": 1}
    assert row(before={"v": 1}).full_before == {"v": 1}
    assert row().full_before is None
    assert row(before_is_partial=True).full_before is None
