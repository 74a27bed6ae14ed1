"""What one row or schema adds to a scan: the time of a table's first row, and the columns inferred from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.state import (
    StreamForm,
    avro_schema,
    date_of,
    first_row,
    infer_from_schema,
    last_of,
    positioned_row,
    positioned_statement,
)
from ticdc_assets.protocols.canal_json.decoder import Hint
from ticdc_assets.protocols.events import Op, RowEvent, RowHints, RowTime
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS
from ticdc_assets_tests.schema.history.histories import table

T = ("shop", "t")
FORM = StreamForm("canal-json", None)
BY_POSITION = replace(FORM, dating=VersionClock.POSITION)
MESSAGE = Message("feed", 1, 7, b"k", b"v", 0)


def row(commit_ts: int | None = 20, op: Op = Op.INSERT, **more: Any) -> RowEvent:
    hints = RowHints(("id",), columns={"id": Hint("int", 4)})
    return RowEvent("shop", "T", op, commit_ts, {"id": "1"}, **{"hints": hints, **more})


def added(sent: RowEvent, form: StreamForm = FORM, ordinal: int = 5, given: int | None = None) -> StreamScan:
    scan = StreamScan()
    first_row(scan, form, sent, MESSAGE, ordinal, given)
    return scan


@pytest.mark.parametrize(
    ("sent", "form", "given", "ts"),
    [
        (row(20), FORM, None, 20),
        (row(20), FORM, 30, 30),
        (row(20), FORM, 0, 0),
        (row(20), BY_POSITION, None, 6),
        (row(20), BY_POSITION, 30, 6),
        (row(None, time=RowTime(3)), FORM, None, 3 << LOGICAL_BITS),
        (row(None), FORM, None, 0),
    ],
)
def test_the_first_row_of_a_table_has_its_commit_ts_or_the_time_that_it_is_given(
    sent: RowEvent, form: StreamForm, given: int | None, ts: int
):
    """By position, it is the place of its message, counted from 1."""
    found = added(sent, form, given=given)

    assert found.tables.first_rows == {T: ("shop", "T", ts)}
    assert found.tables.by_topic == {"feed": {T}}
    assert found.tables.inferred[T].commit_ts == max(0, ts - 1)


def test_the_columns_of_a_table_are_those_of_its_earliest_row():
    scan = StreamScan()
    wider = row(10, hints=RowHints(("id",), columns={"id": Hint("int", 4), "v": Hint("int", 4)}))
    for sent in (row(20), wider, row(15), replace(row(10), table="u")):
        first_row(scan, FORM, sent, MESSAGE, 5)

    inferred = scan.tables.inferred[T]
    assert inferred.after is not None
    assert (inferred.commit_ts, inferred.schema, inferred.table, inferred.query) == (9, "shop", "T", "")
    assert (inferred.where, inferred.origin.place) == (MESSAGE.where, None)
    assert [column.name for column in inferred.after.columns] == ["id", "v"]


@pytest.mark.parametrize(
    ("sent", "form"),
    [
        (row(hints=RowHints()), FORM),
        (row(handle_only=True), FORM),
        (row(op=Op.DELETE), replace(FORM, deletes_are_keys=True)),
        (row(hints=RowHints(columns={"id": Hint(None, 4)})), FORM),
        (row(), replace(FORM, protocol="simple")),
    ],
    ids=[
        "no types",
        "only a key",
        "a delete that may be a key",
        "a type that is not known",
        "no types in the protocol",
    ],
)
def test_a_row_that_does_not_tell_all_columns_is_still_the_first(sent: RowEvent, form: StreamForm):
    found = added(sent, form)

    assert found.tables.first_rows == {T: ("shop", "T", 20)}
    assert found.tables.inferred == {}


def test_a_row_is_whole_unless_it_is_only_a_key():
    keys = replace(FORM, deletes_are_keys=True)

    assert [FORM.is_whole(row()), FORM.is_whole(row(op=Op.DELETE)), keys.is_whole(row())] == [True] * 3
    assert [FORM.is_whole(row(handle_only=True)), keys.is_whole(row(op=Op.DELETE))] == [False] * 2


# -- events that only their position orders ---------------------------------------------------------------------------


def test_rows_and_statements_that_only_their_position_orders_get_a_time():
    """The first row in every partition is kept, since the partitions may be at different statements."""
    scan, at = StreamScan(), RowTime(3, by_position=True)
    ms = 1 << LOGICAL_BITS

    first = positioned_row(scan, row(None, time=at), MESSAGE)
    statement = positioned_statement(
        scan, DdlEvent(0, *T, "DROP TABLE t", origin=DdlOrigin(commit_ms=3)), MESSAGE._replace(offset=8)
    )
    second = positioned_row(scan, row(None, time=at), MESSAGE._replace(offset=9))
    elsewhere = positioned_row(scan, row(None, time=RowTime(2, by_position=True)), MESSAGE._replace(partition=0))

    assert (first, second, elsewhere) == (3 * ms, 3 * ms + 2, 2 * ms)
    assert (statement.commit_ts, statement.origin.place) == (3 * ms + 1, ("feed", 1, 8))
    assert {p: placed.offset for p, placed in scan.tables.first_positioned[T].items()} == {
        ("feed", 1): 7,
        ("feed", 0): 7,
    }


def test_a_schema_that_a_row_gives_has_the_place_of_the_row_where_places_order_the_stream():
    assert added(row(None, time=RowTime(3, by_position=True)), given=9).tables.inferred[T].origin.place == (
        "feed",
        1,
        7,
    )


# -- Avro --------------------------------------------------------------------------------------------------------------


class OneSchema(AvroScan):
    """Every message has this schema."""

    event: DdlEvent | None = DdlEvent(4, *T, "", after=table("t", "id"), hints=DdlHints(version=3))

    def schema(self, message: object) -> DdlEvent | None:
        return self.event


class NoSchema(OneSchema):
    event = None


AVRO = (None, (), True)


def test_a_writer_schema_is_a_statement_only_where_versions_begin_at_messages():
    """Positions count from 1: 0 is for schemas from before the stream."""
    for form, added in ((FORM, []), (BY_POSITION, [6])):
        scan, avro = StreamScan(), OneSchema(*AVRO)  # type: ignore[arg-type]
        assert avro_schema(scan, avro, form, MESSAGE, 5) == OneSchema.event
        assert [event.commit_ts for event in scan.statements] == added
    scan = StreamScan()
    assert avro_schema(scan, NoSchema(*AVRO), BY_POSITION, MESSAGE, 5) is None  # type: ignore[arg-type]
    assert scan.statements == []


def test_the_writer_schema_of_a_row_is_in_effect_from_just_before_it():
    scan, event = StreamScan(), OneSchema.event
    for ts in (20, 30, 10):
        infer_from_schema(scan, FORM, event, "Shop", "T", ts)
    infer_from_schema(scan, FORM, event, "shop", "u", None)
    infer_from_schema(scan, FORM, None, "shop", "v", 20)
    infer_from_schema(scan, BY_POSITION, event, "shop", "w", 20)

    assert event is not None
    assert scan.tables.inferred == {
        T: replace(event, commit_ts=9, hints=DdlHints()),
        ("shop", "u"): replace(event, commit_ts=0, hints=DdlHints()),
    }


# -- times and bad messages -------------------------------------------------------------------------------------------


def test_a_row_without_a_commit_ts_is_as_late_as_its_millisecond_allows():
    by_ms = VersionClock.COMMIT_MS

    assert date_of(row(20), by_ms) == 20
    assert date_of(row(20, time=RowTime(3)), by_ms) == 20
    assert date_of(row(None, time=RowTime(3)), by_ms) == last_of(3) == (4 << LOGICAL_BITS) - 1
    assert date_of(row(None, time=RowTime(3)), VersionClock.COMMIT_TS) is None
    assert date_of(row(None), by_ms) is None
