"""Streams of more tables than `tables` asks for: the others hold nothing back, whatever is known of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets_tests.deliveries.wires import Debezium, SimpleJson, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, ids, shape, states

ASKED, OTHER = shape("asked"), shape("Other", version=-1)


@pytest.fixture(params=[Debezium(), SimpleJson()], ids=lambda wire: wire.name)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> SmallStream:
    """Rows of a table whose schema is known, and of an older one whose schema no message tells."""
    wire: Wire = request.param
    made = SmallStream(tmp_path, wire)
    made.create(1, ASKED)
    made.put(2, ASKED, 1)
    made.put(3, OTHER, 2)
    made.watermark(5)
    return made


def consumed(lake: FeedLake) -> int:
    """How many messages the cursor is past."""
    newest = lake.lake.control.newest()
    return StreamCursor.from_json(newest.cursor).offsets.get((TOPIC, 0), 0) if newest else 0


def test_rows_of_a_table_that_is_not_asked_for_need_no_schema(stream: SmallStream):
    lake = stream.lake(tables=["s.asked"])

    lake.publish()

    assert states(lake) == {"asked": "live"}
    assert ids(lake) == {"asked": [1]}
    assert consumed(lake) == 4
    assert lake.publish() is None


@pytest.mark.parametrize("tables", [["*.*"], ["s.other"]])
def test_messages_for_a_selected_table_wait_for_its_schema(stream: SmallStream, tables: list[str]):
    lake = stream.lake(tables=tables)

    lake.publish()

    assert states(lake)["other"] == "waiting"
    assert consumed(lake) == 0


def test_names_are_compared_as_they_are_spelt_where_the_changefeed_does_so(stream: SmallStream):
    stream.config["case-sensitive"] = True
    lake = stream.lake(tables=["s.Other"])

    lake.publish()

    assert states(lake) == {"other": "waiting"}


def test_rows_from_before_a_table_got_the_name_that_is_asked_for_wait_too(tmp_path: Path):
    stream, before = SmallStream(tmp_path, SimpleJson()), shape("before")
    stream.create(1, before)
    stream.put(2, before, 1)
    stream.put(3, replace(before, version=at(2)), 2)
    stream.rename(4, before, replace(before, name="asked"))
    stream.watermark(5)
    lake = stream.lake(tables=["s.asked"])
    lake.publish()
    assert states(lake) == {"asked": "waiting"}

    stream.bootstrap(replace(before, version=at(2)))
    stream.watermark(6)
    lake.publish()

    assert states(lake) == {"asked": "live"}
    assert sum(lake.changes().values()) == 2
