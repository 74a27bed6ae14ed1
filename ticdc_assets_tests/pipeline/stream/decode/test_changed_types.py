"""Whether a message shows another type of a table's rows than earlier rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.pipeline.stream.decode.row_schemas import sample_is_unlike
from ticdc_assets.pipeline.stream.decode.task import Decoding, MessageTask, RowOrder, Schemas, VersionClock
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape
from ticdc_assets_tests.deliveries.wires import OpenProtocol

PROTOCOL = REGISTRY["open-protocol"]
TASK = MessageTask(
    "run",
    0,
    99,
    None,  # type: ignore[arg-type]
    Decoding("open-protocol", DecoderOptions(), "UTC"),
    Schemas({}, {}, {}, frozenset(), TableFilter(()), VersionClock.COMMIT_TS),
    RowOrder(False, {}),
    {},
)


def shape(name: str, column_type: str) -> Shape:
    columns = (Column("id", "INT", nullable=False), Column("v", column_type))
    return Shape(1, 1, "shop", name, columns, "id", None, 0)


def message(*shapes: Shape) -> Message:
    """One message with a row of each table."""
    [(key, value)] = OpenProtocol().rows([RowChange(5, each, "I", {"id": 1, "v": 7}) for each in shapes])
    return Message("feed", 0, 0, key, value, 0)


def table_of(of: Shape) -> TableSchema:
    """The table as it is inferred from a row."""
    sent = message(of)
    [row] = PROTOCOL.decode(sent.key, sent.value, sent.where, TASK.decoding.options)
    assert isinstance(row, RowEvent)
    assert PROTOCOL.infer is not None
    return replace(PROTOCOL.infer(row), inferred=True)


NUMBER, TEXT = shape("t", "INT"), shape("t", "VARCHAR(9)")
OTHER = shape("u", "VARCHAR(9)")


@pytest.mark.parametrize(
    ("known", "sent", "is_unlike"),
    [
        (NUMBER, (NUMBER,), False),
        (NUMBER, (TEXT,), True),
        (TEXT, (NUMBER,), True),
        (TEXT, (OTHER, NUMBER), True),  # a message may have rows of several tables
        (NUMBER, (NUMBER, OTHER), False),
        (NUMBER, (OTHER,), False),
    ],
)
def test_a_row_of_the_table_shows_another_type(known: Shape, sent: tuple[Shape, ...], is_unlike: bool):
    assert sample_is_unlike(TASK, table_of(known), ("shop", "t"), message(*sent)) is is_unlike


def test_a_table_whose_statements_are_known_is_compared_with_no_row():
    known = replace(table_of(NUMBER), inferred=False)

    assert not sample_is_unlike(TASK, known, ("shop", "t"), message(TEXT))
